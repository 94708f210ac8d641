"""What a process tree has used, including processes that have ended: each tick and each byte is counted once.

When a parent waits for a child, the kernel adds all that the child used (and the child's own waited-for children) to
the parent's `cutime`, `cstime` and `cminflt`; also for children that we have never seen. If no parent takes over a
child's use, we keep the last values that we saw: this happens when the parent ignores SIGCHLD, for an orphan, and for
the root.
"""

from collections.abc import Mapping
from typing import NamedTuple

Key = tuple[int, int]  # pid and start time: pids are reused


class Account(NamedTuple):
    """The numbers of one process at one look."""

    parent: Key | None  # None if the parent is not in the tree
    own: tuple[int, int, int]  # user ticks, system ticks, page faults
    waited: tuple[int, int, int]  # the same, of all children that it has waited for
    io: tuple[int, int]  # bytes read and written, including those of waited-for children
    has_faults: bool = True
    rest: float = 0.0  # the fraction of a tick by which `own` was rounded down


class Totals(NamedTuple):
    """What the tree has used up to now, also before the first look. No number ever decreases."""

    ticks: float
    read_bytes: float
    written_bytes: float


class _Ended:
    """An ended process: the part of its use that no parent has taken over yet."""

    def __init__(self, account: Account) -> None:
        self.parent = account.parent
        self.unclaimed = [mine + theirs for mine, theirs in zip(account.own, account.waited, strict=True)]
        self.io = account.io
        self.has_faults = account.has_faults
        self._rest = account.rest

    def match(self, growth: list[int]) -> None:
        """Subtract what a parent's `waited` has grown by, and use up that growth, number by number.

        The kernel rounds ticks down, and so does the parent's sum, which is never less than the sum of rounded ticks.
        So what a parent has taken over is subtracted to the last tick.
        """
        for index, unclaimed in enumerate(self.unclaimed):
            matched = min(unclaimed, growth[index])
            self.unclaimed[index] -= matched
            growth[index] -= matched

    @property
    def remainder(self) -> tuple[float, float, float]:
        """Ticks and bytes to count in addition to what live processes report."""
        if self.unclaimed[2] == 0 and self.has_faults:  # every process has page faults: a parent has taken over all
            return self.unclaimed[0] + self.unclaimed[1], 0, 0
        return self.unclaimed[0] + self.unclaimed[1] + self._rest, *self.io


class Ledger:
    """Adds up one look after another; each look must have read parents before their children."""

    def __init__(self) -> None:
        """Start with no process."""
        self._seen: Mapping[Key, Account] = {}
        self._ended: list[_Ended] = []  # those that have ended since the look before
        self._remainders = [0.0, 0.0, 0.0]  # of all that ended earlier
        self._totals = Totals(0, 0, 0)

    def take(self, now: Mapping[Key, Account]) -> Totals:
        """Add a look at all live processes, and return what the tree has used."""
        growth = {
            key: [max(0, new - old) for new, old in zip(account.waited, self._seen[key].waited, strict=True)]
            for key, account in now.items()
            if key in self._seen
        }
        # A look may read the parent, then the parent waits for the child, then the look misses the child. The parent
        # shows that at the next look; a child that was not taken over by then never is.
        for one in self._ended:
            self._match(one, now, growth)
            self._remainders = [sum(pair) for pair in zip(self._remainders, one.remainder, strict=True)]
        self._ended = [_Ended(account) for key, account in self._seen.items() if key not in now]
        for one in self._ended:
            self._match(one, now, growth)
        self._seen = now
        found = [tuple(self._remainders), *(one.remainder for one in self._ended)]
        found += [(sum(one.own[:2]) + one.rest + sum(one.waited[:2]), *one.io) for one in now.values()]
        self._totals = Totals(
            *(max(pair) for pair in zip(self._totals, map(sum, zip(*found, strict=True)), strict=True))
        )
        return self._totals

    def _match(self, one: _Ended, now: Mapping[Key, Account], growth: dict[Key, list[int]]) -> None:
        """Match an ended process with its parent's growth; if the parent has ended too, with all ancestors' growth.

        One of the ancestors may have adopted the orphan.
        """
        parent, matched = one.parent, 0
        orphan = parent not in now
        while parent is not None and (orphan or matched == 0):
            if parent in growth:
                one.match(growth[parent])
                matched += 1
            account = now.get(parent) or self._seen.get(parent)
            parent = account.parent if account is not None else None
