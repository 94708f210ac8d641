"""Small charts made of characters: a sparkline and a bar."""

import math
from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float], width: int) -> str:
    """Return a sparkline, the newest on the right; a cell is the mean of its values, or a dot if none is finite."""
    count = min(width, len(values))
    if count <= 0:
        return ""
    means = [_mean(values[n * len(values) // count : (n + 1) * len(values) // count]) for n in range(count)]
    known = [value for value in means if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join("·" if value is None else _LEVELS[_level(value, low, high)] for value in means)


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(value / len(finite) for value in finite) if finite else None


def _level(value: float, low: float, high: float) -> int:
    if high <= low:
        return 3
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the span of two floats can be infinite
    return min(len(_LEVELS) - 1, max(0, round(share * (len(_LEVELS) - 1))))


def bar(fraction: float | None, width: int) -> str:
    """Return a bar; it looks full only if it is."""
    if width <= 0:
        return ""
    if fraction is None or not math.isfinite(fraction):
        return "─" * width
    halves = math.floor(max(0.0, min(1.0, fraction)) * width * 2)
    if fraction < 1:
        halves = min(halves, width * 2 - 1)
    whole, half = divmod(halves, 2)
    return ("━" * whole + "╸" * half).ljust(width, "─")
