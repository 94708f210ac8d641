"""Points of series, as columns of float64 that a browser can draw without parsing each."""

import contextlib
import hashlib
import math
import struct
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from starlette.responses import Response

from vedette.asgi import Refusal
from vedette.errors import NotFoundError
from vedette.query.buckets import Smoothing
from vedette.query.curves import Curve, DrawnSoFar, Range
from vedette.query.finding import by_names, find
from vedette.query.means import Grid, Summary
from vedette.store import Reader, SeriesRow, SpanQuery
from vedette.views.web.routes import MOST_T, Request
from vedette.views.web.state import AppState

MEDIA = "application/octet-stream"
_MOST_SERIES = 500
_MOST_WIDTH = 8192
_MOST_SIGMA = 1000  # points
_MOST_BYTES = 64 << 20  # of one answer
_MOST_BEGINNINGS = 20  # of ids and names: to look for one takes up to 0.2 s, among 10,000 runs


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


class Smooth(Struct, frozen=True, forbid_unknown_fields=True):
    """How to smooth: `ema` by a weight from 0 to 1, `gaussian` by a sigma in points."""

    kind: Literal["ema", "gaussian"]
    by: float


class Wish(Struct, frozen=True, forbid_unknown_fields=True, rename={"low": "from", "high": "to"}):
    """Which series, over which x axis, which range of it, and for how many pixels.

    `buckets`: also all points in so many buckets at most; `smooth`: with the smoothed value at the end of each.
    """

    of: list[Of]
    x: str = "step"
    low: float | None = None
    high: float | None = None
    width: int = 800
    since: Since | None = None
    buckets: int = 0
    smooth: Smooth | None = None


class Bucketed(Struct, frozen=True):
    """A series in buckets, from all its points; bucket i begins at `origin + i * width`. The rest are columns."""

    width: float
    origin: float
    index: tuple[int, int]
    x: tuple[int, int]  # of the last point of each bucket
    count: tuple[int, int]  # of values that are finite
    mean: tuple[int, int]
    m2: tuple[int, int]  # squared deviations from the mean, summed
    smooth: tuple[int, int]  # the smoothed value at x


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
    buckets: Bucketed | None  # None: not asked for, or as before


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
    _check(wish)
    rows = _rows(store, wish.of)
    asked_for = msgspec.json.encode([wish, [(row.id, row.count) for row in rows]])
    key = hashlib.sha256(asked_for).digest()  # a request may be long, and the cache does not count keys
    body = state.cache.get(key, lambda: _encode(state, store, rows, wish))
    return Response(body, 200, {"Cache-Control": "no-store"}, MEDIA)


def _check(wish: Wish) -> None:
    if not 0 <= wish.buckets <= _MOST_WIDTH:
        raise Refusal(400, f"buckets is {wish.buckets}: it is from 1 to {_MOST_WIDTH}, or 0 for none")
    if wish.smooth is None:
        return
    if not wish.buckets:
        raise Refusal(400, "smooth needs buckets: say how many, since a smoothed value is told at the end of each")
    most = 1 if wish.smooth.kind == "ema" else _MOST_SIGMA
    if not 0 < wish.smooth.by < most:
        raise Refusal(400, f"smooth is by {wish.smooth.by}: {wish.smooth.kind} takes more than 0 and less than {most}")


def _rows(store: Reader, wanted: list[Of]) -> list[SeriesRow]:
    known = _known(store, wanted)
    # The page asks by ids, also of runs without such a series; a person asks by names.
    ids = _ids(store, {one.run for one in wanted} - {run for run, _ in known})
    known |= _known(store, [Of(ids[one.run], one.name) for one in wanted if one.run in ids])
    wanted = [Of(ids.get(one.run, one.run), one.name, one.tags) for one in wanted]
    found = {
        row.id: row
        for one in wanted
        for row in known.get((one.run, one.name), ())
        if one.tags is None or row.tags == one.tags
    }
    return list(found.values())[: 4 * _MOST_SERIES]


def _known(store: Reader, wanted: list[Of]) -> dict[tuple[str, str], list[SeriesRow]]:
    """Return the series by the id of their run and their name, with any tags."""
    known: dict[tuple[str, str], list[SeriesRow]] = {}
    by_name: dict[str, set[str]] = {}
    for one in wanted:
        by_name.setdefault(one.name, set()).add(one.run)
    for name, runs in by_name.items():
        for row in store.series(sorted(runs), name):
            known.setdefault((row.span, row.name), []).append(row)
    return known


def _ids(store: Reader, runs: set[str]) -> dict[str, str]:
    """Return the ids of those that are no ids, but names or beginnings; raise Refusal if these are too many."""
    if not runs:
        return {}
    runs = runs - {row.id for row in store.spans(SpanQuery(ids=tuple(runs), only=()))}
    ids = by_names(store, runs)
    unknown = runs - ids.keys()
    if len(unknown) > _MOST_BEGINNINGS:
        raise Refusal(
            400, f"{len(unknown)} of these are no id and no name of a run: {_MOST_BEGINNINGS} at most can be looked for"
        )
    for run in unknown:
        with contextlib.suppress(NotFoundError):
            ids[run] = find(store, run).id
    return ids


def _encode(state: AppState, store: Reader, rows: list[SeriesRow], wish: Wish) -> bytes:
    wanted = Range(wish.width, wish.low, wish.high)
    grid = Grid(wish.buckets, wish.low, wish.high)
    smoothing = Smoothing(wish.smooth.kind, wish.smooth.by) if wish.smooth else None
    drawn, columns = [], _Columns()
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    steps: dict[str, float] = {}
    for row in rows:
        number = str(row.id)
        curve = state.curves.draw(store, row, wish.x, wanted, _drawn_so_far(wish.since, number))
        same = curve.only_new and not len(curve.x)
        summary = state.means.read(store, row, wish.x, grid, smoothing) if wish.buckets and not same else None
        drawn.append(_drawn(row, curve, summary, columns))
        times[number], counts[number] = curve.last_t / 1e6, curve.count
        if curve.count:
            steps[number] = curve.last_step
    head = msgspec.json.encode(Head(drawn, Since(times, counts, steps)))
    head += b" " * (-(len(head) + 4) % 8)  # JSON ignores blanks, and the columns are aligned to 8 bytes
    return struct.pack("<I", len(head)) + head + b"".join(columns.all)


def _drawn_so_far(since: Since | None, number: str) -> DrawnSoFar | None:
    if since is None or not isinstance(since.t, dict) or number not in since.counts or number not in since.t:
        return None
    count = since.counts[number]
    if not 0 <= since.t[number] <= MOST_T or count < 0 or (count and number not in since.steps):
        return None  # not one of our cursors
    step = since.steps.get(number, -math.inf)
    return DrawnSoFar(round(since.t[number] * 1e3) * 1000, count, step)  # points are stored to the microsecond


class _Columns:
    """The columns behind a header."""

    def __init__(self) -> None:
        self.all: list[bytes] = []
        self._at = 0

    def add(self, column: Any) -> tuple[int, int]:
        """Add a column; return where it is."""
        self.all.append(np.asarray(column).astype("<f8").tobytes())
        self._at += len(column)
        if 8 * self._at > _MOST_BYTES:
            raise Refusal(400, f"these are more than {_MOST_BYTES >> 20} MiB of points: ask for less, or fewer pixels")
        return self._at - len(column), len(column)


def _drawn(row: SeriesRow, curve: Curve, summary: Summary | None, columns: _Columns) -> Drawn:
    ends: tuple[Any, Any] = (float(curve.x[0]), float(curve.x[-1])) if len(curve.x) else (None, None)
    x, y = columns.add(curve.x), columns.add(curve.y)
    buckets = None
    if summary is not None:
        names = ("index", "x", "count", "mean", "m2", "smooth")
        buckets = Bucketed(summary.width, summary.origin, *(columns.add(getattr(summary, name)) for name in names))
    return Drawn(
        row.span, row.name, row.tags, x, y, curve.count, curve.exact, *ends, curve.odd.tolist(), curve.only_new, buckets
    )
