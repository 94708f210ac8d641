"""What is new since the last look: the lines, bars, questions and states of one run, or of all runs of a home."""

import time
from collections.abc import Callable

from msgspec import Struct

from vedette.errors import NotFoundError
from vedette.query.finding import Family
from vedette.query.logs import Wanted
from vedette.query.new_lines import NewLines
from vedette.query.progress import Bar, bars
from vedette.query.questions import Question, alive, settle, waiting
from vedette.query.runs import RunView
from vedette.query.silence import LOST_AFTER_S, signs
from vedette.store import Compare, EventRow, Reader, SpanQuery

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
        settle_s: float = 0.0,
    ) -> None:
        """`run`: the id of a run, or "" for all; `last`: of the lines that exist already, return only so many.

        `settle_s`: see `NewLines`.
        """
        self.run = run
        self._store = store
        self._lines = NewLines(store, run, Wanted(level=level, grep=grep), last, settle_s=settle_s, clock=clock)
        self._lost_after_s = lost_after_s
        self._clock = clock
        self._seen = False  # the run is in the store
        self._asked: dict[str, Question] | None = None  # open questions; None: no look yet

    @property
    def holds(self) -> bool:
        """Whether lines are held back until others may have come."""
        return self._lines.holds

    def look(self) -> News:
        """Return what is new; raise NotFoundError when the run is not there any more."""
        (runs, shown_bars), lines = self._lines.look(
            lambda: (self._runs(), bars(self._store, self.run)),
            lambda known: self.run in known[0] and known[0][self.run].end_t is not None,
        )
        if self._asked is None:
            questions = waiting(self._store, self.run)
        else:
            settle(self._asked, lines.new)
            questions = alive(self._store, self._asked.values())
        self._asked = {item.id: item for item in questions}
        return News(lines.shown, lines.passed_over, shown_bars, questions, runs)

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
