"""Buckets of a series: how many points each has, their mean and their squared deviations; and smoothing over points.

A bucket is 2**level wide and begins at a multiple of its width. So the grid is the same for every series, and buckets
of one level lie inside those of the next: they are merged by their means and squared deviations (Chan), which stays
exact where the mean is large and the deviations are small. Sums of squares would not.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Buckets(Struct, frozen=True, eq=False):
    """Neighbouring buckets that have points, in ascending order. Values that are not finite are not counted."""

    level: int
    index: Ints  # a bucket is from index * 2**level to (index + 1) * 2**level
    x: NDArray[Any]  # of the last point that is counted, else of the last one
    count: Ints
    mean: Array  # NaN if none is counted
    m2: Array  # the sum of squared deviations from the mean
    pull: Array  # what its points add to the exponential average behind it

    def __len__(self) -> int:
        return len(self.index)


class Smoothing(Struct, frozen=True):
    """How to smooth: `ema` by a weight below 1, which the points before get; `gaussian` by a sigma in points."""

    kind: str
    by: float

    @property
    def weight(self) -> float:
        """The weight of an exponential average; 0 for another kind."""
        return self.by if self.kind == "ema" else 0.0


def level_for(low: float, high: float, most: int, least: int | None = None) -> int:
    """Return the lowest level at which a range has at most so many buckets; `least`: not below this level.

    A bucket ends at 0 at every level, so a range on both sides of 0 has two at least, even if one is asked for.
    """
    most = max(most, 2 if low < 0 <= high else 1)
    extent = high - low
    if least is None:
        least = math.frexp(extent / most)[1] - 2 if extent > 0 and math.isfinite(extent) else 0
    level = least
    while bucket_of(high, level) - bucket_of(low, level) >= most:
        level += 1
    return level


def bucket_of(x: float, level: int) -> int:
    """Return the index of the bucket that has this x."""
    return x >> level if isinstance(x, int) else math.floor(math.ldexp(x, -level))


def summarise(x: NDArray[Any], value: NDArray[Any], level: int, weight: float = 0.0) -> Buckets:
    """Put points into buckets; x is ascending. `weight`: also return what each adds to an exponential average."""
    index = x >> level if x.dtype.kind == "i" else np.floor(np.ldexp(x, -level)).astype(np.int64)
    value = value.astype(np.float64, copy=False)
    ones = np.ones(len(value), dtype=np.int64)
    finite = np.isfinite(value)
    if not finite.all():
        ones[~finite] = 0
    return _merge(level, index, x, ones, value, np.zeros(len(value)), value, weight)


def merge(parts: Sequence[Buckets], level: int) -> Buckets:
    """Merge buckets, ascending over all parts, into those of a higher level, or of the same; `pull` is left out."""
    names = ("x", "count", "mean", "m2")
    index = np.concatenate([part.index >> (level - part.level) for part in parts])
    x, count, mean, m2 = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _merge(level, index, x, count, mean, m2, mean, 0.0)


def _merge(
    level: int, index: Ints, x: NDArray[Any], count: Ints, mean: Array, m2: Array, value: Array, weight: float
) -> Buckets:
    """Merge neighbours with the same index: points are buckets of one point, without deviation."""
    starts = _starts(index)
    there = count > 0
    ends = np.append(starts[1:], len(index))[: len(starts)] - 1
    keys, last = index[starts], x[ends]
    if len(starts) and there.all():
        return Buckets(level, keys, last, *_moments(starts, count, mean, m2, value, weight))
    index, x = index[there], x[there]
    begins = _starts(index)
    total, middle = np.zeros(len(keys), np.int64), np.full(len(keys), np.nan)
    deviations, pull = np.zeros(len(keys)), np.zeros(len(keys))
    if len(begins):
        at = np.searchsorted(keys, index[begins])
        last[at] = x[np.append(begins[1:], len(index)) - 1]
        total[at], middle[at], deviations[at], pull[at] = _moments(
            begins, count[there], mean[there], m2[there], value[there], weight
        )
    return Buckets(level, keys, last, total, middle, deviations, pull)


def _moments(
    starts: Ints, count: Ints, mean: Array, m2: Array, value: Array, weight: float
) -> tuple[Ints, Array, Array, Array]:
    sizes = np.diff(starts, append=len(count))
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(count, starts)
        first = mean[starts]
        off = mean - np.repeat(first, sizes)  # means of neighbours are near each other: this keeps all digits
        middle = np.add.reduceat(count * off, starts) / total
        off -= np.repeat(middle, sizes)
        deviations = np.add.reduceat(m2 + count * off * off, starts)
    return total, first + middle, deviations, _pull(starts, sizes, value, weight)


def _pull(starts: Ints, sizes: Ints, value: Array, weight: float) -> Array:
    if not weight:
        return np.zeros(len(starts))
    fading = weight ** np.arange(int(sizes.max()))
    after = np.repeat(starts + sizes - 1, sizes) - np.arange(len(value))
    return (1 - weight) * np.add.reduceat(fading[after] * value, starts)


def _starts(index: Ints) -> Ints:
    return np.flatnonzero(np.append(True, index[1:] != index[:-1])) if len(index) else np.empty(0, dtype=np.int64)


def exponential(count: Ints, pull: Array, weight: float) -> Array:
    """Return the exponential average behind each bucket, from the first bucket of the series on.

    It has no bias towards its first value: it is the mean of all points until then, where the weights of points fall
    by `weight` from each to the one before. Values that are not finite are passed over. NaN: it has no point yet.
    """
    fade = weight ** count.astype(np.float64)
    sums, before = [], 0.0
    for by, more in zip(fade.tolist(), pull.tolist(), strict=True):
        before = before * by + more
        sums.append(before)
    until = np.cumsum(count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(until > 0, np.array(sums) / -np.expm1(until * math.log(weight)), np.nan)


def gaussian(value: Array, at: Ints, sigma: float) -> Array:
    """Return the mean around these points, weighted by their distance in points, up to three sigma to either side."""
    radius = max(1, math.ceil(3 * sigma))
    away = np.arange(-radius, radius + 1)
    with np.errstate(over="ignore"):  # beside a tiny sigma the next point is infinitely far away
        kernel = np.exp(-0.5 * (away / sigma) ** 2)
    out = np.empty(len(at))
    for first in range(0, len(at), 1024):  # a table of 1024 times 241 numbers, not one of millions
        places = at[first : first + 1024, None] + away
        near = value[np.clip(places, 0, max(0, len(value) - 1))]
        weights = np.where((places >= 0) & (places < len(value)) & np.isfinite(near), kernel, 0.0)
        norm = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            out[first : first + 1024] = (weights * np.where(weights > 0, near, 0.0)).sum(axis=1) / norm
    return out
