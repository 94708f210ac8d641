"""Points of series, as columns of float64 that a browser can draw without parsing each."""

import hashlib
import math
import struct
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from vedette.asgi import Refusal
from vedette.query.curves import Curve, Curves, DrawnSoFar, Range
from vedette.store import Reader, SeriesRow
from vedette.views.web.routes import MOST_T, Request
from vedette.views.web.state import AppState

MEDIA = "application/octet-stream"
_MOST_SERIES = 500
_MOST_WIDTH = 8192


class Of(Struct, frozen=True, forbid_unknown_fields=True):
    """One series; without tags: all series of that name."""

    run: str
    name: str
    tags: dict[str, str] | None = None


class Since(Struct, frozen=True):
    """The cursor of an earlier answer: how far each series was."""

    t: dict[str, float] | float = {}
    counts: dict[str, int] = {}
    steps: dict[str, float] = {}


class Wish(Struct, frozen=True, forbid_unknown_fields=True, rename={"low": "from", "high": "to"}):
    """Which series, over which x axis, which range of it, and for how many pixels."""

    of: list[Of]
    x: str = "step"
    low: float | None = None
    high: float | None = None
    width: int = 800
    since: Since | None = None


class Drawn(Struct, frozen=True):
    """A series; `x` and `y` say where its columns are after the header: [offset in float64s, count]."""

    run: str
    name: str
    tags: dict[str, str]
    x: tuple[int, int]
    y: tuple[int, int]
    count: int
    exact: bool
    first_x: float | None
    last_x: float | None
    nan: list[float]
    since: bool  # these points follow those that were sent before; else they are all


class Head(Struct, frozen=True):
    """The header of the answer; the columns follow it."""

    series: list[Drawn]
    cursor: Since


def series(state: AppState, store: Reader, request: Request) -> Response:
    """Answer with a header and columns."""
    wish: Wish = request.body
    if len(wish.of) > _MOST_SERIES:
        raise Refusal(400, f"{_MOST_SERIES} series at most can be drawn at once")
    if not 1 <= wish.width <= _MOST_WIDTH:
        raise Refusal(400, f"width is {wish.width}: it is from 1 to {_MOST_WIDTH} pixels")
    rows = _rows(store, wish.of)
    asked_for = msgspec.json.encode([wish, [(row.id, row.count) for row in rows]])
    key = hashlib.sha256(asked_for).digest()  # a request may be long, and the cache does not count keys
    body = state.cache.get(key, lambda: _encode(state.curves, store, rows, wish))
    return Response(body, 200, {"Cache-Control": "no-store"}, MEDIA)


def _rows(store: Reader, wanted: list[Of]) -> list[SeriesRow]:
    known: dict[tuple[str, str], list[SeriesRow]] = {}
    by_name: dict[str, set[str]] = {}
    for one in wanted:
        by_name.setdefault(one.name, set()).add(one.run)
    for name, runs in by_name.items():
        for row in store.series(sorted(runs), name):
            known.setdefault((row.span, row.name), []).append(row)
    found = {
        row.id: row
        for one in wanted
        for row in known.get((one.run, one.name), ())
        if one.tags is None or row.tags == one.tags
    }
    return list(found.values())[: 4 * _MOST_SERIES]


def _encode(curves: Curves, store: Reader, rows: list[SeriesRow], wish: Wish) -> bytes:
    wanted = Range(wish.width, wish.low, wish.high)
    drawn, columns, at = [], [], 0
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    steps: dict[str, float] = {}
    for row in rows:
        number = str(row.id)
        curve = curves.draw(store, row, wish.x, wanted, _drawn_so_far(wish.since, number))
        size = len(curve.x)
        drawn.append(_drawn(row, curve, at))
        columns += [curve.x.astype("<f8").tobytes(), curve.y.astype("<f8").tobytes()]
        at += 2 * size
        times[number], counts[number] = curve.last_t / 1e6, curve.count
        if curve.count:
            steps[number] = curve.last_step
    head = msgspec.json.encode(Head(drawn, Since(times, counts, steps)))
    head += b" " * (-(len(head) + 4) % 8)  # JSON ignores blanks, and the columns are aligned to 8 bytes
    return struct.pack("<I", len(head)) + head + b"".join(columns)


def _drawn_so_far(since: Since | None, number: str) -> DrawnSoFar | None:
    if since is None or not isinstance(since.t, dict) or number not in since.counts or number not in since.t:
        return None
    count = since.counts[number]
    if not 0 <= since.t[number] <= MOST_T or count < 0 or (count and number not in since.steps):
        return None  # not one of our cursors
    step = since.steps.get(number, -math.inf)
    return DrawnSoFar(round(since.t[number] * 1e3) * 1000, count, step)  # points are stored to the microsecond


def _drawn(row: SeriesRow, curve: Curve, at: int) -> Drawn:
    size = len(curve.x)
    ends: tuple[Any, Any] = (float(curve.x[0]), float(curve.x[-1])) if size else (None, None)
    return Drawn(
        row.span, row.name, row.tags, (at, size), (at + size, size), curve.count, curve.exact, *ends,
        curve.odd.tolist(), curve.only_new,
    )  # fmt: skip
