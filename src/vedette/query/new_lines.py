"""The lines of a run as they come: each once, and none is missed when the run ends, for all who follow it."""

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


class NewLines:
    """Reads on behind what it has read already."""

    def __init__(self, store: Reader, run: str, wanted: Wanted, last: int | None = None) -> None:
        """`run`: the id of a run, or "" for all; `last`: of the lines that exist already, return only so many."""
        self.run = run
        self._store = store
        self._wanted = wanted
        self._last = last
        self._after: int | None = None  # the last line that was read; None: no look yet

    def look(self, know: Callable[[], Known]) -> tuple[Known, Lines]:
        """Return what `know` reads of the run, and the lines that are new.

        It is read before the lines: if it says that the run has ended, all lines of the run are in the store by then.
        The other way round, lines that are committed between the two reads would be lost.
        """
        known = know()
        lines = self._begin() if self._after is None else self._next(self._after)
        lines.shown.sort(key=lambda event: event.t)  # the store has them process by process
        return known, lines

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
