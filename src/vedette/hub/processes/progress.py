"""The progress of other processes: the hub reads the gauges in their spools, and writes down what has changed.

The gauges of a dead process are read once more before its spool is removed.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

from vedette.gauges import GaugesFile, read
from vedette.hub.own import Say
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import HUB, Fact, Span

_EACH_S = 0.2  # between two updates of one bar
_UPDATES_PER_S = 100.0  # of all bars
_MOST_AT_ONCE = 20.0

Gauge = tuple[float | None, float | None]


class _Update(NamedTuple):
    """A bar that has changed; they are sorted by the time of the last update, the oldest first."""

    since: float
    name: str
    id: str
    gauge: Gauge


class ProgressRecorder:
    """Reads the gauges of spools, and writes their progress as facts."""

    def __init__(self, say: Say) -> None:
        """`say` writes facts as the hub's."""
        self.trouble = ""
        self._say = say
        self._files: dict[str, GaugesFile] = {}
        self._said: dict[str, dict[str, tuple[Gauge, float]]] = {}  # by origin and bar: the last update, and when
        self._budget = _MOST_AT_ONCE  # how many updates there may be now
        self._looked = 0.0

    def look(self, readers: Mapping[str, SpoolReader], now: float, *, everything: bool = False) -> None:
        """Write what has changed. Processes that ended, and `everything`, are not subject to the limits of rate."""
        due = everything or now - self._looked >= _EACH_S
        dead = [s for s in readers.values() if not s.progress_recorded and s.origin is not None and (s.gone or s.rests)]
        seen = list(readers.values()) if due else dead
        if not seen:
            return
        t = time.time_ns()  # before the read, so that it is never later than what was read
        updates = [update for reader in seen for update in self._changes(reader)]
        if due:
            self._budget = min(_MOST_AT_ONCE, self._budget + (now - self._looked) * _UPDATES_PER_S)
            self._looked = now
        if not everything:
            urgent = {reader.name for reader in dead}
            rest = sorted(update for update in updates if update.name not in urgent and now - update.since >= _EACH_S)
            updates = [update for update in updates if update.name in urgent] + rest[: int(self._budget)]
        try:
            self._tell(updates, readers, t, now)
        except OSError as error:  # the disk is full, for example: it is tried again, and until then the spool stays
            self.trouble = str(error)
            return
        self.trouble = ""
        for reader in dead:
            reader.progress_recorded = True

    def forget(self, name: str) -> None:
        """Forget an origin."""
        self._files.pop(name, None)
        self._said.pop(name, None)

    def _changes(self, reader: SpoolReader) -> list[_Update]:
        if reader.origin is None or not reader.has_gauges or reader.progress_recorded:
            return []
        name = reader.name
        found = self._files[name] = read(reader.directory, self._files.get(name, GaugesFile()))
        said = self._said.setdefault(name, {})
        for id_ in said.keys() - found.gauges.keys():  # the bar has ended, and its process has written how far it was
            del said[id_]
        never: tuple[Gauge, float] = ((None, None), 0.0)
        return [
            _Update(said.get(id_, never)[1], name, id_, gauge)
            for id_, gauge in found.gauges.items()
            if gauge != said.get(id_, never)[0] and gauge != (None, None)
        ]

    def _tell(self, updates: list[_Update], readers: Mapping[str, SpoolReader], t: int, now: float) -> None:
        for upstream in {readers[update.name].upstream for update in updates}:
            some = [update for update in updates if readers[update.name].upstream == upstream]
            self._say([_span(update.id, update.gauge, t, update.name) for update in some], upstream)
            for update in some:
                self._said[update.name][update.id] = update.gauge, now
            self._budget -= len(some)


def progress_of(directory: str, origin: str, t: int) -> list[Fact]:
    """Return the progress in the gauges of a spool that lies outside of this home, as facts."""
    return [_span(id_, gauge, t, origin) for id_, gauge in read(directory, GaugesFile()).gauges.items()]


def _span(id_: str, gauge: Gauge, t: int, origin: str) -> Span:
    return Span(id_, t, by=HUB, at=gauge[0], add=gauge[1], of=origin)
