"""Means of series: all points of a range in buckets, and smoothing that begins at the first point of the series.

A curve on the screen keeps the extremes of its pixels, so nothing that is averaged may be computed from it. Here every
point counts. A chunk never changes, so its buckets are computed once and cached; a zoomed-in range reads its points.
"""

import contextlib
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vedette.ids import enclosing
from vedette.query.buckets import (
    Array,
    Buckets,
    Ints,
    Smoothing,
    bucket_of,
    exponential,
    gaussian,
    level_for,
    merge,
    summarise,
)
from vedette.query.curves import ATTEMPTS, ChunksChangedError, other_metric, read_chunks
from vedette.query.tries import standing
from vedette.store import ChunkRow, Points, Reader, SeriesRow, SpanQuery, by_step

_PER_CHUNK = 128  # buckets of a chunk in the cache, at most
_MOST_CACHED = 5000  # chunks in the cache: about 40 MB
_AT_ONCE = 4 * 16384  # up to so many points are read as a whole: that is as fast
_FAR = 2.0**1000  # beyond it the edge of a bucket would be no float any more, so that x counts as infinite


class Grid(Struct, frozen=True):
    """The part of x that is wanted, and in how many buckets at most."""

    most: int
    low: float | None = None
    high: float | None = None


class Summary(Struct, frozen=True, eq=False):
    """A series in buckets of the same width; the bucket with index i begins at `origin + i * width`."""

    width: float
    origin: float
    index: Ints
    x: Array  # of the last point of each bucket
    count: Ints  # of finite values
    mean: Array
    m2: Array
    smooth: Array  # the smoothed value at x


class _Coarse(Struct, frozen=True, eq=False):
    """The buckets of a whole chunk, and the x of its first and last point."""

    buckets: Buckets
    first: int
    last: int


class _Axis(Struct, frozen=True):
    """Along what buckets lie: steps, or microseconds since the run began; both are whole numbers."""

    x: str
    origin: int  # nanoseconds

    def along(self, points: Points) -> NDArray[Any]:
        return points.step if self.x == "step" else (points.t - self.origin) // 1000

    def into(self, x: float) -> float:
        """Turn the x of a page, in steps or milliseconds, into ours."""
        return x if self.x == "step" else x * 1e3 - self.origin / 1e3

    def out(self, x: NDArray[Any]) -> Array:
        return x.astype(np.float64) if self.x == "step" else x / 1e3 + self.origin / 1e6


class Means:
    """Summarises series for any number of readers; thread-safe."""

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[ChunkRow, _Axis, float], _Coarse] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, store: Reader, series: SeriesRow, x: str, grid: Grid, smoothing: Smoothing | None) -> Summary:
        """Summarise a series over `x`: step, time, or the name of another metric of the same span."""
        axis = _Axis(x, _start(store, series.span) if x == "time" else 0)
        by_chunks = x in ("step", "time") and (smoothing is None or smoothing.kind == "ema")
        for _ in range(ATTEMPTS if by_chunks else 0):
            outline = store.outline(series.id)
            if len({enclosing(chunk.process) for chunk in outline}) > 1:
                break  # a later try may supersede points
            if sum(chunk.count for chunk in outline) <= _AT_ONCE:
                break
            with contextlib.suppress(ChunksChangedError):
                found = self._by_chunks(store, outline, axis, grid, smoothing)
                if found is None:
                    break
                return found
        points = standing(store, store.parts([series.id]))[series.id]
        if x in ("step", "time"):
            return _at_once(axis.along(points), points.value, axis, grid, smoothing)
        return _at_once(other_metric(store, series, x, points), points.value, _Axis("step", 0), grid, smoothing)

    def _by_chunks(
        self, store: Reader, outline: Sequence[ChunkRow], axis: _Axis, grid: Grid, smoothing: Smoothing | None
    ) -> Summary | None:
        """Summarise chunk by chunk; None if chunks overlap: then smoothing needs their points in one order."""
        weight = smoothing.weight if smoothing else 0.0
        coarse = self._coarse_chunks(store, outline, axis, weight)
        order = sorted(coarse, key=lambda chunk: (coarse[chunk].first, chunk.first_t))
        if any(coarse[a].last > coarse[b].first for a, b in itertools.pairwise(order)):
            return None
        low, high, level = _reach(coarse[order[0]].first, coarse[order[-1]].last, axis, grid, 0)
        first, last = bucket_of(low, level), bucket_of(high, level)
        in_view = [
            bucket_of(coarse[chunk].last, level) >= first and bucket_of(coarse[chunk].first, level) <= last
            for chunk in order
        ]
        wanted = zip(order, in_view, strict=True)
        fine = read_chunks(store, [one for one, seen in wanted if seen and coarse[one].buckets.level > level])
        parts = [
            _of_points(axis, fine[chunk], level, weight).buckets if chunk in fine else coarse[chunk].buckets
            for chunk in order
        ]
        shown = [part for part, seen in zip(parts, in_view, strict=True) if seen]
        if not shown:
            return _summary(axis, level, summarise(np.empty(0, np.int64), np.empty(0), level), np.empty(0), first, last)
        merged = merge(shown, level)
        smooth = np.full(len(merged), np.nan)
        if weight:
            count, pull = (np.concatenate([getattr(part, name) for part in parts]) for name in ("count", "pull"))
            behind = exponential(count, pull, weight)
            seen = np.repeat(in_view, [len(part) for part in parts])
            index = np.concatenate([part.index >> (level - part.level) for part in shown])
            counted = count[seen] > 0  # the last of those pieces of a bucket that have a number
            index, behind = index[counted], behind[seen][counted]
            ends = np.flatnonzero(np.append(index[1:] != index[:-1], True)) if len(index) else np.empty(0, np.int64)
            smooth[np.searchsorted(merged.index, index[ends])] = behind[ends]
        return _summary(axis, level, merged, smooth, first, last)

    def _coarse_chunks(
        self, store: Reader, outline: Sequence[ChunkRow], axis: _Axis, weight: float
    ) -> dict[ChunkRow, _Coarse]:
        with self._lock:
            known = {c: self._cache[c, axis, weight] for c in outline if (c, axis, weight) in self._cache}
        for chunk, points in store.chunks([chunk for chunk in outline if chunk not in known]):
            known[chunk] = _of_points(axis, points, None, weight)
        with self._lock:
            for chunk, found in known.items():
                if chunk.id < 0:  # not sealed yet: it will have grown at the next look
                    continue
                self._cache[chunk, axis, weight] = found
                self._cache.move_to_end((chunk, axis, weight))
            while len(self._cache) > _MOST_CACHED:
                self._cache.popitem(last=False)
        if len(known) < len(outline):
            raise ChunksChangedError
        return known


def _start(store: Reader, span: str) -> int:
    rows = store.spans(SpanQuery(ids=(span,), only=()))
    return (rows[0].start_t or 0) if rows else 0


def _of_points(axis: _Axis, points: Points, level: int | None, weight: float) -> _Coarse:
    """Summarise a chunk, at a level or at one of its own."""
    points = by_step(points.step, points.t, points.value)  # a chunk has them as they were logged
    along = axis.along(points)
    value = points.value
    if axis.x == "time":
        along, value = _ascending(along, value)
    first, last = int(along[0]), int(along[-1])
    if level is None:
        level = level_for(first, last, _PER_CHUNK, 0)
    return _Coarse(summarise(along, value, level, weight), first, last)


def _at_once(along: NDArray[Any], value: NDArray[Any], axis: _Axis, grid: Grid, smoothing: Smoothing | None) -> Summary:
    """Summarise points that are all here."""
    if along.dtype.kind == "f":
        sound = np.abs(along) <= _FAR
        along, value = along[sound], value[sound]
    along, value = _ascending(along, value)
    begin, stop = (along[0].item(), along[-1].item()) if len(along) else (0, 0)
    low, high, level = _reach(begin, stop, axis, grid, None if along.dtype.kind == "f" else 0)
    first, last = bucket_of(low, level), bucket_of(high, level)
    start, end = (int(np.searchsorted(along, math.ldexp(index, level))) for index in (first, last + 1))
    found = summarise(along[start:end], value[start:end], level, weight := smoothing.weight if smoothing else 0.0)
    smooth, counted = np.full(len(found), np.nan), found.count > 0
    if weight and counted.any():
        before = summarise(np.zeros(start, np.int64), value[:start], 0, weight)  # one bucket, if there are any
        count, pull = np.append(before.count, found.count), np.append(before.pull, found.pull)
        smooth[counted] = exponential(count, pull, weight)[len(before) :][counted]
    elif smoothing is not None and counted.any():
        value = value.astype(np.float64, copy=False)
        finite = np.flatnonzero(np.isfinite(value[start:end])) + start
        smooth[counted] = gaussian(value, finite[np.cumsum(found.count[counted]) - 1], smoothing.by)
    return _summary(axis, level, found, smooth, first, last)


def _ascending(along: NDArray[Any], value: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    if np.any(along[1:] < along[:-1]):
        order = np.argsort(along, kind="stable")
        return along[order], value[order]
    return along, value


def _reach(first: float, last: float, axis: _Axis, grid: Grid, least: int | None) -> tuple[float, float, int]:
    """Return the range that is wanted, and the level that shows it in as many buckets as there may be."""
    low = first if grid.low is None else axis.into(max(-_FAR, min(_FAR, grid.low)))
    high = max(low, last if grid.high is None else axis.into(max(-_FAR, min(_FAR, grid.high))))
    return low, high, level_for(low, high, grid.most, least)


def _summary(axis: _Axis, level: int, found: Buckets, smooth: Array, first: int, last: int) -> Summary:
    shown = slice(int(np.searchsorted(found.index, first)), int(np.searchsorted(found.index, last, "right")))
    scale = 1.0 if axis.x == "step" else 1e-3
    return Summary(
        math.ldexp(scale, level), axis.origin / 1e6, found.index[shown], axis.out(found.x[shown]), found.count[shown],
        found.mean[shown], found.m2[shown], smooth[shown],
    )  # fmt: skip
