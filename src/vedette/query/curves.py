"""Curves: the points of a series as many as fit on a screen, exact where they fit, with every spike where they do not.

A chunk never changes, so what it looks like from afar is worked out once. From afar a chunk is a few points: of each
of its parts the first, the lowest, the highest and the last. Seen from nearby it is read whole.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vedette.errors import NotFoundError
from vedette.query.downsample import PER_PIXEL, odd, pick
from vedette.query.tries import standing, try_of
from vedette.store import Piece, Points, Reader, SeriesRow, joined

_PARTS = 16  # of a chunk, from afar
_MOST_FAR = 20_000  # chunks that are remembered from afar: about 20 MB
_MOST_ODD = 1000  # places of NaN and infinities that are told of a curve

Array = NDArray[np.float64]


class Curve(Struct, frozen=True, eq=False):
    """A series as it is drawn. `x` is a step, milliseconds, or another metric; `odd`: x of what is no finite number."""

    x: Array
    y: Array
    odd: Array
    count: int  # points of the whole series
    exact: bool  # all points of the range are here
    last_t: int  # nanoseconds
    since: bool  # only what is new since the last look is here


class Range(Struct, frozen=True):
    """Which part of x is wanted, and on how many pixels it is drawn."""

    width: int
    low: float | None = None
    high: float | None = None


class Curves:
    """Draws series for any number of readers; any thread may ask."""

    def __init__(self) -> None:
        self._far: OrderedDict[int, Points] = OrderedDict()
        self._lock = threading.Lock()

    def draw(
        self, store: Reader, series: SeriesRow, x: str, wanted: Range, since_t: int = 0, since_count: int = -1
    ) -> Curve:
        """Draw a series over `x`: step, time, or the name of another metric of the same span.

        `since_t`, `since_count`: the newest point that was seen, and how many there were: if nothing else has come,
        only what is newer is drawn.
        """
        outline = store.outline(series.id)
        count = sum(piece.count for piece in outline)
        last_t = max((piece.last_t for piece in outline), default=0)
        if since_count >= 0 and x in ("step", "time"):
            new = self._since(store, outline, since_t)
            if new is not None and since_count + len(new) == count:
                return _curve(_axis(new, x), new.value, wanted, count, last_t, exact=True, since=True)
        if x in ("step", "time") and len({try_of(piece.process) for piece in outline}) <= 1:
            points, exact = self._near_enough(store, outline, x, wanted)
        else:
            points, exact = standing(store, store.parts([series.id]))[series.id], True
        along = _axis(points, x) if x in ("step", "time") else _other(store, series, x, points)
        return _curve(along, points.value, wanted, count, last_t, exact=exact, since=False)

    @staticmethod
    def _since(store: Reader, outline: Sequence[Piece], since_t: int) -> Points | None:
        tail = [piece for piece in outline if piece.last_t > since_t]
        if sum(piece.count for piece in tail) > 1_000_000:
            return None
        points = joined([points for _, points in store.chunks(tail)])
        new = points.t > since_t
        return Points(points.step[new], points.t[new], points.value[new])

    def _near_enough(self, store: Reader, outline: Sequence[Piece], x: str, wanted: Range) -> tuple[Points, bool]:
        """Return points that look right at this width, and whether they are all there are."""
        total = sum(piece.count for piece in outline)
        room = PER_PIXEL * wanted.width
        if total <= max(room, 4 * 16384):
            return joined([points for _, points in store.chunks(outline)]), True
        far = self._from_afar(store, outline)
        spans = [(piece, *_reach(_axis(points, x))) for piece, points in far]
        low = min((low for _, low, _ in spans), default=0.0) if wanted.low is None else wanted.low
        high = max((high for _, _, high in spans), default=0.0) if wanted.high is None else wanted.high
        seen = _with_neighbours(spans, low, high)
        pixel = (high - low) / max(1, wanted.width)
        # One that is cut by an edge is read whole: its extremes may lie on the other side.
        near = {piece.id for piece, a, b in seen if (b - a) / _PARTS > pixel or a < low or b > high}
        if sum(piece.count for piece, _, _ in seen) <= room:
            near = {piece.id for piece, _, _ in seen}
        coarse = {piece.id: points for piece, points in far}
        fine = {piece.id: points for piece, points in store.chunks([one for one, _, _ in seen if one.id in near])}
        parts = [fine.get(piece.id, coarse[piece.id]) for piece, _, _ in seen]
        return joined(parts), len(near) == len(seen)

    def _from_afar(self, store: Reader, outline: Sequence[Piece]) -> list[tuple[Piece, Points]]:
        with self._lock:
            known = {piece.id: self._far[piece.id] for piece in outline if piece.id in self._far}
        for piece, points in store.chunks([piece for piece in outline if piece.id not in known]):
            known[piece.id] = _thin(points)
        with self._lock:
            for piece in outline:
                if piece.id in known:
                    self._far[piece.id] = known[piece.id]
                    self._far.move_to_end(piece.id)
            while len(self._far) > _MOST_FAR:
                self._far.popitem(last=False)
        return [(piece, known[piece.id]) for piece in outline if piece.id in known]


def _thin(points: Points) -> Points:
    """Return a chunk from afar; what is no finite number stays, up to a limit."""
    if len(points) <= PER_PIXEL * _PARTS:
        return points
    value = points.value.astype(np.float64, copy=False)
    strange = odd(value)
    low = high = value
    if len(strange):
        low, high = (np.where(np.isfinite(value), value, far) for far in (np.inf, -np.inf))
    size = len(points) // _PARTS
    rest = np.arange(_PARTS * size, len(points))  # fewer than there are parts: all of them stay
    starts = np.arange(_PARTS) * size
    lowest = starts + low[: _PARTS * size].reshape(_PARTS, size).argmin(axis=1)
    highest = starts + high[: _PARTS * size].reshape(_PARTS, size).argmax(axis=1)
    kept = np.unique(np.concatenate((starts, starts + size - 1, lowest, highest, rest, strange[:_MOST_ODD])))
    return Points(points.step[kept], points.t[kept], points.value[kept])


def _axis(points: Points, x: str) -> Array:
    return points.t / 1e6 if x == "time" else points.step.astype(np.float64)


def _with_neighbours(
    spans: list[tuple[Piece, float, float]], low: float, high: float
) -> list[tuple[Piece, float, float]]:
    """Return the chunks that reach into a range, and the nearest on each side of it."""
    before = max((span for span in spans if span[2] < low), key=lambda span: span[2], default=None)
    after = min((span for span in spans if span[1] > high), key=lambda span: span[1], default=None)
    return [span for span in spans if (span[2] >= low and span[1] <= high) or span is before or span is after]


def _reach(along: Array) -> tuple[float, float]:
    return (float(along.min()), float(along.max())) if len(along) else (0.0, 0.0)


def _other(store: Reader, series: SeriesRow, name: str, points: Points) -> Array:
    """Return another metric at the steps of these points: where it has none, the one before."""
    rows = [row for row in store.series([series.span], name) if row.tags == series.tags] or [
        row for row in store.series([series.span], name) if not row.tags
    ]
    if not rows:
        raise NotFoundError(f"run {series.span} has no series {name!r} to draw {series.name!r} over")
    other = standing(store, store.parts([rows[0].id]))[rows[0].id]
    if not len(other):
        return np.full(len(points), np.nan)
    place = np.searchsorted(other.step, points.step, "right") - 1
    values = other.value.astype(np.float64)[np.maximum(place, 0)]
    return np.where(place >= 0, values, np.nan)


def _curve(x: Array, y: NDArray[Any], wanted: Range, count: int, last_t: int, *, exact: bool, since: bool) -> Curve:
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    if len(x) and np.any(x[1:] < x[:-1]):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    sound = np.isfinite(x)
    if not sound.all():
        x, y = x[sound], y[sound]
    first, last = _inside(x, wanted)
    # A neighbour on each side, where there is one: a line goes on beyond the screen.
    before, after = range(max(0, first - 1), first), range(last, min(len(x), last + 1))
    kept = pick(x[first:last], y[first:last], wanted.width) + first
    exact = exact and len(kept) == last - first
    kept = np.array([*before, *kept, *after], dtype=np.int64)
    strange = odd(y[first:last])[:_MOST_ODD] + first
    return Curve(x[kept], y[kept], x[strange], count, exact, last_t, since)


def _inside(x: Array, wanted: Range) -> tuple[int, int]:
    """Return where the range begins and ends in an x that climbs."""
    first = 0 if wanted.low is None else int(np.searchsorted(x, wanted.low, "left"))
    last = len(x) if wanted.high is None else int(np.searchsorted(x, wanted.high, "right"))
    return first, max(first, last)
