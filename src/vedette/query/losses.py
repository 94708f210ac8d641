"""Which records did not reach the store, and why."""

from msgspec import Struct

from vedette.store import EventQuery, Reader


class Losses(Struct, frozen=True):
    """Counts over the whole store."""

    dropped: int  # records that their own process dropped: the disk was full, or the spool at its limit
    damaged: int  # records that could not be read
    refused: int  # values that were not numbers
    swallowed: int  # calls that failed because of a bug of ours
    reasons: list[str] = []
    limited: dict[str, int] = {}  # points that were over a limit, by the name of the setting


def losses(store: Reader) -> Losses:
    """Add up what was lost."""
    dropped, reasons = 0, []
    for event in store.events(EventQuery(kinds=("dropped",))):
        dropped += int(event.attrs.get("count", 0))
        reasons.append(f"run {event.span}: {event.text}")
    swallowed = sum(int(e.attrs.get("count", 0)) for e in store.events(EventQuery(kinds=("swallowed",))))
    refused = sum(int(e.attrs.get("count", 0)) for e in store.events(EventQuery(kinds=("refused",))))
    origins = store.origins()
    damaged = sum(row.damaged for row in origins)
    return Losses(
        dropped, damaged, refused + sum(row.refused for row in origins), swallowed, reasons[-5:], store.refusals()
    )
