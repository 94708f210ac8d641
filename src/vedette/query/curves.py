"""Curves: the points of a series, reduced to what a screen can show.

All points are returned if they fit; otherwise fewer points, which keep every spike. A chunk never changes, so we
compute a coarse version of it once and cache it: the chunk is cut into parts, and each part keeps its first, lowest,
highest and last point. A zoomed-in curve reads the whole chunk.
"""

import contextlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vedette.errors import NotFoundError
from vedette.ids import enclosing
from vedette.query.downsample import PER_PIXEL, odd, pick
from vedette.query.tries import standing
from vedette.store import ChunkRow, Points, Reader, SeriesRow, joined

_PARTS = 16  # parts that a chunk is cut into for its coarse version
_MOST_COARSE = 20_000  # coarse chunks in the cache: about 20 MB
_MOST_ODD = 1000  # positions of NaN and infinities that a curve lists
ATTEMPTS = 4  # how often we try to read the chunks of a series while the hub merges them

Array = NDArray[np.float64]


class Curve(Struct, frozen=True, eq=False):
    """A series, ready to draw. `x`: steps, milliseconds, or another metric; `odd`: the x of NaN and infinite values."""

    x: Array
    y: Array
    odd: Array
    count: int  # points of the whole series
    exact: bool  # it has all points of the range
    last_t: int  # nanoseconds
    only_new: bool  # it has only the points that the reader has not drawn yet
    last_step: float = -math.inf  # the greatest step of the whole series


class DrawnSoFar(Struct, frozen=True):
    """What a reader has drawn already: the time of the newest point, the number of points, and the greatest step."""

    t: int
    count: int
    step: float


class Range(Struct, frozen=True):
    """The part of x to draw, and its width in pixels."""

    width: int
    low: float | None = None
    high: float | None = None


class ChunksChangedError(Exception):
    """A listed chunk was merged or removed before we read it."""


class Curves:
    """Draws series for any number of readers; thread-safe."""

    def __init__(self) -> None:
        self._coarse: OrderedDict[ChunkRow, Points] = OrderedDict()  # the cache
        self._lock = threading.Lock()

    def draw(self, store: Reader, series: SeriesRow, x: str, wanted: Range, drawn: DrawnSoFar | None = None) -> Curve:
        """Draw a series over `x`: step, time, or the name of another metric of the same span.

        `drawn`: what the reader has already; if all new points come after that, only these are returned.
        """
        for _ in range(ATTEMPTS if x in ("step", "time") else 0):
            outline = store.outline(series.id)
            if len({enclosing(chunk.process) for chunk in outline}) > 1:
                break  # a later try may supersede points, so read the series as a whole
            with contextlib.suppress(ChunksChangedError):
                return self._draw(store, outline, x, wanted, drawn)
        parts = store.parts([series.id])
        points = standing(store, parts)[series.id]
        count = sum(len(part.points) for part in parts[series.id])
        last_t = max((int(part.points.t.max()) for part in parts[series.id]), default=0)
        along = _axis(points, x) if x in ("step", "time") else other_metric(store, series, x, points)
        totals = _Totals(count, last_t, _greatest([points]))
        return _curve(along, points.value, wanted, totals, exact=True, only_new=False)

    def _draw(
        self, store: Reader, outline: Sequence[ChunkRow], x: str, wanted: Range, drawn: DrawnSoFar | None
    ) -> Curve:
        count = sum(chunk.count for chunk in outline)
        last_t = max((chunk.last_t for chunk in outline), default=0)
        new = None if drawn is None else self._after(store, outline, drawn.t)
        if drawn is not None and new is not None and drawn.count + len(new) == count:
            first, last = (new.step.min(), new.step.max()) if len(new) else (math.inf, -math.inf)
            if x == "time" or first >= drawn.step:
                totals = _Totals(count, last_t, max(drawn.step, float(last)))
                return _curve(_axis(new, x), new.value, wanted, totals, exact=True, only_new=True)
        points, last_step, exact = self._near_enough(store, outline, x, wanted)
        totals = _Totals(count, last_t, last_step)
        return _curve(_axis(points, x), points.value, wanted, totals, exact=exact, only_new=False)

    @staticmethod
    def _after(store: Reader, outline: Sequence[ChunkRow], after_t: int) -> Points | None:
        tail = [chunk for chunk in outline if chunk.last_t > after_t]
        if sum(chunk.count for chunk in tail) > 1_000_000:
            return None
        points = joined(list(read_chunks(store, tail).values()))
        new = points.t > after_t
        return Points(points.step[new], points.t[new], points.value[new])

    def _near_enough(
        self, store: Reader, outline: Sequence[ChunkRow], x: str, wanted: Range
    ) -> tuple[Points, float, bool]:
        """Return enough points for this width, the greatest step, and whether these are all points."""
        total = sum(chunk.count for chunk in outline)
        room = PER_PIXEL * wanted.width
        if total <= max(room, 4 * 16384):
            points = joined(list(read_chunks(store, outline).values()))
            return points, _greatest([points]), True
        coarse = self._coarse_chunks(store, outline)
        reaches = [(chunk, *_reach(_axis(points, x))) for chunk, points in coarse.items()]
        low = min((low for _, low, _ in reaches), default=0.0) if wanted.low is None else wanted.low
        high = max((high for _, _, high in reaches), default=0.0) if wanted.high is None else wanted.high
        in_view = _with_neighbours(reaches, low, high)
        pixel = (high - low) / max(1, wanted.width)
        # A chunk that crosses an edge of the range is read whole: its coarse extremes may be outside the range.
        whole = [chunk for chunk, a, b in in_view if (b - a) / _PARTS > pixel or a < low or b > high]
        if sum(chunk.count for chunk, _, _ in in_view) <= room:
            whole = [chunk for chunk, _, _ in in_view]
        fine = read_chunks(store, whole)
        parts = [fine.get(chunk, coarse[chunk]) for chunk, _, _ in in_view]
        return joined(parts), _greatest(coarse.values()), len(whole) == len(in_view)

    def _coarse_chunks(self, store: Reader, outline: Sequence[ChunkRow]) -> dict[ChunkRow, Points]:
        with self._lock:
            known = {chunk: self._coarse[chunk] for chunk in outline if chunk in self._coarse}
        for chunk, points in store.chunks([chunk for chunk in outline if chunk not in known]):
            known[chunk] = _thin(points)
        with self._lock:
            for chunk, points in known.items():
                if chunk.id < 0:  # not sealed yet: it will have grown at the next look
                    continue
                self._coarse[chunk] = points
                self._coarse.move_to_end(chunk)
            while len(self._coarse) > _MOST_COARSE:
                self._coarse.popitem(last=False)
        if len(known) < len(outline):
            raise ChunksChangedError
        return {chunk: known[chunk] for chunk in outline}


class _Totals(Struct, frozen=True):
    """Numbers of the whole series, however much of it is drawn."""

    count: int
    last_t: int
    last_step: float


def read_chunks(store: Reader, chunks: Sequence[ChunkRow]) -> dict[ChunkRow, Points]:
    """Return the points of all these chunks; raise ChunksChangedError when one is gone: the curve would have a gap."""
    found = dict(store.chunks(chunks))
    if len(found) < len(chunks):
        raise ChunksChangedError
    return found


def _greatest(parts: Iterable[Points]) -> float:
    return max((float(points.step.max()) for points in parts if len(points)), default=-math.inf)


def _thin(points: Points) -> Points:
    """Return the coarse version of a chunk; NaN and infinities are kept, up to a limit."""
    if len(points) <= PER_PIXEL * _PARTS:
        return points
    value = points.value.astype(np.float64, copy=False)
    strange = odd(value)
    low = high = value
    if len(strange):
        low, high = (np.where(np.isfinite(value), value, substitute) for substitute in (np.inf, -np.inf))
    size = len(points) // _PARTS
    rest = np.arange(_PARTS * size, len(points))  # fewer than _PARTS points: keep them all
    starts = np.arange(_PARTS) * size
    lowest = starts + low[: _PARTS * size].reshape(_PARTS, size).argmin(axis=1)
    highest = starts + high[: _PARTS * size].reshape(_PARTS, size).argmax(axis=1)
    chosen = np.unique(np.concatenate((starts, starts + size - 1, lowest, highest, rest, strange[:_MOST_ODD])))
    return Points(points.step[chosen], points.t[chosen], points.value[chosen])


def _axis(points: Points, x: str) -> Array:
    return points.t / 1e6 if x == "time" else points.step.astype(np.float64)


def _with_neighbours(
    reaches: list[tuple[ChunkRow, float, float]], low: float, high: float
) -> list[tuple[ChunkRow, float, float]]:
    """Return the chunks that overlap a range, and the nearest chunk on each side of it."""
    before = max((one for one in reaches if one[2] < low), key=lambda one: one[2], default=None)
    after = min((one for one in reaches if one[1] > high), key=lambda one: one[1], default=None)
    return [one for one in reaches if (one[2] >= low and one[1] <= high) or one is before or one is after]


def _reach(along: Array) -> tuple[float, float]:
    return (float(along.min()), float(along.max())) if len(along) else (0.0, 0.0)


def other_metric(store: Reader, series: SeriesRow, name: str, points: Points) -> Array:
    """Return another metric's values at the steps of these points; at a step that it lacks, its value before that."""
    rows = [row for row in store.series([series.span], name) if row.tags == series.tags] or [
        row for row in store.series([series.span], name) if not row.tags
    ]
    if not rows:
        raise NotFoundError(f"run {series.span} has no series {name!r} to draw {series.name!r} over")
    other = standing(store, store.parts([rows[0].id]))[rows[0].id]
    if not len(other):
        return np.full(len(points), np.nan)
    index = np.searchsorted(other.step, points.step, "right") - 1
    values = other.value.astype(np.float64)[np.maximum(index, 0)]
    return np.where(index >= 0, values, np.nan)


def _curve(x: Array, y: NDArray[Any], wanted: Range, totals: _Totals, *, exact: bool, only_new: bool) -> Curve:
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    if len(x) and np.any(x[1:] < x[:-1]):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    sound = np.isfinite(x)
    if not sound.all():
        x, y = x[sound], y[sound]
    first, last = _inside(x, wanted)
    # Keep one neighbour on each side, so that the line is drawn up to the edge of the screen.
    before, after = range(max(0, first - 1), first), range(last, min(len(x), last + 1))
    chosen = pick(x[first:last], y[first:last], wanted.width) + first
    exact = exact and len(chosen) == last - first
    chosen = np.array([*before, *chosen, *after], dtype=np.int64)
    strange = odd(y[first:last])[:_MOST_ODD] + first
    return Curve(x[chosen], y[chosen], x[strange], totals.count, exact, totals.last_t, only_new, totals.last_step)


def _inside(x: Array, wanted: Range) -> tuple[int, int]:
    """Return the indices where the range begins and ends in a sorted x."""
    first = 0 if wanted.low is None else int(np.searchsorted(x, wanted.low, "left"))
    last = len(x) if wanted.high is None else int(np.searchsorted(x, wanted.high, "right"))
    return first, max(first, last)
