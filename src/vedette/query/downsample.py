"""Fewer points that look the same: of each pixel the first, lowest, highest and last, so that every spike stays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_PIXEL = 4


def downsample(x: NDArray[Any], y: NDArray[Any], width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most four points a pixel, in their order, each one as it was given; all of them where they fit."""
    kept = pick(x, y, width)
    return (x, y) if len(kept) == len(x) else (x[kept], y[kept])


def pick(x: NDArray[Any], y: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Return the places of the points to keep, ascending.

    Lowest and highest are those of the finite values: NaN and infinities stay where they are first or last, and hide
    nothing beside them; who draws asks for their places by `odd`. An x that does not climb, such as another metric,
    is cut by place.
    """
    width = max(1, width)
    if len(x) <= PER_PIXEL * width:
        return np.arange(len(x))
    starts = _starts(x, width)
    whole = bool(np.isfinite(y).all())
    kept: list[int] = []
    for start, end in zip(starts, [*starts[1:], len(x)], strict=True):
        if end - start <= PER_PIXEL:
            kept.extend(range(start, end))
            continue
        part = y[start:end]
        extremes = _extremes(part) if whole else _finite_extremes(part)
        kept.extend(sorted({start, *(start + place for place in extremes), end - 1}))
    return np.array(kept, dtype=np.int64)


def odd(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of what is no finite number."""
    return np.flatnonzero(~np.isfinite(y))


def _starts(x: NDArray[Any], width: int) -> list[int]:
    """Return where each pixel that has points begins."""
    first, last = x[0].item(), x[-1].item()
    climbs = bool(np.all(x[1:] >= x[:-1]))  # False where there is a NaN
    if not climbs or not np.isfinite(float(last) - float(first)):
        return [len(x) * pixel // width for pixel in range(width)]
    if isinstance(first, int):  # nanoseconds since 1970 are more than a float can tell apart
        edges = np.array([first + (last - first) * pixel // width for pixel in range(1, width)], dtype=x.dtype)
    else:
        edges = (first + (last - first) * (np.arange(1, width) / width)).astype(x.dtype)
    begins = np.unique(np.concatenate(([0], np.searchsorted(x, edges))))
    return [int(place) for place in begins if place < len(x)]


def _extremes(part: NDArray[Any]) -> tuple[int, ...]:
    return int(part.argmin()), int(part.argmax())


def _finite_extremes(part: NDArray[Any]) -> tuple[int, ...]:
    there = np.flatnonzero(np.isfinite(part))
    return tuple(int(there[place]) for place in _extremes(part[there])) if len(there) else ()
