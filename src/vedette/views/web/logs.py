"""Log lines of a run: a page of them, and how many there are over time."""

from msgspec import Struct

from vedette.asgi import Refusal
from vedette.query.finding import find
from vedette.query.logs import level_number
from vedette.store import EventQuery, EventRow, Reader
from vedette.views.web.routes import Request
from vedette.views.web.state import AppState

_MS = 10**6
_MOST_TEXT = 64 << 10  # characters of one line
_BANDS = (("error", 40), ("warning", 30), ("info", 20), ("debug", -(1 << 62)))


class LineShape(Struct, frozen=True):
    """One line."""

    id: int
    t: float
    kind: str
    level: int
    text: str
    process: str
    host: str
    pid: int
    cut: bool = False  # the text was cut: it is longer


class Lines(Struct, frozen=True):
    """Lines, the oldest first; `first` and `last`: there are none before these, or after them."""

    rows: list[LineShape]
    first: bool
    last: bool


class Density(Struct, frozen=True):
    """How many lines there are in each of equal parts of a time range, by level."""

    from_t: float
    to_t: float
    counts: dict[str, list[int]]


def logs(state: AppState, store: Reader, request: Request) -> Lines:  # noqa: ARG001
    """Return lines after an id, before one, or the newest."""
    query = request.query
    run = find(store, request.path["run"]).id
    after, before, limit = query["after"], query["before"], query["limit"]
    if after is not None and before is not None:
        raise Refusal(400, "give `after` or `before`, not both")
    kinds = tuple(word for word in query["kind"].split(",") if word)
    # Read one more than wanted, to know whether there are more.
    found = store.events(
        EventQuery(
            run, after or 0, kinds, level_number(query["level"] or 0), before=before,
            first=limit + 1 if after is not None else None, last=limit + 1 if after is None else None,
            from_t=_ns(query["from_t"]), to_t=_ns(query["to_t"]), contains=query["grep"], process=query["process"],
        )
    )  # fmt: skip
    more = len(found) > limit
    if after is not None:
        return Lines([_line(event) for event in found[:limit]], first=after == 0, last=not more)
    return Lines([_line(event) for event in found[-limit:]], first=not more, last=before is None)


def density(state: AppState, store: Reader, request: Request) -> Density:  # noqa: ARG001
    """Count lines over time."""
    query = request.query
    run = find(store, request.path["run"])
    begun, ended = run.start_t or 0, run.end_t
    if ended is None:
        newest = store.events(EventQuery(run.id, last=1))
        ended = max((event.t for event in newest), default=begun)
    from_t = begun if query["from_t"] is None else _ns(query["from_t"]) or 0
    to_t = ended if query["to_t"] is None else _ns(query["to_t"]) or 0
    buckets = query["buckets"]
    counts = {name: [0] * buckets for name, _ in reversed(_BANDS)}
    if to_t >= from_t:
        for bucket, level, count in store.density(run.id, from_t, to_t, buckets):
            name = next(name for name, least in _BANDS if level >= least)
            counts[name][min(bucket, buckets - 1)] += count
    return Density(from_t / _MS, to_t / _MS, counts)


def _ns(t: float | None) -> int | None:
    return None if t is None else round(t * 1e3) * 1000


def _line(event: EventRow) -> LineShape:
    process = event.attrs.get("process")
    return LineShape(
        event.id, event.t / _MS, event.kind, event.level, event.text[:_MOST_TEXT],
        process if isinstance(process, str) else "", event.host, event.pid, len(event.text) > _MOST_TEXT,
    )  # fmt: skip
