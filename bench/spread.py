"""Medians with their spread: what a noisy machine lets one say."""

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """A median and its quartiles."""

    low: float
    median: float
    high: float

    def show(self, spec: str, unit: str) -> str:
        """Return `median (low to high)`, each number by the spec."""
        return f"{self.median:{spec}}{unit} ({self.low:{spec}} to {self.high:{spec}})"


def quartiles(values: Sequence[float]) -> Spread:
    """Return the median of some values and their quartiles."""
    if len(values) < 2:
        return Spread(*(values[0] for _ in range(3)))
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, median, high)


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the spread of pairwise ratios: each pair was measured side by side."""
    return quartiles([a / b for a, b in zip(above, below, strict=True)])


def median_interval(values: Sequence[float], share: float = 0.95, draws: int = 2000) -> Spread:
    """Return the median and the interval that the bootstrap gives for it."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(draws))
    edge = (1 - share) / 2
    return Spread(medians[int(draws * edge)], statistics.median(values), medians[int(draws * (1 - edge)) - 1])
