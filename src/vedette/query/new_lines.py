"""The lines of a run as they come: each once, and none is missed when the run ends, for all who follow it.

The hub reads process by process, so what one process said last may be stored after what another said later. Who prints
lines cannot put one before another afterwards: with `settle_s`, lines of several processes are held back for so long.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from vedette.query.logs import Wanted
from vedette.store import EventQuery, EventRow, Reader

Known = TypeVar("Known")


class Lines(Struct):
    """What one look has found."""

    shown: list[EventRow]  # those that are wanted, in the order of time
    passed_over: int = 0  # 0 if these are all; more if older lines were left out
    new: list[EventRow] = []  # since the last look, wanted or not


SETTLE_S = 0.3  # three turns of the hub


class NewLines:
    """Reads on behind what it has read already."""

    def __init__(
        self, store: Reader, run: str, wanted: Wanted, last: int | None = None, *, settle_s: float = 0.0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        """`run`: the id of a run, or "" for all; `last`: of the lines that exist already, return only so many.

        `settle_s`: hold lines back until they are so old; look again while `holds` is true.
        """
        self.run = run
        self._store = store
        self._wanted = wanted
        self._last = last
        self._after: int | None = None  # the last line that was read; None: no look yet
        self._settle_ns = round(settle_s * 1e9)
        self._clock = clock
        self._held: list[tuple[int, EventRow]] = []  # when it was read, and the line
        self._processes: set[tuple[str, int]] = set()

    @property
    def holds(self) -> bool:
        """Whether lines are held back."""
        return bool(self._held)

    def look(self, know: Callable[[], Known], over: Callable[[Known], bool] = lambda _: False) -> tuple[Known, Lines]:
        """Return what `know` reads of the run, and the lines that are new; `over`: nothing will come any more.

        It is read before the lines: if it says that the run has ended, all lines of the run are in the store by then.
        The other way round, lines that are committed between the two reads would be lost.
        """
        known = know()
        lines = self._begin() if self._after is None else self._next(self._after)
        lines.shown = self._settled(lines.shown, everything=over(known))
        return known, lines

    def _settled(self, new: list[EventRow], *, everything: bool) -> list[EventRow]:
        """Return lines in the order of time, without those that are held back."""
        now = self._clock()
        self._processes.update((event.host, event.pid) for event in new)
        found = [*self._held, *((now, event) for event in new)]
        found.sort(key=lambda one: (one[1].t, one[1].id))  # the store has them process by process
        at = len(found)
        if self._settle_ns and not everything and len(self._processes) > 1:
            # A line whose clock is ahead of ours is not held for longer than the others.
            until = now - self._settle_ns
            at = next((i for i, (read, event) in enumerate(found) if event.t > until and read > until), at)
        self._held = found[at:]
        return [event for _, event in found[:at]]

    def _begin(self) -> Lines:
        newest = self._store.events(EventQuery(self.run, last=1))
        after = newest[-1].id if newest else 0
        most = None if self._last is None else self._last + 1  # one more tells whether some are left out
        found = [] if self._last == 0 else self._wanted.read(self._store, self.run, last=most, before=after + 1)
        over = 0 if self._last is None else max(0, len(found) - self._last)
        self._after = after
        return Lines(found[over:], over)

    def _next(self, after: int) -> Lines:
        new = self._store.events(EventQuery(self.run, after))
        shown = self._wanted.choose(self._store, self.run, new) if new else []
        self._after = new[-1].id if new else after
        return Lines(shown, new=new)
