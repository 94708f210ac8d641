"""The limits of one origin: the length of names, and points per second. What exceeds them is refused and counted."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from vedette.settings import Limits
from vedette.store import Block

NAMES = "limits.name_chars"
RATE = "limits.points_per_s"
_WINDOW_NS = 10 * 10**9
_MOST_WINDOWS = 1000

V = TypeVar("V")


class Quota:
    """Applies the limits. It counts by the times of the samples, so that reading again gives the same result."""

    def __init__(self, limits: Limits, *, by_hub: bool = False) -> None:
        """`by_hub`: the origin is a hub, which writes for many processes: its rate is not limited."""
        self.refusals: dict[str, int] = {}  # by limit, since `take_refusals`
        self._chars = limits.name_chars
        self.most = 0 if by_hub else limits.points_per_s * (_WINDOW_NS // 10**9)  # points in a window; 0: no limit
        self._counts: dict[int, int] = {}  # points by window

    def take_refusals(self) -> dict[str, int]:
        """Return how many points were refused, by limit, since the last call."""
        refusals, self.refusals = self.refusals, {}
        return refusals

    def refuse(self, limit: str, points: int) -> None:
        """Count points as refused."""
        self.refusals[limit] = self.refusals.get(limit, 0) + points

    def admits(self, names: Sequence[str], tags: Mapping[str, str]) -> bool:
        """Tell whether names and tags are all short enough."""
        longest = max(map(len, names), default=0)
        return longest <= self._chars and all(len(k) <= self._chars and len(v) <= self._chars for k, v in tags.items())

    def short(self, values: Mapping[str, V], tags: Mapping[str, str]) -> dict[str, V]:
        """Return the values whose names and tags are short enough; count the others."""
        admitted = {name: value for name, value in values.items() if self.admits((name,), tags)}
        if len(admitted) < len(values):
            self.refuse(NAMES, len(values) - len(admitted))
        return admitted

    def in_time(self, t: int, points: int) -> bool:
        """Tell whether so many more points are within the rate at this time; count them either way."""
        window = t // _WINDOW_NS
        count = self._counts[window] = self._counts.get(window, 0) + points
        if len(self._counts) > _MOST_WINDOWS:
            del self._counts[min(self._counts)]
        if count <= self.most:
            return True
        self.refuse(RATE, points)
        return False

    def of_block(self, block: Block) -> Block | None:
        """Return the part of a block that is within the limits; None when nothing is."""
        rows = len(block.n)
        if not self.admits(block.names, block.tags):
            values = self.short(dict(zip(block.names, block.values, strict=True)), block.tags)
            self.refusals[NAMES] += (rows - 1) * (len(block.names) - len(values))
            if not values:
                return None
            block = Block(block.span, block.tags, tuple(values), block.n, block.t, block.step, tuple(values.values()))
        if self.most:
            import numpy as np  # noqa: PLC0415 - it comes with the first points

            fits = np.array([self.in_time(t, len(block.names)) for t in block.t.tolist()])
            if not fits.all():
                n, t, step, *columns = (c[fits] for c in (block.n, block.t, block.step, *block.values))
                block = Block(block.span, block.tags, block.names, n, t, step, tuple(columns))
        return block if len(block.n) else None
