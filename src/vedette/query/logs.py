"""The log of a run: its events, line by line."""

import re

from vedette.errors import WhereError
from vedette.store import EventQuery, EventRow, Reader

_ALIASES = {"warn": "warning", "fatal": "critical"}
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


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
    """Return events of a run (or of all runs), the oldest first.

    `grep`: a regular expression; `search`: words that an event must all contain (by the full-text index); `kind`: one
    kind of event, or several with commas between them.
    """
    kinds = tuple(word.strip() for word in kind.split(",") if word.strip())
    least = level_number(level)
    try:
        pattern = re.compile(grep) if grep else None
    except re.error as error:
        raise WhereError(f"--grep {grep!r} is not a regular expression: {error}") from None
    if search and not search.split():
        return []
    found = store.events(EventQuery(run, after, kinds, least, search, last if pattern is None else None))
    if pattern is not None:
        found = [event for event in found if pattern.search(event.text)]
        found = found[len(found) - min(last, len(found)) :] if last is not None else found
    return found


def tail(store: Reader, run: str, last: int = 50) -> list[EventRow]:
    """Return the last lines of a run, the oldest first: what its programs printed and logged."""
    return store.events(EventQuery(run, kinds=("output", "log"), last=last))


def ends(store: Reader, run: str) -> list[EventRow]:
    """Return the last traceback and the last stacks that a run recorded, if there are any."""
    found = [store.events(EventQuery(run, kinds=(kind,), last=1)) for kind in ("exception", "stacks")]
    return sorted((event for events in found for event in events), key=lambda event: event.id)


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
