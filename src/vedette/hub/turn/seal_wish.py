"""Somebody waits until all that was logged up to now is in the store: how far spools must be read for that."""

from collections.abc import Callable, Mapping

from vedette.hub.turn.spool_reader import SpoolReader
from vedette.ids import above
from vedette.wire import NO_RUN


class SealWish:
    """The wish that all that a run has logged until now is sealed. It may take several turns."""

    def __init__(self, run: str) -> None:
        """`run`: empty for all runs; NO_RUN to have all spools looked at, and what the hub has said committed."""
        self.run = run
        self.is_done = False
        self._ends: dict[str, tuple[int, tuple[int, int]]] = {}  # by spool: how often it was read, and where it ends
        self.has_begun = False

    def begin(self, readers: Mapping[str, SpoolReader]) -> None:
        """Note how far spools are written now. What is written later need not be waited for."""
        self.has_begun = True
        self._ends = {
            name: (reader.reads, reader.allocated_until()) for name, reader in readers.items() if self._concerns(reader)
        }

    def is_reached(self, readers: Mapping[str, SpoolReader], may_read: Callable[[SpoolReader], bool]) -> bool:
        """Tell whether all spools were read as far as they were written then, if they may be read at all."""
        waiting = ((readers[name], *end) for name, end in self._ends.items() if name in readers)
        return self.has_begun and all(
            not may_read(reader) or self._has_reached(reader, ends, since) for reader, since, ends in waiting
        )

    def _has_reached(self, reader: SpoolReader, ends: tuple[int, int], since: int) -> bool:
        if self.run == NO_RUN and not reader.of_hub:
            return reader.reads > since
        return reader.has_reached(ends, since)

    def _concerns(self, reader: SpoolReader) -> bool:
        """Tell whether a spool may have something of the run. A hub speaks of every run; some have not said theirs."""
        origin = reader.origin
        if self.run in ("", NO_RUN) or origin is None or reader.of_hub:
            return True
        return self.run in above(origin.span) or self.run in above(origin.process)
