"""What a tree of processes has used, whoever of it is still there: each tick and each byte is counted once.

A parent that waits for a child takes over all that the child and those whom it had waited for have used, as the kernel
shows in its `cutime`, `cstime` and `cminflt`. It does so for children that nobody has seen, too. What nobody takes
over is kept here as it was last seen: of a child whose parent ignores SIGCHLD, of an orphan, of the root.
"""

from collections.abc import Mapping
from typing import NamedTuple

Key = tuple[int, int]  # pid and start: pids are used again


class Account(NamedTuple):
    """How one process stood when it was looked at. The whole tuples of numbers are what a parent takes over."""

    parent: Key | None  # in the tree
    own: tuple[int, int, int]  # ticks as a user and in the kernel, page faults
    waited: tuple[int, int, int]  # the same, of all those that it has waited for
    moved: tuple[int, int]  # bytes read and written, those of whom it has waited for included
    tells_faults: bool = True
    rest: float = 0.0  # of a tick, that `own` has been rounded down by


class Totals(NamedTuple):
    """What the tree has used up to now, since before it was first looked at. None of it ever falls."""

    ticks: float
    read_bytes: float
    written_bytes: float


class _Heirless:
    """What one that is gone had used, and nobody has taken over yet."""

    def __init__(self, account: Account) -> None:
        self.parent = account.parent
        self.owed = [mine + theirs for mine, theirs in zip(account.own, account.waited, strict=True)]
        self.moved = account.moved
        self.tells_faults = account.tells_faults
        self._rest = account.rest

    def take(self, purse: list[int]) -> None:
        """Be covered by what somebody has grown by, each number by its own.

        The kernel rounds ticks down, and whoever takes over rounds the sum down: that is never less than the sum of
        what was rounded down. So what was taken over is covered to the last tick.
        """
        for place, owed in enumerate(self.owed):
            covered = min(owed, purse[place])
            self.owed[place] -= covered
            purse[place] -= covered

    @property
    def kept(self) -> tuple[float, float, float]:
        """Ticks and bytes that are to be counted besides what the living say."""
        if self.owed[2] == 0 and self.tells_faults:  # no process lives without a page fault: somebody has it all
            return self.owed[0] + self.owed[1], 0, 0
        return self.owed[0] + self.owed[1] + self._rest, *self.moved


class Ledger:
    """Adds up one look after another; each must have read parents before their children."""

    def __init__(self) -> None:
        """Nobody is known yet."""
        self._seen: Mapping[Key, Account] = {}
        self._heirless: list[_Heirless] = []
        self._kept = [0.0, 0.0, 0.0]
        self._totals = Totals(0, 0, 0)

    def take(self, now: Mapping[Key, Account]) -> Totals:
        """Hear how all those stand that are there, and return what the tree has used."""
        purses = {
            key: [max(0, new - old) for new, old in zip(account.waited, self._seen[key].waited, strict=True)]
            for key, account in now.items()
            if key in self._seen
        }
        # A child may be waited for when its parent has been read, and the child has not: then the parent tells at the
        # next look. Who was not taken over by then never is.
        for one in self._heirless:
            self._offer(one, now, purses)
            self._kept = [sum(pair) for pair in zip(self._kept, one.kept, strict=True)]
        self._heirless = [_Heirless(account) for key, account in self._seen.items() if key not in now]
        for one in self._heirless:
            self._offer(one, now, purses)
        self._seen = now
        found = [tuple(self._kept), *(one.kept for one in self._heirless)]
        found += [(sum(one.own[:2]) + one.rest + sum(one.waited[:2]), *one.moved) for one in now.values()]
        self._totals = Totals(
            *(max(pair) for pair in zip(self._totals, map(sum, zip(*found, strict=True)), strict=True))
        )
        return self._totals

    def _offer(self, one: _Heirless, now: Mapping[Key, Account], purses: dict[Key, list[int]]) -> None:
        """Have its parent cover it; where that is gone too, those above: one of them may have got its orphans."""
        parent, heirs = one.parent, 0
        orphan = parent not in now
        while parent is not None and (orphan or heirs == 0):
            if parent in purses:
                one.take(purses[parent])
                heirs += 1
            account = now.get(parent) or self._seen.get(parent)
            parent = account.parent if account is not None else None
