"""What one origin may bring: names of a sane length, and so many points in a time. The rest is refused, and counted."""

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
    """Counts against the limits by the times that the samples bear, so that whoever reads again decides the same."""

    def __init__(self, limits: Limits, *, by_hub: bool = False) -> None:
        """`by_hub`: a hub speaks, for many processes: its rate is not that of one."""
        self.refusals: dict[str, int] = {}  # since they were last taken
        self._chars = limits.name_chars
        self.most = 0 if by_hub else limits.points_per_s * (_WINDOW_NS // 10**9)  # in a window; 0: any number
        self._counts: dict[int, int] = {}  # points by window; blocks may go through the same ones again

    def take_refusals(self) -> dict[str, int]:
        """Return what was refused, by limit, since this was last asked."""
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
        kept = {name: value for name, value in values.items() if self.admits((name,), tags)}
        if len(kept) < len(values):
            self.refuse(NAMES, len(values) - len(kept))
        return kept

    def in_time(self, t: int, points: int) -> bool:
        """Tell whether so many points more may come at this time; count them as come, or as refused."""
        window = t // _WINDOW_NS
        count = self._counts[window] = self._counts.get(window, 0) + points
        if len(self._counts) > _MOST_WINDOWS:
            del self._counts[min(self._counts)]
        if count <= self.most:
            return True
        self.refuse(RATE, points)
        return False

    def of_block(self, block: Block) -> Block | None:
        """Return the part of a block that is within the limits, if any."""
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
