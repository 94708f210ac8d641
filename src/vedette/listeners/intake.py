"""Where a listener puts what it hears: into a spool of its own, with the hub's voice, before it answers.

So what was answered is kept whatever is killed then, and the hub reads it as it reads everybody's spool.
"""

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.hub.turn.own import Own
from vedette.model import Fact, Sample
from vedette.store import Reader

_MOST_KINDS, _MOST_CHARS = 32, 60  # of what was refused
T = TypeVar("T")


class Intake:
    """What one listener says, what it may ask of the store, and what it has refused. Use it from one thread."""

    def __init__(self, home: Home) -> None:
        """Say nothing yet."""
        self.refused: Counter[str] = Counter()
        self._home = home
        self._voice = Own(home)
        self._closed = False

    def keep(self, facts: Sequence[Fact], samples: Sequence[Sample] = ()) -> None:
        """Return when all of it is kept; raise OSError when there is no room, or nothing is taken any more."""
        if self._closed:
            raise OSError(errno.ESHUTDOWN, "the hub is leaving")
        self._voice.say(list(facts))
        lost = self._voice.lost
        if samples:
            self._voice.sample(list(samples))
        if self._voice.lost > lost:
            raise OSError(errno.ENOSPC, "the listener's spool cannot be written to")

    def refuse(self, what: str) -> None:
        """Count something that was refused; `vedette doctor` shows it."""
        if what in self.refused or len(self.refused) < _MOST_KINDS:
            self.refused[what[:_MOST_CHARS]] += 1

    def ask(self, question: Callable[[Reader], T]) -> T:
        """Ask the store, from any thread; raise what it raises. What was kept a moment ago may not be there yet."""
        reader = HomeAccess(self._home).reader()
        try:
            return question(reader)
        finally:
            reader.close()

    def close(self) -> None:
        """Keep nothing from now on."""
        self._closed = True
        self._voice.close()
