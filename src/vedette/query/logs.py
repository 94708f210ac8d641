"""The log of a run: its events, line by line."""

import re

from vedette.errors import WhereError
from vedette.store import EventQuery, EventRow, Reader

_ALIASES = {"warn": "warning", "fatal": "critical"}
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Wanted:
    """Which lines are wanted."""

    def __init__(self, *, grep: str = "", search: str = "", level: int | str = 0, kind: str = "") -> None:
        """Raise WhereError when the pattern or the level is none.

        `grep`: a regular expression; `search`: words that an event must all contain (by the full-text index); `kind`:
        one kind of event, or several with commas between them.
        """
        self._kinds = tuple(word.strip() for word in kind.split(",") if word.strip())
        self._level = level_number(level)
        self._search = search
        try:
            self._pattern = re.compile(grep) if grep else None
        except re.error as error:
            raise WhereError(f"--grep {grep!r} is not a regular expression: {error}") from None

    def read(
        self, store: Reader, run: str, *, last: int | None = None, after: int = 0, before: int | None = None
    ) -> list[EventRow]:
        """Return the wanted events of a run (or of all runs), in the order of time.

        `last`: only so many, those that came last; `after`, `before`: only those with an id above, or below.
        """
        if self._search and not self._search.split():
            return []
        most = last if self._pattern is None else None
        found = store.events(EventQuery(run, after, self._kinds, self._level, self._search, most, before))
        found = [event for event in found if self._matches(event)]
        return in_order(found if last is None else found[len(found) - min(last, len(found)) :])

    def choose(self, store: Reader, run: str, events: list[EventRow]) -> list[EventRow]:
        """Return those of these events, which were read one after the other, that are wanted."""
        if self._search:  # only the store has the words
            return self.read(store, run, after=events[0].id - 1, before=events[-1].id + 1) if events else []
        return [
            event
            for event in events
            if event.level >= self._level and (not self._kinds or event.kind in self._kinds) and self._matches(event)
        ]

    def _matches(self, event: EventRow) -> bool:
        return self._pattern is None or self._pattern.search(event.text) is not None


def lines(
    store: Reader,
    run: str = "",
    *,
    grep: str = "",
    search: str = "",
    level: int | str = 0,
    kind: str = "",
    last: int | None = None,
    after: int = 0,
) -> list[EventRow]:
    """Return events of a run (or of all runs), in the order of time; `Wanted` explains which."""
    return Wanted(grep=grep, search=search, level=level, kind=kind).read(store, run, last=last, after=after)


def tail(store: Reader, run: str, last: int = 50) -> list[EventRow]:
    """Return the last lines of a run, the oldest first: what its programs printed and logged."""
    return in_order(store.events(EventQuery(run, kinds=("output", "log"), last=last)))


def ends(store: Reader, run: str) -> list[EventRow]:
    """Return the traceback that ended a run; else the last traceback and the last stacks of any of its processes."""
    if fatal := store.events(EventQuery(run, kinds=("exception",), level=50, last=1)):
        return fatal  # stacks are of workers, which were ended with it
    found = [store.events(EventQuery(run, kinds=(kind,), last=1)) for kind in ("exception", "stacks")]
    return sorted((event for events in found for event in events), key=lambda event: event.id)


def in_order(events: list[EventRow]) -> list[EventRow]:
    """Return events in the order of time; the store has them in blocks, process by process."""
    return sorted(events, key=lambda event: (event.t, event.id))


def level_number(level: int | str) -> int:
    """Return a level's number; raise WhereError when there is no such level."""
    if isinstance(level, str) and level.isascii() and level.isdigit():
        level = int(level[:10])
    if isinstance(level, int):
        return max(0, min(level, 1 << 31))
    level = _ALIASES.get(level.lower(), level)
    if level.lower() not in LEVELS:
        raise WhereError(f"there is no level {level!r}: it is one of {', '.join(LEVELS)}, or a number")
    return LEVELS[level.lower()]
