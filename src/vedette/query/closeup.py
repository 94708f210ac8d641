"""One run in detail: its newest lines, its bars, what its processes use, and its config."""

import time
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from vedette.fold import flatten
from vedette.ids import prefix_below
from vedette.labels import label
from vedette.model import Value
from vedette.query import trend
from vedette.query.progress import Bar, bars
from vedette.query.runs import RunView, view
from vedette.query.silence import LOST_AFTER_S
from vedette.store import EventQuery, EventRow, Reader, SpanQuery, SpanRow
from vedette.wire import Newest

_MOST_PROCESSES = 200
_CURVES = ("cpu_percent", "memory_bytes")


class ProcessLine(Struct, frozen=True):
    """One process as a line of the list; `values` are the newest by resource, summed over GPUs."""

    id: str
    name: str
    host: str
    pid: int
    state: str
    cause: str
    values: dict[str, float]
    trends: dict[str, list[float]]


class CloseUp(Struct, frozen=True):
    """A run in detail, with the lines that are new since the last look."""

    run: RunView
    events: list[EventRow]
    bars: list[Bar]
    processes: list[ProcessLine]  # live ones first
    hidden: int  # how many processes are not shown
    config: dict[str, Value]
    values: dict[str, float]  # the newest value of each series


def closeup(
    store: Reader,
    run: str,
    *,
    after: int = 0,
    last: int = 2000,
    fresh: Sequence[Newest] = (),
    now: int | None = None,
    lost_after_s: float = LOST_AFTER_S,
) -> CloseUp:
    """Return a run in detail, by its id; raise NotFoundError when it is gone.

    `after`: return only events with a higher id; `last`: at most so many of them, the newest.
    """
    now = time.time_ns() if now is None else now
    seen = view(store, run, now=now, lost_after_s=lost_after_s)
    events = sorted(store.events(EventQuery(run, after, last=last)), key=lambda event: event.t)
    rows = [row for row in store.spans(SpanQuery(prefix=prefix_below(run))) if row.kind == "process"]
    rows.sort(key=lambda row: (row.end_t is not None, row.start_t or 0, row.id))
    values = {name: float(value) for name, value in store.last_values([run]).get(run, {}).items()}
    values |= {label(point.name, point.tags): float(point.value) for point in fresh if point.span == run}
    processes = _processes(store, rows[:_MOST_PROCESSES], fresh)
    hidden = max(0, len(rows) - _MOST_PROCESSES)
    return CloseUp(seen, events, bars(store, run), processes, hidden, flatten(seen.config), values)


def _processes(store: Reader, rows: Sequence[SpanRow], fresh: Sequence[Newest]) -> list[ProcessLine]:
    newest: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    trends: dict[str, dict[str, list[float]]] = defaultdict(dict)
    spans = [row.id for row in rows]
    series = store.series(spans) if spans else []
    for one in series:
        if one.last is not None:
            newest[one.span][one.name, one.tags.get("gpu", "")] = float(one.last)
    drawn = {one.id: one for one in series if one.name in _CURVES and not one.tags}
    for number, one in drawn.items():
        trends[one.span][one.name] = trend.cells(trend.whole(store, number))
    wanted = set(spans)
    for point in fresh:
        if point.span in wanted:
            newest[point.span][point.name, point.tags.get("gpu", "")] = float(point.value)
    found = []
    for row in rows:
        sums: dict[str, float] = defaultdict(float)
        for (name, _), value in newest[row.id].items():
            sums[name] += value
        pid = row.attrs.get("pid")
        host = str(row.attrs.get("host") or "")
        found.append(
            ProcessLine(
                row.id, row.name, host, pid if isinstance(pid, int) else 0, row.state, row.cause,
                dict(sums) if row.end_t is None else {}, trends[row.id],
            )
        )  # fmt: skip
    return found
