"""The schedule by which something is measured: on a fixed grid of time, so that it neither drifts nor catches up."""

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Schedule(Generic[K]):
    """Says who is due when. All with the same interval are due at the same moments: one pass serves them all."""

    def __init__(self) -> None:
        """Nobody is due yet."""
        self._intervals: dict[K, float] = {}
        self._next: dict[float, float] = {}  # by interval

    def __len__(self) -> int:
        return len(self._intervals)

    def want(self, key: K, interval_s: float, now: float) -> None:
        """Have somebody measured every so often."""
        self._intervals[key] = interval_s
        self._next.setdefault(interval_s, _after(now, interval_s))

    def drop(self, key: K) -> None:
        """Have somebody not measured any more."""
        interval_s = self._intervals.pop(key, None)
        if interval_s is not None and interval_s not in self._intervals.values():
            del self._next[interval_s]

    def wait_s(self, now: float) -> float | None:
        """Return how long nobody is due; None: for ever."""
        return max(0.0, min(self._next.values()) - now) if self._next else None

    def due(self, now: float) -> list[K]:
        """Return who is due; a moment that was missed is passed over."""
        reached = {interval_s for interval_s, at in self._next.items() if at <= now}
        for interval_s in reached:
            self._next[interval_s] = _after(now, interval_s)
        return [key for key, interval_s in self._intervals.items() if interval_s in reached]

    @property
    def shortest_s(self) -> float:
        """The shortest interval that is wanted; 0 when there is none."""
        return min(self._next, default=0.0)


def _after(now: float, interval_s: float) -> float:
    """Return the first moment of the grid after now."""
    at = (math.floor(now / interval_s) + 1) * interval_s
    return at if at > now else at + interval_s  # rounding
