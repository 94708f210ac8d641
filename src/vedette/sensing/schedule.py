"""When to measure: on a fixed grid of time, so that measurements do not drift, and missed ones are not repeated."""

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Grid:
    """The moments of one measurement: every `interval_s` seconds from its start on."""

    def __init__(self, interval_s: float, now: float) -> None:
        """Start now."""
        self._interval_s, self._begin, self._next = interval_s, now, 1
        self.missed = 0

    def wait_s(self, now: float) -> float:
        """Return how many seconds it is until the next moment."""
        return max(0.0, self._begin + self._next * self._interval_s - now)

    def due(self, now: float) -> bool:
        """Tell whether a moment has come; earlier moments that were missed are counted and skipped."""
        if self.wait_s(now) > 0:
            return False
        reached = max(self._next, math.floor((now - self._begin) / self._interval_s))
        self.missed += reached - self._next
        self._next = reached + 1
        return True


class Schedule(Generic[K]):
    """Says which keys are due. Keys with the same interval are due together, so that one pass measures them all."""

    def __init__(self) -> None:
        """Start without keys."""
        self._intervals: dict[K, float] = {}
        self._next: dict[float, float] = {}  # by interval

    def __len__(self) -> int:
        return len(self._intervals)

    def want(self, key: K, interval_s: float, now: float) -> None:
        """Add a key that is due every `interval_s` seconds."""
        self._intervals[key] = interval_s
        self._next.setdefault(interval_s, _after(now, interval_s))

    def drop(self, key: K) -> None:
        """Remove a key."""
        interval_s = self._intervals.pop(key, None)
        if interval_s is not None and interval_s not in self._intervals.values():
            del self._next[interval_s]

    def wait_s(self, now: float) -> float | None:
        """Return how many seconds it is until a key is due; None if there are no keys."""
        return max(0.0, min(self._next.values()) - now) if self._next else None

    def due(self, now: float) -> list[K]:
        """Return the keys that are due; a moment that was missed is skipped."""
        reached = {interval_s for interval_s, at in self._next.items() if at <= now}
        for interval_s in reached:
            self._next[interval_s] = _after(now, interval_s)
        return [key for key, interval_s in self._intervals.items() if interval_s in reached]


def _after(now: float, interval_s: float) -> float:
    """Return the first moment of the grid after now."""
    at = (math.floor(now / interval_s) + 1) * interval_s
    return at if at > now else at + interval_s  # rounding may have given a moment that is not after now
