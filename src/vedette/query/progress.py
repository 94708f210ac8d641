"""Progress bars: how much is done, how fast it goes, and when it will be finished."""

from typing import Final

from msgspec import Struct

from vedette.ids import enclosing, prefix_below
from vedette.model import KINDS, PURGED, UNSEEN
from vedette.store import Compare, Reader, SpanQuery, SpanRow

_STANDS_S: Final = 30.0  # when it has not advanced for so long, its end is not known
_MOST_FAILED: Final = 0.999  # a bar that failed never shows 100 %


class Bar(Struct, frozen=True):
    """A progress bar as it was at the moment of the query."""

    id: str
    run: str
    name: str  # its messages, joined by " | "
    total: float | None
    done: float
    state: str  # running, done, failed, cancelled or ended
    cause: str
    start_t: int | None
    seen_t: int | None  # when its progress was last reported
    end_t: int | None

    @property
    def fraction(self) -> float | None:
        """How much of it is done, from 0 to 1; None when its total is not known."""
        if self.total is None:
            return None
        share = min(1.0, max(0.0, self.done / self.total)) if self.total else 1.0
        return min(share, _MOST_FAILED) if self.state in ("failed", "cancelled", UNSEEN) else share

    @property
    def rate(self) -> float | None:
        """How much was done per second, on average since its start."""
        last_t = self.end_t if self.end_t is not None else self.seen_t
        if self.start_t is None or last_t is None or last_t <= self.start_t or self.done <= 0:
            return None
        return self.done / ((last_t - self.start_t) / 1e9)

    def eta_s(self, now_t: int) -> float | None:
        """Return in how many seconds it will be finished at its present rate; None when that is not known."""
        rate = self.rate
        if self.state != "running" or self.total is None or rate is None or self.seen_t is None:
            return None
        left, still_s = max(0.0, self.total - self.done), max(0, now_t - self.seen_t) / 1e9
        if left and still_s > max(_STANDS_S, 10 / rate):
            return None
        # It counts down until its next unit is due, and no further: a bar that stands still comes no nearer its end.
        return max(0.0, left / rate - min(still_s, 1 / rate))


def bars(store: Reader, run: str = "") -> list[Bar]:
    """Return the bars of one run, or of all runs, the oldest first.

    A bar that was never closed takes the end and the state of its process or its run, once that has ended.
    """
    rows = store.spans(SpanQuery(kind="progress", prefix=prefix_below(run) if run else ""))[::-1]
    rows = [row for row in rows if row.state != PURGED]
    seen = store.advanced([row.id for row in rows])
    ends = _ends(store, {id_ for row in rows if row.end_t is None for id_ in (row.parent, enclosing(row.id))} - {""})
    return [_bar(row, seen.get(row.id), ends.get(row.parent) or ends.get(enclosing(row.id))) for row in rows]


def outermost(found: list[Bar]) -> Bar | None:
    """Return the outermost bar that is still running: the oldest, since inner bars start later."""
    return next((bar for bar in found if bar.state == "running"), None)


def _ends(store: Reader, ids: set[str]) -> dict[str, SpanRow]:
    """Return the processes and runs among these ids that have ended."""
    if not ids:
        return {}
    rows = store.spans(SpanQuery(where=Compare("id", "in", sorted(ids)), only=()))
    return {row.id: row for row in rows if row.end_t is not None and row.state in KINDS["progress"].ends}


def _bar(row: SpanRow, seen_t: int | None, end: SpanRow | None) -> Bar:
    total = row.attrs.get("total")
    total = float(total) if isinstance(total, int | float) and total >= 0 else None
    done = row.done or 0.0
    if row.attrs.get("complete") and total is not None:
        done = max(done, total)
    state, cause, end_t = row.state, row.cause, row.end_t
    if end_t is None:
        state = "running"
        if end is not None:
            state, cause, end_t = end.state, end.cause, end.end_t
    return Bar(row.id, enclosing(row.id), row.name, total, done, state, cause, row.start_t, seen_t, end_t)
