"""Ends the tries that several ranks have begun together: with the last of them, as the worst of them (decisions/032).

No rank knows when the others end, so the one hub that keeps the store decides.
"""

from collections.abc import Iterable

from vedette.hub.own import Say
from vedette.ids import prefix_below, run_of
from vedette.model import HUB, KINDS, Fact, Span
from vedette.store import Compare, SpanQuery, SpanRow, Store

_EACH_S = 0.5
_LATE_RANKS_S = 5.0  # how long we wait for ranks that have said nothing yet, once all others have ended
_WORST = ("failed", "cancelled")  # the worst end first; all others are better


class RankTries:
    """The tries of ranks that are still open."""

    def __init__(self, store: Store, say: Say) -> None:
        """Find those that an earlier hub has left open; `say` writes facts as the hub's."""
        self.trouble = ""
        self._store = store
        self._say = say
        open_states = Compare("state", "in", KINDS["try"].climbing)
        rows = store.spans(SpanQuery(kind="try", where=open_states, only=("ranks",)))
        self._open = {row.id: 0.0 for row in rows if "ranks" in row.attrs}  # by try: since when all known ranks ended
        self._looked = 0.0

    def note(self, facts: Iterable[Fact]) -> None:
        """Note which tries of ranks begin, or go on, in what was committed."""
        for fact in facts:
            if isinstance(fact, Span) and fact.kind == "try" and "ranks" in fact.attrs:
                self._open[fact.id] = 0.0

    def tend(self, now: float) -> None:
        """End the tries whose ranks have all ended."""
        if not self._open or now - self._looked < _EACH_S:
            return
        self._looked = now
        try:
            for attempt in list(self._open):
                self._look(attempt, now)
            self.trouble = ""
        except OSError as error:  # the disk is full, for example: it is tried again
            self.trouble = str(error)

    def _look(self, attempt: str, now: float) -> None:
        rows = self._store.spans(SpanQuery(ids=(attempt,), only=("ranks",)))
        if not rows:  # its run was removed for good
            del self._open[attempt]
            return
        wanted = rows[0].attrs.get("ranks")
        ranks = [
            rank
            for rank in self._store.spans(SpanQuery(prefix=prefix_below(attempt), kind="process", only=("rank",)))
            if "rank" in rank.attrs
        ]
        if not ranks or any(rank.state not in KINDS["process"].ends for rank in ranks):
            self._open[attempt] = 0.0
            return
        since = self._open[attempt] = self._open[attempt] or now
        is_whole = isinstance(wanted, int) and 0 < wanted <= len({str(rank.attrs["rank"]) for rank in ranks})
        if not is_whole and now - since < _LATE_RANKS_S:
            return
        state, cause = worst(ranks)
        t = max(rank.end_t or 0 for rank in ranks)
        self._say([Span(attempt, t, state, cause, HUB, kind="try", parent=run_of(attempt))], "")
        del self._open[attempt]


def worst(ranks: list[SpanRow]) -> tuple[str, str]:
    """Return how a job of ranks ended: as its worst rank did; the cause names the first one that ended so."""
    states = {rank.state for rank in ranks}
    state = next((state for state in _WORST if state in states), "")
    if not state:
        return ("ended" if "ended" in states else "done"), ""
    first = min((rank for rank in ranks if rank.state == state), key=lambda rank: (rank.end_t or 0, rank.id))
    return (
        state,
        f"rank {first.attrs['rank']} was the first to fail: {first.cause}" if state == "failed" else first.cause,
    )
