"""What the hub says of the progress of others: it looks at the gauges in their spools, and tells what has changed.

A process that is killed says nothing any more; its gauges are looked at once more before its spool is removed.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from vedette.gauges import Reading, read
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import HUB, Fact, Span

_EACH_S = 0.2  # between two words on one tracker
_WORDS_PER_S = 100.0  # on all of them
_MOST_AT_ONCE = 20.0

Gauge = tuple[float | None, float | None]
Say = Callable[[list[Fact], str], None]


class _Word(NamedTuple):
    """A word that is due; the one that has waited longest comes first."""

    since: float
    name: str
    id: str
    gauge: Gauge


class Gauges:
    """Looks at the gauges of readers, and says how far they are."""

    def __init__(self, say: Say) -> None:
        """`say` puts facts on record as the hub's."""
        self.trouble = ""
        self._say = say
        self._readings: dict[str, Reading] = {}
        self._said: dict[str, dict[str, tuple[Gauge, float]]] = {}  # what was said of each, and when
        self._words = _MOST_AT_ONCE  # how many there may be now
        self._looked = 0.0

    def look(self, readers: Mapping[str, SpoolReader], now: float, *, everything: bool = False) -> None:
        """Say what has changed; of the dead, and when `everything` is wanted, all of it at once."""
        due = everything or now - self._looked >= _EACH_S
        dead = [s for s in readers.values() if s.gone and not s.gauged and s.origin is not None]
        seen = list(readers.values()) if due else dead
        if not seen:
            return
        t = time.time_ns()  # before looking: what is seen was so then, or is later
        words = [word for reader in seen for word in self._changes(reader)]
        if due:
            self._words = min(_MOST_AT_ONCE, self._words + (now - self._looked) * _WORDS_PER_S)
            self._looked = now
        if not everything:
            urgent = {reader.name for reader in dead}
            rest = sorted(word for word in words if word.name not in urgent and now - word.since >= _EACH_S)
            words = [word for word in words if word.name in urgent] + rest[: int(self._words)]
        try:
            self._tell(words, readers, t, now)
        except OSError as error:  # the disk is full, say: it is said later, and until then the spool stays
            self.trouble = str(error)
            return
        for reader in dead:
            reader.gauged = True

    def forget(self, name: str) -> None:
        """Let go of an origin."""
        self._readings.pop(name, None)
        self._said.pop(name, None)

    def _changes(self, reader: SpoolReader) -> list[_Word]:
        if reader.origin is None or not reader.has_gauges or reader.gauged:
            return []
        name = reader.name
        reading = self._readings[name] = read(reader.directory, self._readings.get(name, Reading()))
        said = self._said.setdefault(name, {})
        for id_ in said.keys() - reading.gauges.keys():  # it has ended, and its process has said how far it was
            del said[id_]
        never: tuple[Gauge, float] = ((None, None), 0.0)
        return [
            _Word(said.get(id_, never)[1], name, id_, gauge)
            for id_, gauge in reading.gauges.items()
            if gauge != said.get(id_, never)[0] and gauge != (None, None)
        ]

    def _tell(self, words: list[_Word], readers: Mapping[str, SpoolReader], t: int, now: float) -> None:
        for upstream in {readers[word.name].upstream for word in words}:
            some = [word for word in words if readers[word.name].upstream == upstream]
            self._say([_span(word.id, word.gauge, t, word.name) for word in some], upstream)
            for word in some:
                self._said[word.name][word.id] = word.gauge, now
            self._words -= len(some)


def words_of(directory: str, origin: str, t: int) -> list[Fact]:
    """Return what can be said of the progress of one whose spool lies somewhere else."""
    return [_span(id_, gauge, t, origin) for id_, gauge in read(directory, Reading()).gauges.items()]


def _span(id_: str, gauge: Gauge, t: int, origin: str) -> Span:
    return Span(id_, t, by=HUB, at=gauge[0], add=gauge[1], of=origin)
