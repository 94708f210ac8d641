"""The voice of the program that takes down what a run is made of: a spool of its own, kept and relayed like any."""

import os
import time
from collections.abc import Mapping

from vedette import kernel, wire
from vedette.blobs import Blobs
from vedette.home import Home
from vedette.model import Blob, Fact, Origin, Span, Value, new_id
from vedette.settings import Settings
from vedette.spool import Spool


class Voice:
    """Says facts of one run. It is none of the run's processes, so its own end says nothing of the run."""

    def __init__(self, home: Home, settings: Settings, run: str) -> None:
        self.run = run
        self.blobs = Blobs(home, settings.limits)
        self._t = 0
        pid = os.getpid()
        origin = Origin(
            new_id(10), kernel.host(), kernel.boot(), pid, kernel.start_ticks(pid) or 0, run, upstream=settings.upstream
        )
        self._spool = Spool(
            home.spool, lambda: origin, settings.spool.cap_bytes, settings.spool.cap_share, home.prepare
        )

    def set(self, attrs: Mapping[str, Value]) -> None:
        """Set attributes of the run."""
        self._say(Span(self.run, self._now(), attrs=dict(attrs)))

    def keep(self, name: str, data: bytes, media: str) -> str:
        """Keep bytes as a file of the run; return their digest."""
        digest, size = self.blobs.keep(data)
        self._say(Blob(self.run, self._now(), name, digest, size, media))
        return digest

    def close(self) -> None:
        """Say that nothing will follow."""
        self._spool.close()

    def _say(self, fact: Fact) -> None:
        self._spool.facts.append(wire.frame(wire.encode(fact)))

    def _now(self) -> int:
        self._t = max(time.time_ns(), self._t + 1)
        return self._t
