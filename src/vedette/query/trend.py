"""The trend of a series for a sparkline: its whole curve, from the first point to the last, in a few means.

A very long series is read in part: some of its chunks, evenly spread, with the first and the last one.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vedette.ids import enclosing
from vedette.query.tries import standing
from vedette.store import Points, Reader, joined

CELLS = 64  # means of a trend, at most
_AT_ONCE = 8 * 16384  # up to so many points are read whole
_MOST_CHUNKS = 16  # that are read of a longer series


class Stretches(Struct, frozen=True, eq=False):
    """A curve in some stretches of neighbouring points, in the order of steps.

    Many of them are held, one for each run that somebody looks at, so they are columns.
    """

    t: NDArray[np.int64]  # of the last point of each
    mean: NDArray[np.float64]  # NaN if none of its points is finite
    points: int  # that were read
    scale: float  # how many points each of these stands for

    def __len__(self) -> int:
        return len(self.t)

    @property
    def weight(self) -> NDArray[np.float64]:
        """How many points each stretch stands for."""
        starts, ends = _bounds(self.points, len(self))
        return (ends - starts) * np.float64(self.scale)


NONE = Stretches(np.empty(0, np.int64), np.empty(0), 0, 1.0)


def whole(store: Reader, series: int) -> Stretches:
    """Return the whole curve of a series."""
    outline = store.outline(series)
    several = len({enclosing(chunk.process) for chunk in outline}) > 1  # a later try may supersede points
    total = sum(chunk.count for chunk in outline)
    if several or total <= _AT_ONCE:
        return _stretches(standing(store, store.parts([series]))[series], 1.0)
    spread = np.unique(np.linspace(0, len(outline) - 1, _MOST_CHUNKS).round().astype(int))
    points = joined([one for _, one in store.chunks([outline[at] for at in spread])])
    return _stretches(points, total / max(1, len(points)))


def cells(stretches: Stretches, later: Sequence[tuple[int, float]] = ()) -> list[float]:
    """Return a trend as means of equal shares of its points; `later`: single points that came since, by time.

    Of these only some are known, so each stands for as many points as usually came in the time since the one before.
    """
    took = int(stretches.t[-1] - stretches.t[0]) if len(stretches) else 0
    known = stretches.weight
    rate = float(known.sum()) / took if took > 0 else 0.0
    before = int(stretches.t[-1]) if len(stretches) else None
    weights = []
    for t, _ in later:
        weights.append(1.0 if before is None else max(1.0, rate * (t - before)))
        before = t
    means = np.concatenate((stretches.mean, [value for _, value in later]))
    weight = np.concatenate((known, weights))
    count = CELLS
    if len(means) <= count:
        return [float(one) for one in means]
    middle = np.cumsum(weight) - weight / 2
    place = np.minimum((middle * count / weight.sum()).astype(int), count - 1)
    weight = np.where(np.isfinite(means), weight, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        total = np.bincount(place, weight, count)
        sums = np.bincount(place, weight * np.where(weight > 0, means, 0.0), count)
        shown = sums / total
    taken = np.unique(place)  # a stretch that is longer than a cell leaves no hole behind it
    return [float(one) for one in shown[taken]]


def _stretches(points: Points, scale: float) -> Stretches:
    size = len(points)
    if not size:
        return NONE
    value = points.value.astype(np.float64, copy=False)
    starts, ends = _bounds(size, min(CELLS, size))
    if size > CELLS:
        finite = np.isfinite(value)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            mean = np.add.reduceat(np.where(finite, value, 0.0), starts) / np.add.reduceat(finite, starts, dtype=float)
    else:
        mean = np.where(np.isfinite(value), value, np.nan)
    return Stretches(points.t[ends - 1], mean, size, scale)


def _bounds(points: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each of so many stretches of neighbouring points begins and ends."""
    edges = np.arange(count + 1) * points // max(1, count)
    return edges[:-1], edges[1:]
