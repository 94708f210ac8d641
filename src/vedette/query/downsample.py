"""Fewer points that look the same: each pixel keeps its first, lowest, highest and last point, so no spike is lost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_PIXEL = 4


def downsample(x: NDArray[Any], y: NDArray[Any], width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most four points per pixel, in their order and unchanged; all points if they fit."""
    chosen = pick(x, y, width)
    return (x, y) if len(chosen) == len(x) else (x[chosen], y[chosen])


def pick(x: NDArray[Any], y: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Return the indices of the points to keep, in ascending order.

    The lowest and the highest are chosen among the finite values. NaN and infinities are kept only when they are first
    or last in their pixel; `odd` finds them all. If x is not sorted, such as another metric, pixels are equal shares of
    the points.
    """
    width = max(1, width)
    if len(x) <= PER_PIXEL * width:
        return np.arange(len(x))
    starts = _starts(x, width)
    whole = bool(np.isfinite(y).all())
    chosen: list[int] = []
    for start, end in zip(starts, [*starts[1:], len(x)], strict=True):
        if end - start <= PER_PIXEL:
            chosen.extend(range(start, end))
            continue
        part = y[start:end]
        extremes = _extremes(part) if whole else _finite_extremes(part)
        chosen.extend(sorted({start, *(start + index for index in extremes), end - 1}))
    return np.array(chosen, dtype=np.int64)


def odd(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of NaN and infinite values."""
    return np.flatnonzero(~np.isfinite(y))


def _starts(x: NDArray[Any], width: int) -> list[int]:
    """Return the index of the first point of each pixel that has points."""
    first, last = x[0].item(), x[-1].item()
    is_sorted = bool(np.all(x[1:] >= x[:-1]))  # False if there is a NaN
    if not is_sorted or not np.isfinite(float(last) - float(first)):
        return [len(x) * pixel // width for pixel in range(width)]
    if isinstance(first, int):  # a float is too coarse for nanoseconds since 1970
        edges = np.array([first + (last - first) * pixel // width for pixel in range(1, width)], dtype=x.dtype)
    else:
        edges = (first + (last - first) * (np.arange(1, width) / width)).astype(x.dtype)
    begins = np.unique(np.concatenate(([0], np.searchsorted(x, edges))))
    return [int(index) for index in begins if index < len(x)]


def _extremes(part: NDArray[Any]) -> tuple[int, ...]:
    return int(part.argmin()), int(part.argmax())


def _finite_extremes(part: NDArray[Any]) -> tuple[int, ...]:
    finite = np.flatnonzero(np.isfinite(part))
    return tuple(int(finite[index]) for index in _extremes(part[finite])) if len(finite) else ()
