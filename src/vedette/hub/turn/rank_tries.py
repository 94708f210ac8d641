"""Ends the tries that several ranks have begun together: with the last of them, as the worst of them (decisions/032).

No rank knows when the others end, so the one hub that keeps the store decides.
"""

import time
from collections.abc import Iterable

from vedette.deaths.process_ends import ProcessEnd, worst
from vedette.hub.own import Say
from vedette.ids import enclosing, is_by_pid, prefix_below, run_of
from vedette.model import HUB, KINDS, PURGED, UNSEEN, Fact, Span
from vedette.store import Compare, SpanQuery, SpanRow, Store

_EACH_S = 0.5
_SLICE_S = 0.05  # how long one turn looks; a try of thousands of ranks takes this long, and there may be many
_REST = 4  # times as long as it took: whoever begins many tries must not hold up the hub
_LATE_RANKS_S = 5.0  # how long we wait for ranks that may say more, once all that have said anything have ended


class RankTries:
    """The tries of ranks that are still open, or whose end may have to be corrected."""

    def __init__(self, store: Store, say: Say) -> None:
        """Find those that an earlier hub has left open; `say` writes facts as the hub's."""
        self.trouble = ""
        self._store = store
        self._say = say
        open_states = Compare("state", "in", KINDS["try"].climbing)
        rows = store.spans(SpanQuery(kind="try", where=open_states, only=("ranks",)))
        # By try: since when all known ranks have ended; 0 while one lives, or nobody has looked.
        self._open = {row.id: 0.0 for row in rows if row.attrs["ranks"] is not None}
        self._round: list[str] = []  # those that are still to be looked at before the first one is again
        self._next = 0.0  # when to look again

    @property
    def waits(self) -> bool:
        """Whether the end of a try is due within seconds."""
        return any(self._open.values())

    def note(self, facts: Iterable[Fact]) -> None:
        """Note which tries of ranks begin or go on in what was committed, and which may have ended otherwise."""
        for fact in facts:
            if not isinstance(fact, Span):
                continue
            if fact.kind == "try" and "ranks" in fact.attrs:
                self._open[fact.id] = 0.0
            elif fact.state in KINDS["process"].ends and not is_by_pid(fact.id):
                attempt = enclosing(fact.id)
                if enclosing(attempt):  # it is a process; whether that is a rank is seen in the store
                    self._open.setdefault(attempt, 0.0)

    def tend(self, now: float) -> None:
        """End the tries whose ranks have all ended, if there is time for them in this turn."""
        if not self._open or now < self._next:
            return
        self._round = self._round or list(self._open)
        begun = time.monotonic()
        try:
            while self._round:
                if (attempt := self._round.pop()) in self._open:
                    self._look(attempt, now)
                if time.monotonic() - begun >= _SLICE_S:
                    break
            self.trouble = ""
        except OSError as error:  # the disk is full, for example: it is tried again
            self.trouble = str(error)
        spent_s = time.monotonic() - begun
        self._next = now + max(_REST * spent_s, 0.0 if self._round else _EACH_S)

    def _look(self, attempt: str, now: float) -> None:
        rows = self._store.spans(SpanQuery(ids=(attempt,), only=("ranks",)))
        # Its run may have been removed for good; and the processes of most tries are no ranks.
        if not rows or rows[0].state == PURGED or rows[0].attrs["ranks"] is None:
            del self._open[attempt]
            return
        ranks = self._ranks(attempt)
        if not ranks or any(rank.state not in KINDS["process"].ends for rank in ranks):
            self._open[attempt] = 0.0
            return
        since = self._open[attempt] = self._open[attempt] or now
        if not _is_final(rows[0].attrs["ranks"], ranks) and now - since < _LATE_RANKS_S:
            return
        self._end(rows[0], ranks)
        del self._open[attempt]

    def _ranks(self, attempt: str) -> list[SpanRow]:
        """Return the ranks of a try that have said anything; their children, and what the meter found, are none."""
        processes = self._store.spans(SpanQuery(prefix=prefix_below(attempt), kind="process", only=("rank",)))
        return [process for process in processes if process.attrs["rank"] is not None]

    def _end(self, attempt: SpanRow, ranks: list[SpanRow]) -> None:
        """Say how a try ended, unless that is known. What replaces another end has a later time: the latest counts."""
        state, cause = worst(
            [ProcessEnd(rank.id, rank.state, rank.cause, rank.end_t, str(rank.attrs["rank"])) for rank in ranks]
        )
        t = max(rank.end_t or 0 for rank in ranks)
        if attempt.end_t is not None and (attempt.state, attempt.cause) == (state, cause) and attempt.end_t >= t:
            return
        if attempt.end_t is not None and attempt.state != UNSEEN:
            t = max(t, attempt.end_t + 1)
        self._say([Span(attempt.id, t, state, cause, HUB, kind="try", parent=run_of(attempt.id))], "")


def _is_final(wanted: object, ranks: list[SpanRow]) -> bool:
    """Tell whether nothing more is expected: all ranks have spoken, and of each one somebody saw how it ended."""
    is_whole = isinstance(wanted, int) and 0 < wanted <= len({str(rank.attrs["rank"]) for rank in ranks})
    return is_whole and all(rank.state != UNSEEN for rank in ranks)
