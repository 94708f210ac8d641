"""Tells the meter, a helper process, which processes to measure and how often: each process says that itself."""

from collections.abc import Mapping

from vedette import ids, kernel
from vedette.deaths.process_watch import Watch
from vedette.home import Home
from vedette.hub.helper_process import Helper
from vedette.hub.processes.wishes import Leave, Measure, Spoke
from vedette.hub.turn.about_process import wished_s
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import KINDS, Origin
from vedette.settings import Settings
from vedette.store import Compare, Reader, SpanQuery

_MODULE = "vedette.hub.processes.meter"
_ENDS = KINDS["process"].ends


class Metering:
    """Runs a meter while there are processes to measure."""

    def __init__(self, home: Home, store: Reader, settings: Settings) -> None:
        """Measure nobody yet."""
        self._store = store
        self._default_s = settings.usage.interval_s if settings.usage.enable else 0.0
        gpu = "gpu" if settings.usage.gpu else "none"
        self._meter = Helper("meter", _MODULE, (home.asked, gpu), self._all_wishes)
        self._here: dict[str, SpoolReader] = {}
        self._told: dict[str, Measure] = {}
        self._met: set[str] = set()

    @property
    def trouble(self) -> str:
        """What is wrong with the meter, in a sentence; empty if it measures, or has nobody to measure."""
        return self._meter.trouble

    def tend(self, readers: Mapping[str, SpoolReader], watches: Mapping[str, Watch]) -> None:
        """Tell the meter which processes are new, and which have ended."""
        self._here = {name: reader for name, reader in readers.items() if self._is_here(reader, watches)}
        self._tell_of_brief_ones(readers)
        for name in self._told.keys() - self._here.keys():
            self._meter.tell(Leave(name))
            del self._told[name]
        for name in self._here.keys() - self._told.keys():
            wish = self._wish(self._here[name])
            if wish is not None:
                self._told[name] = wish
                self._meter.tell(wish)
        # Processes that asked not to be measured need no meter.
        self._meter.tend(wanted=any(wish.interval_s > 0 for wish in self._told.values()))

    def _tell_of_brief_ones(self, readers: Mapping[str, SpoolReader]) -> None:
        """Tell a meter that runs of processes that had ended when they were met: it may have seen them, too."""
        self._met &= readers.keys()
        for name in readers.keys() - self._met:
            origin = readers[name].origin
            if origin is None:
                continue
            self._met.add(name)
            if self._told and name not in self._here and origin.process and origin.boot == kernel.boot():
                self._meter.tell(Spoke(origin.pid, origin.started, origin.process, origin.upstream))

    def _all_wishes(self) -> list[Measure]:
        """Return the wishes of all processes, made again: the last meter may have opened spans since."""
        wishes = {name: self._wish(self._here[name]) for name in self._told}
        self._told = {name: wish for name, wish in wishes.items() if wish is not None}
        return list(self._told.values())

    @staticmethod
    def _is_here(reader: SpoolReader, watches: Mapping[str, Watch]) -> bool:
        origin = reader.origin
        if reader.gone or origin is None or not origin.process or reader.about.state in _ENDS:
            return False
        watch = watches.get(reader.name)
        # In another pid namespace it has another pid.
        return watch is not None and not watch.unknown and watch.pid == origin.pid

    def _wish(self, reader: SpoolReader) -> Measure | None:
        """Return the wish of a process; None while it has not written it."""
        origin, interval_s = reader.origin, reader.about.usage_s
        assert origin is not None
        if interval_s is None:
            if not reader.resumed:
                return None
            interval_s = reader.about.usage_s = self._recall(origin)
        by_pid = ids.prefix_below(ids.enclosing(origin.process)) + ids.BY_PID
        rows = self._store.spans(SpanQuery(prefix=by_pid, only=()))
        open_ones = [row.id for row in rows if row.state not in _ENDS and ids.pid_and_start(row.id)]
        return Measure(reader.name, origin.pid, origin.started, origin.process, interval_s, origin.upstream, open_ones)

    def _recall(self, origin: Origin) -> float:
        """Return what a process asked of an earlier hub; the default if its records went to another hub."""
        for row in self._store.spans(SpanQuery(where=Compare("id", "=", origin.process), only=("usage_s",))):
            if (wished := wished_s(row.attrs)) is not None:
                return wished
        return self._default_s

    def close(self) -> None:
        """End the meter for good."""
        self._meter.close()
