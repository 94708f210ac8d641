"""What is new since the last look: the lines, bars, questions and states of one run, or of all runs of a home."""

import re
import time
from collections.abc import Callable

from msgspec import Struct

from vedette.errors import NotFoundError, WhereError
from vedette.query.logs import level_number
from vedette.query.progress import Bar, bars
from vedette.query.questions import ASK, ASKED, Question, alive, settle, waiting
from vedette.query.runs import Family, RunView
from vedette.query.silence import LOST_AFTER_S, signs
from vedette.store import Compare, EventQuery, EventRow, Reader, SpanQuery

_MOST_RUNS = 200  # of a home, the newest


class News(Struct):
    """What one look has found."""

    events: list[EventRow]  # new ones
    passed_over: int  # 0 if these are all; more if older lines were left out
    bars: list[Bar]  # all bars, as they are now
    questions: list[Question]  # open ones
    runs: dict[str, RunView]  # by id, as they are now


class Feed:
    """Looks at the store again and again, and returns each line once."""

    def __init__(
        self,
        store: Reader,
        run: str = "",
        *,
        last: int | None = None,
        level: int | str = 0,
        grep: str = "",
        lost_after_s: float = LOST_AFTER_S,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`run`: the id of a run, or "" for all; `last`: of the lines that exist already, return only so many."""
        self.run = run
        self._store = store
        self._last = last
        self._level = level_number(level)
        self._lost_after_s = lost_after_s
        self._clock = clock
        self._after = 0
        self._first = True
        self._seen = False  # the run is in the store
        self._asked: dict[str, Question] = {}
        try:
            self._grep = re.compile(grep) if grep else None
        except re.error as error:
            raise WhereError(f"--grep {grep!r} is not a regular expression: {error}") from None

    def look(self) -> News:
        """Return what is new; raise NotFoundError when the run is not there any more."""
        runs = self._runs()  # before the lines: if a run has ended, all its lines are in the store by then
        events, passed_over = self._begin() if self._first else (self._next(), 0)
        self._first = False
        if self._asked:
            self._asked = {item.id: item for item in alive(self._store, self._asked.values())}
        shown = [event for event in events if self._fits(event)]
        shown.sort(key=lambda event: event.t)
        return News(shown, passed_over, bars(self._store, self.run), list(self._asked.values()), runs)

    def _next(self) -> list[EventRow]:
        events = self._store.events(EventQuery(self.run, self._after))
        if events:
            self._after = events[-1].id
        settle(self._asked, events)
        return events

    def _begin(self) -> tuple[list[EventRow], int]:
        """Return the last of the lines that exist already, and how many were left out (at least 1 if any were)."""
        if self._last is None:
            return self._next(), 0
        newest = self._store.events(EventQuery(self.run, last=1))
        self._after = newest[-1].id if newest else 0
        self._asked = {item.id: item for item in waiting(self._store, self.run)}
        last = None if self._grep is not None else self._last + 1
        found = self._store.events(EventQuery(self.run, level=self._level, last=last)) if self._last else []
        found = [event for event in found if event.id <= self._after and self._fits(event)]
        return found[max(0, len(found) - self._last) :], max(0, len(found) - self._last)

    def _fits(self, event: EventRow) -> bool:
        if event.kind in (ASK, ASKED):
            return self._level <= event.level and self._grep is None
        return event.level >= self._level and (self._grep is None or self._grep.search(event.text) is not None)

    def _runs(self) -> dict[str, RunView]:
        family = Family(self._store)
        if self.run:
            rows = self._store.spans(SpanQuery(kind="run", where=Compare("id", "=", self.run)))
            if rows and family.hides(rows[0]):
                raise NotFoundError(family.why_hidden(rows[0]))
            if not rows and self._seen:
                raise NotFoundError(f"run {self.run} is not there any more")
            self._seen = bool(rows)
        else:
            rows = self._store.spans(SpanQuery(kind="run", limit=_MOST_RUNS))
        heard = signs(self._store, [row.id for row in rows if row.end_t is None])
        return {
            row.id: RunView(self._store, row, heard.get(row.id), now=self._clock(), lost_after_s=self._lost_after_s)
            for row in rows
            if not family.hides(row)
        }
