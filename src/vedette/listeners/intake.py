"""Where a listener writes what it receives: to a spool of its own, before it answers.

So what was answered is not lost, whatever is killed, and the hub reads that spool like every other one.
"""

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.hub.own import Own
from vedette.model import Fact, Sample
from vedette.store import Reader

_MOST_KINDS, _MOST_CHARS = 32, 60  # kinds of refusals that are counted, and the length of their names
T = TypeVar("T")


class Intake:
    """Writes the records of one listener, asks the store, and counts what was refused.

    Only `ask` may be called from any thread; call everything else from one.
    """

    def __init__(self, home: Home) -> None:
        """Write nothing yet."""
        self.refused: Counter[str] = Counter()
        self._home = home
        self._own = Own(home)
        self._closed = False

    def keep(self, facts: Sequence[Fact], samples: Sequence[Sample] = ()) -> None:
        """Write records, and return when they are kept; raise OSError if there is no room, or it is closed."""
        if self._closed:
            raise OSError(errno.ESHUTDOWN, "the hub is leaving")
        self._own.say(list(facts))
        lost = self._own.lost
        if samples:
            self._own.sample(list(samples))
        if self._own.lost > lost:
            raise OSError(errno.ENOSPC, "the listener's spool cannot be written to")

    def refuse(self, what: str) -> None:
        """Count something that was refused; `vedette doctor` shows it."""
        if what in self.refused or len(self.refused) < _MOST_KINDS:
            self.refused[what[:_MOST_CHARS]] += 1

    def ask(self, question: Callable[[Reader], T]) -> T:
        """Ask the store, from any thread; raise what it raises. The newest records may not be there yet."""
        reader = HomeAccess(self._home).reader()
        try:
            return question(reader)
        finally:
            reader.close()

    def close(self) -> None:
        """Write nothing more."""
        self._closed = True
        self._own.close()
