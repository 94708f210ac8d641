"""What the hub says itself: facts and samples are written to spools of its own, one for each hub they are meant for.

Its meter and its listeners, which are processes of their own, say what they measure and receive in the same way.
So all of it is committed, relayed, and found again after a kill -9 like the records of every process.
"""

import contextlib
import os
import platform
from collections.abc import Callable

from vedette import kernel
from vedette.home import Home
from vedette.ids import new_id
from vedette.model import HUB, LANE_FACTS, Fact, Sample, Span
from vedette.segment import list_segments, segment_name
from vedette.voice import SteadyClock, Voice, origin_here

Say = Callable[[list[Fact], str], None]  # writes facts for a hub, as `Own.say` does


class Own:
    """Writes facts and samples as the hub, from the hub itself or from one of its helper processes."""

    def __init__(self, home: Home) -> None:
        """Say nothing yet."""
        self._home = home
        self._clock = SteadyClock()
        self.now = self._clock.now
        self._voices: dict[str, Voice] = {}
        self._unsynced: set[str] = set()

    @property
    def names(self) -> set[str]:
        """The origins of these spools."""
        return {voice.origin.name for voice in list(self._voices.values())}

    def say(self, facts: list[Fact], upstream: str = "") -> None:
        """Write facts for a hub; raise OSError when there is no room for them."""
        voice = self._voices.get(upstream)
        if voice is None:
            voice = self._voices[upstream] = self._begin(upstream)
            facts = [_host(self.now()), *facts]
        for fact in facts:
            voice.say(fact)
        if voice.spool.facts.lost:  # lost samples are counted, and facts may have room all the same
            self.sync()  # what was written before must be on disk
            del self._voices[upstream]  # the next try begins a new spool
            with contextlib.suppress(OSError):  # so that failed tries leave no empty directories
                os.rmdir(voice.spool.directory)
            raise OSError(f"the spool {voice.spool.directory} cannot be written to: {voice.spool.trouble}")
        self._unsynced.add(upstream)

    @property
    def lost(self) -> int:
        """How many samples there was no room for, in the open spools."""
        return sum(voice.spool.samples.lost for voice in self._voices.values())

    def sample(self, samples: list[Sample], upstream: str = "") -> None:
        """Write samples for a hub; those that there is no room for are lost, and counted in the spool."""
        if upstream not in self._voices:
            self.say([], upstream)
        for sample in samples:
            self._voices[upstream].sample(sample)

    def _begin(self, upstream: str) -> Voice:
        origin = origin_here("hub-" + new_id(8), upstream=upstream, voice=HUB)
        return Voice(self._home, lambda: origin, clock=self._clock)

    def sync(self) -> None:
        """Flush all that was written to disk."""
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
        """Write that nothing will follow; return the origins of the spools."""
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
        "boot": kernel.boot_alone(kernel.boot()),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{system.sysname} {system.release} {system.machine}",
        "python": platform.python_version(),
    }
    return Span(kernel.host_span(), t, "up", by=HUB, kind="host", name=kernel.host(), attrs=attrs)
