"""The hub's own voice: what it says goes through a spool like everybody's, one for each hub that is to hear it.

So its word is kept, relayed and found again after a kill -9 just as a process's is.
"""

import contextlib
import os
import platform
import time

from vedette import kernel, wire
from vedette.home import Home
from vedette.model import HUB, LANE_FACTS, Fact, Origin, Sample, Span, new_id
from vedette.segment import list_segments, segment_name
from vedette.spool import Spool

_CAP_BYTES, _CAP_SHARE = 1 << 30, 0.1


class Own:
    """Says facts as this hub."""

    def __init__(self, home: Home) -> None:
        """Say nothing yet."""
        self._home = home
        self._spools: dict[str, Spool] = {}
        self._unsynced: set[str] = set()

    @property
    def names(self) -> set[str]:
        """The origins under which this hub speaks."""
        return {spool.origin.name for spool in list(self._spools.values())}

    def say(self, facts: list[Fact], upstream: str = "") -> None:
        """Say facts to the hub that is meant; raise OSError when there is no room for them."""
        spool = self._spools.get(upstream)
        if spool is None:
            spool = self._spools[upstream] = self._begin(upstream)
            facts = [_host(), *facts]
        for fact in facts:
            spool.facts.append(wire.frame(wire.encode(fact)))
        if spool.lost:
            self.sync()  # what it has said before counts
            del self._spools[upstream]  # with a new one it may go better
            with contextlib.suppress(OSError):  # else each try would leave an empty one behind
                os.rmdir(spool.directory)
            raise OSError(f"the hub's own spool cannot be written to: {spool.trouble}")
        self._unsynced.add(upstream)

    @property
    def lost(self) -> int:
        """How many numbers there was no room for, in the spools that are being written to."""
        return sum(spool.samples.lost for spool in self._spools.values())

    def sample(self, samples: list[Sample], upstream: str = "") -> None:
        """Say numbers to a hub; what there is no room for is lost, and counted in the spool."""
        if upstream not in self._spools:
            self.say([], upstream)
        for sample in samples:
            self._spools[upstream].samples.append(wire.frame(wire.encode(sample)))

    def _begin(self, upstream: str) -> Spool:
        pid = os.getpid()
        origin = Origin(
            "hub-" + new_id(8), kernel.host(), kernel.boot(), pid, kernel.start_ticks(pid) or 0,
            upstream=upstream, voice=HUB,
        )  # fmt: skip
        return Spool(self._home.spool, lambda: origin, _CAP_BYTES, _CAP_SHARE, self._home.prepare)

    def sync(self) -> None:
        """Return when all that was said would survive a power cut."""
        for upstream in self._unsynced:
            directory = self._spools[upstream].directory
            for offset in list_segments(directory, LANE_FACTS)[-2:]:
                try:
                    fd = os.open(os.path.join(directory, segment_name(LANE_FACTS, offset)), os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                try:
                    os.fdatasync(fd)
                finally:
                    os.close(fd)
        self._unsynced.clear()

    def close(self) -> set[str]:
        """Say that nothing will follow; return the origins that were spoken under."""
        names = self.names
        for spool in self._spools.values():
            spool.close()
        self._spools.clear()
        self._unsynced.clear()
        return names


def _host() -> Span:
    system = os.uname()
    attrs = {
        "host": kernel.host(),
        "boot": kernel.boot().partition("/")[0],
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{system.sysname} {system.release} {system.machine}",
        "python": platform.python_version(),
    }
    return Span(kernel.host_span(), time.time_ns(), "up", by=HUB, kind="host", name=kernel.host(), attrs=attrs)
