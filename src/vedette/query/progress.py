"""How far things are: bars, as trackers and the ends of their processes add up."""

from msgspec import Struct

from vedette.model import KINDS
from vedette.store import Reader, SpanQuery, SpanRow


class Bar(Struct, frozen=True):
    """One tracker."""

    id: str
    run: str
    name: str
    total: float | None
    done: float
    state: str
    cause: str
    start_t: int | None
    seen_t: int | None
    end_t: int | None

    @property
    def fraction(self) -> float | None:
        """How much of it is done, from 0 to 1; 1 only when all is. None where the total is not known."""
        if not self.total or self.total <= 0:
            return None
        share = max(0.0, self.done / self.total)
        return 1.0 if self.done >= self.total else min(share, 0.999999)

    @property
    def rate(self) -> float | None:
        """How much is done in a second."""
        end_t = self.end_t or self.seen_t
        if self.start_t is None or end_t is None or end_t <= self.start_t:
            return None
        return self.done / ((end_t - self.start_t) / 1e9)

    def eta_s(self, now_t: int) -> float | None:
        """Return how many seconds are left, by the rate until now."""
        if self.state != "running" or self.total is None or not self.done or self.start_t is None:
            return None
        took_s = (now_t - self.start_t) / 1e9
        return max(0.0, (self.total - self.done) * took_s / self.done)


def bars(store: Reader, run: str = "") -> list[Bar]:
    """Return the trackers of a run, or of all, the oldest first."""
    rows = store.spans(SpanQuery(kind="progress", prefix=run + "/" if run else ""))
    return [_bar(row) for row in reversed(rows)]


def _bar(row: SpanRow) -> Bar:
    total = row.attrs.get("total")
    msg = row.attrs.get("msg")
    name = " | ".join(map(str, msg)) if isinstance(msg, list) else str(msg or row.name)
    known = float(total) if isinstance(total, int | float) and not isinstance(total, bool) else None
    state = row.state or KINDS["progress"].climbing[0]
    run = row.id.partition("/")[0]
    return Bar(row.id, run, name, known, row.done or 0.0, state, row.cause, row.start_t, row.end_t, row.end_t)
