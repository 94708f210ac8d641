"""The trend of a series for a sparkline: its whole curve, from the first point to the last, in a few means.

A very long series is read in part: some of its chunks, evenly spread, with the first and the last one.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from vedette.ids import enclosing
from vedette.query.tries import standing
from vedette.store import Points, Reader, joined

CELLS = 64  # means of a trend, at most
_AT_ONCE = 8 * 16384  # up to so many points are read whole
_MOST_CHUNKS = 16  # that are read of a longer series


class Stretch(Struct, frozen=True):
    """Some neighbouring points: the time of the last one, their mean (NaN if none is finite), how many they are."""

    t: int
    mean: float
    weight: float


def whole(store: Reader, series: int) -> list[Stretch]:
    """Return the whole curve of a series, in the order of steps."""
    outline = store.outline(series)
    several = len({enclosing(chunk.process) for chunk in outline}) > 1  # a later try may supersede points
    total = sum(chunk.count for chunk in outline)
    if several or total <= _AT_ONCE:
        return _stretches(standing(store, store.parts([series]))[series], 1.0)
    spread = np.unique(np.linspace(0, len(outline) - 1, _MOST_CHUNKS).round().astype(int))
    points = joined([one for _, one in store.chunks([outline[at] for at in spread])])
    return _stretches(points, total / max(1, len(points)))


def cells(stretches: Sequence[Stretch], later: Sequence[tuple[int, float]] = ()) -> list[float]:
    """Return a trend as means of equal shares of its points; `later`: single points that came since, by time.

    Of these only some are known, so each stands for as many points as usually came in the time since the one before.
    """
    known = list(stretches)
    took = known[-1].t - known[0].t if known else 0
    rate = sum(one.weight for one in known) / took if took > 0 else 0.0
    for t, value in later:
        known.append(Stretch(t, value, max(1.0, rate * (t - known[-1].t)) if known else 1.0))
    count = CELLS
    if len(known) <= count:
        return [one.mean for one in known]
    means, weight = (np.array([getattr(one, name) for one in known], float) for name in ("mean", "weight"))
    middle = np.cumsum(weight) - weight / 2
    place = np.minimum((middle * count / weight.sum()).astype(int), count - 1)
    weight = np.where(np.isfinite(means), weight, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        total = np.bincount(place, weight, count)
        sums = np.bincount(place, weight * np.where(weight > 0, means, 0.0), count)
        shown = sums / total
    taken = np.unique(place)  # a stretch that is longer than a cell leaves no hole behind it
    return [float(one) for one in shown[taken]]


def _stretches(points: Points, weight: float) -> list[Stretch]:
    size = len(points)
    if not size:
        return []
    count = min(CELLS, size)
    value = points.value.astype(np.float64, copy=False)
    starts = np.arange(count) * size // count
    ends = np.append(starts[1:], size)
    if size > count:
        finite = np.isfinite(value)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            known = np.add.reduceat(np.where(finite, value, 0.0), starts) / np.add.reduceat(finite, starts, dtype=float)
    else:
        known = np.where(np.isfinite(value), value, np.nan)
    columns = points.t[ends - 1].tolist(), known.tolist(), (weight * (ends - starts)).tolist()
    return [Stretch(*one) for one in zip(*columns, strict=True)]
