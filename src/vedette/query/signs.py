"""When a run last said something, logged a point, and used CPU: what tells whether it works, waits or is stuck."""

from msgspec import Struct

from vedette.ids import prefix_below
from vedette.query.runs import RunView
from vedette.store import EventQuery, Reader, SpanQuery

_LINE_KINDS = ("log", "output", "warning", "exception", "mark")
_BUSY_PERCENT = 1.0  # of one core; less is a process that only wakes up now and then
_RECENT = 512  # samples of usage in which CPU use is looked for


class LastSigns(Struct, frozen=True):
    """Times in nanoseconds; None: never, or not in the newest samples."""

    line_t: int | None
    point_t: int | None
    cpu_t: int | None


def last_signs(store: Reader, view: RunView) -> LastSigns:
    """Return the last signs of a run."""
    lines = store.events(EventQuery(view.id, kinds=_LINE_KINDS, last=1))
    points = [row.last_t for row in view.series() if row.last_t is not None]
    processes = [row.id for row in store.spans(SpanQuery(kind="process", prefix=prefix_below(view.id), only=()))]
    cpu = [row.id for row in store.series(processes, "cpu_percent") if not row.tags] if processes else []
    busy = []
    for used in store.recent(cpu, _RECENT).values() if cpu else ():
        times = used.t[used.value >= _BUSY_PERCENT]
        busy += [int(times.max())] if len(times) else []
    return LastSigns(lines[-1].t if lines else None, max(points, default=None), max(busy, default=None))
