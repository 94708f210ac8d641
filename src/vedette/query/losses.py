"""Which records did not reach the store, or are found by nobody there, and why."""

from msgspec import Struct

from vedette.store import EventQuery, EventRow, Reader, SpanQuery


class Losses(Struct, frozen=True):
    """Counts over the whole store."""

    dropped: int  # records that their own process dropped: the disk was full, or the spool at its limit
    damaged: int  # records that could not be read
    refused: int  # values that were not numbers
    swallowed: int  # calls that failed because of a bug of ours
    reasons: list[str] = []
    limited: dict[str, int] = {}  # points that were over a limit, by the name of the setting
    unbegun: list[str] = []  # runs that processes took part in, and whose beginning is not here: no list shows them


def losses(store: Reader) -> Losses:
    """Add up what was lost."""
    dropped, reasons = _dropped(store)
    swallowed = sum(int(e.attrs.get("count", 0)) for e in store.events(EventQuery(kinds=("swallowed",))))
    refused = sum(int(e.attrs.get("count", 0)) for e in store.events(EventQuery(kinds=("refused",))))
    origins = store.origins()
    damaged = sum(row.damaged for row in origins)
    here = {name for name, lane in store.marks() if not lane.endswith(">")}  # of others all is kept by another hub
    runs = {row.origin.span for row in origins if row.origin.name in here} - {""}  # a hub's own origins have none
    begun = {row.id for row in store.spans(SpanQuery(kind="run", ids=tuple(runs), only=()))}
    return Losses(
        dropped, damaged, refused + sum(row.refused for row in origins), swallowed, reasons[-5:], store.refusals(),
        sorted(runs - begun),
    )  # fmt: skip


def _dropped(store: Reader) -> tuple[int, list[str]]:
    """Return how many records were dropped, and the reasons, the newest last.

    A process at its cap says it with every segment, so that a kill loses no count: these notices are added up here.
    What it has dropped the hub may have read before: what is in the store was not lost.
    """
    dropped = 0
    sums: dict[tuple[str, str, bool], int] = {}  # by run, reason, and whether the reason begins with the count
    for event in store.events(EventQuery(kinds=("dropped",))):
        told = int(event.attrs.get("count", 0))
        count = told - _kept_since(store, event)
        dropped += count
        number, _, rest = event.text.removeprefix("up to ").partition(" ")
        counted = number == str(told)
        key = event.span, rest if counted else event.text, counted
        sums[key] = sums.pop(key, 0) + count
    return dropped, [
        f"run {run}: {count} {reason}" if counted else f"run {run}: {reason}"
        for (run, reason, counted), count in sums.items()
    ]


def _kept_since(store: Reader, event: EventRow) -> int:
    """Return how many records of the segments that a process has dropped are in the store all the same."""
    origin, segments = event.attrs.get("origin"), event.attrs.get("segments")
    if (
        not isinstance(origin, str)
        or not isinstance(segments, list)
        or not all(isinstance(number, int) for number in segments)
    ):
        return 0
    parts = zip(segments[::3], segments[1::3], segments[2::3], strict=False)
    return sum(min(count, store.count_samples(origin, begin, end)) for begin, end, count in parts)
