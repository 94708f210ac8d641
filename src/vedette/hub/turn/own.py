"""The hub's own voice: what it says goes through a spool like everybody's, one for each hub that is to hear it.

So its word is kept, relayed and found again after a kill -9 just as a process's is.
"""

import contextlib
import os
import platform

from vedette import kernel
from vedette.home import Home
from vedette.model import HUB, LANE_FACTS, Fact, Sample, Span, new_id
from vedette.segment import list_segments, segment_name
from vedette.voice import Clock, Voice, origin_here


class Own:
    """Says facts as this hub."""

    def __init__(self, home: Home) -> None:
        """Say nothing yet."""
        self._home = home
        self._clock = Clock()
        self.now = self._clock.now
        self._voices: dict[str, Voice] = {}
        self._unsynced: set[str] = set()

    @property
    def names(self) -> set[str]:
        """The origins under which this hub speaks."""
        return {voice.origin.name for voice in list(self._voices.values())}

    def say(self, facts: list[Fact], upstream: str = "") -> None:
        """Say facts to the hub that is meant; raise OSError when there is no room for them."""
        voice = self._voices.get(upstream)
        if voice is None:
            voice = self._voices[upstream] = self._begin(upstream)
            facts = [_host(self.now()), *facts]
        for fact in facts:
            voice.say(fact)
        if voice.lost:
            self.sync()  # what it has said before counts
            del self._voices[upstream]  # with a new one it may go better
            with contextlib.suppress(OSError):  # else each try would leave an empty one behind
                os.rmdir(voice.spool.directory)
            raise OSError(f"the hub's own spool cannot be written to: {voice.spool.trouble}")
        self._unsynced.add(upstream)

    @property
    def lost(self) -> int:
        """How many numbers there was no room for, in the spools that are being written to."""
        return sum(voice.spool.samples.lost for voice in self._voices.values())

    def sample(self, samples: list[Sample], upstream: str = "") -> None:
        """Say numbers to a hub; what there is no room for is lost, and counted in the spool."""
        if upstream not in self._voices:
            self.say([], upstream)
        for sample in samples:
            self._voices[upstream].sample(sample)

    def _begin(self, upstream: str) -> Voice:
        origin = origin_here("hub-" + new_id(8), upstream=upstream, voice=HUB)
        return Voice(self._home, lambda: origin, clock=self._clock)

    def sync(self) -> None:
        """Return when all that was said would survive a power cut."""
        for upstream in self._unsynced:
            directory = self._voices[upstream].spool.directory
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
        for voice in self._voices.values():
            voice.close()
        self._voices.clear()
        self._unsynced.clear()
        return names


def _host(t: int) -> Span:
    system = os.uname()
    attrs = {
        "host": kernel.host(),
        "boot": kernel.boot().partition("/")[0],
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{system.sysname} {system.release} {system.machine}",
        "python": platform.python_version(),
    }
    return Span(kernel.host_span(), t, "up", by=HUB, kind="host", name=kernel.host(), attrs=attrs)
