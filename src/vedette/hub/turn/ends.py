"""What must be in a store before it shows an end: all that the process had said, in both lanes.

Lanes are committed apart, over a relay at quite different times, and how a process died is in the hub's own lane. So
the hub that has the spools writes into each end how far these lanes had come (`Span.after`).
"""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from vedette.hub.turn.spool_reader import SpoolReader
from vedette.ids import enclosing
from vedette.model import ENDS, Fact, Place, Span

_MOST = 500  # origins of one end: more would not fit into one record


def of_process(reader: SpoolReader) -> tuple[Place, ...]:
    """Return how far a process has come."""
    return (Place(reader.name, *reader.written_until()),)


def of_try(reader: SpoolReader, tries: "Tries") -> tuple[Place, ...]:
    """Return how far all processes of a try have come on this host; the one that ends it comes first."""
    mine = reader.origin
    if mine is None or not mine.process:
        return of_process(reader)
    others = [other for other in tries.of(mine.process) if other is not reader and other.upstream == reader.upstream]
    return tuple(place for one in (reader, *others[: _MOST - 1]) for place in of_process(one))


class Tries:
    """The readers of each try. It is made anew for each pass, and only if somebody asks."""

    def __init__(self, readers: Mapping[str, SpoolReader]) -> None:
        self._readers = readers
        self._by_try: dict[str, list[SpoolReader]] | None = None

    def of(self, process: str) -> list[SpoolReader]:
        """Return the readers of all processes that are in one try with this one."""
        if self._by_try is None:
            self._by_try = defaultdict(list)
            for reader in self._readers.values():
                if reader.origin is not None:
                    self._by_try[enclosing(reader.origin.process)].append(reader)
        return self._by_try.get(enclosing(process), [])


def with_places(fact: Fact, reader: SpoolReader, tries: Tries) -> Fact:
    """Return a fact as it is committed: the end of a process or of a try is shown behind all that was said before."""
    if reader.of_hub or reader.origin is None or not isinstance(fact, Span) or fact.state not in ENDS:
        return fact
    if fact.id == reader.origin.process:
        return msgspec.structs.replace(fact, after=of_process(reader))
    if fact.id == enclosing(reader.origin.process):
        return msgspec.structs.replace(fact, after=of_try(reader, tries))
    return fact
