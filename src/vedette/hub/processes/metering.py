"""Who is to be measured, as the processes wish it themselves; the meter, another process, does it."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO

from vedette.home import Home
from vedette.hub.liveness import Watch
from vedette.hub.processes.meter import Leave, Measure, encode_wish
from vedette.hub.turn.spool_reader import SpoolReader, wished_s
from vedette.model import KINDS, Origin
from vedette.settings import Settings
from vedette.store import Compare, Reader, SpanQuery

_AGAIN_S = 5.0  # a meter that died is started again after that
_PATIENCE_S = 1.0
_ENDS = KINDS["process"].ends

Start = Callable[[], "subprocess.Popen[bytes]"]


class Usage:
    """Keeps a meter as long as somebody is to be measured, and tells it whom."""

    def __init__(self, store: Reader, settings: Settings, start: Start | None) -> None:
        """`start` begins a meter, which listens on its standard input; without it nobody is measured."""
        self._store = store
        self._default_s = settings.usage.interval_s if settings.usage.enable else 0.0
        self._start = start
        self._meter: subprocess.Popen[bytes] | None = None
        self._told: dict[str, Measure] = {}
        self._pending = b""
        self._again_at = 0.0

    def tend(self, readers: Mapping[str, SpoolReader], watches: Mapping[str, Watch]) -> None:
        """Look who has come, gone, or ended; pass it on."""
        if self._start is None:
            return
        if self._meter is not None and (code := self._meter.poll()) is not None:
            self._again_at = time.monotonic() + _AGAIN_S if code else 0.0
            self._lose_meter()
        here = {name for name, reader in readers.items() if self._is_here(reader, watches)}
        for name in self._told.keys() - here:
            self._tell(Leave(name))
            del self._told[name]
        for name in here - self._told.keys():
            wish = self._wish(readers[name])
            if wish is not None and self._has_meter(wish):
                self._told[name] = wish
                self._tell(wish)
        self._pass_on()

    @staticmethod
    def _is_here(reader: SpoolReader, watches: Mapping[str, Watch]) -> bool:
        origin = reader.origin
        if reader.gone or origin is None or not origin.process or reader.state in _ENDS:
            return False
        watch = watches.get(reader.name)
        return watch is not None and not watch.unknown

    def _wish(self, reader: SpoolReader) -> Measure | None:
        """Return what a process wishes; None while it has not said so."""
        origin, interval_s = reader.origin, reader.usage_s
        assert origin is not None
        if interval_s is None:
            if not reader.resumed:
                return None
            interval_s = reader.usage_s = self._recall(origin)
        attempt = origin.process.rpartition("/")[0]
        rows = self._store.spans(SpanQuery(prefix=attempt + "/pid-", only=()))
        open_ones = [row.id for row in rows if row.state not in _ENDS and _is_ours(row.id)]
        return Measure(reader.name, origin.pid, origin.started, origin.process, interval_s, origin.upstream, open_ones)

    def _recall(self, origin: Origin) -> float:
        """Return what a process wished when an earlier hub heard it; its word may be with another hub by now."""
        for row in self._store.spans(SpanQuery(where=Compare("id", "=", origin.process), only=("usage_s",))):
            if (wished := wished_s(row.attrs)) is not None:
                return wished
        return self._default_s

    def _has_meter(self, wish: Measure) -> bool:
        """Make sure of a meter; who wishes not to be measured needs none."""
        if self._meter is None and wish.interval_s > 0 and time.monotonic() >= self._again_at and self._start:
            try:
                self._meter = self._start()
            except OSError:
                self._again_at = time.monotonic() + _AGAIN_S
                return False
            os.set_blocking(self._ear.fileno(), False)
            return True
        return self._meter is not None

    @property
    def _ear(self) -> IO[bytes]:
        assert self._meter is not None
        assert self._meter.stdin is not None
        return self._meter.stdin

    def _tell(self, wish: Measure | Leave) -> None:
        if self._meter is not None:
            self._pending += encode_wish(wish) + b"\n"

    def _pass_on(self) -> None:
        """Write what fits; a meter that does not listen must not hold up the hub."""
        if self._pending and self._meter is not None:
            try:
                self._pending = self._pending[os.write(self._ear.fileno(), self._pending) :]
            except BlockingIOError:
                pass
            except OSError:  # it is about to be found dead
                self._pending = b""

    def _lose_meter(self) -> None:
        if self._meter is not None:
            with contextlib.suppress(OSError):
                self._ear.close()
        self._meter, self._pending = None, b""
        self._told.clear()  # the next one is told everything

    def close(self) -> None:
        """Have the meter leave, for good."""
        self._start = None
        if self._meter is None:
            return
        with contextlib.suppress(OSError):
            self._ear.close()
        try:
            self._meter.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:  # a driver that hangs, say
            self._meter.kill()
            self._meter.wait()
        self._lose_meter()


def _is_ours(span: str) -> bool:
    """Tell whether a span is one that a meter has named."""
    _, *numbers = span.rpartition("/")[2].split("-")
    return len(numbers) == 2 and all(word.isascii() and word.isdigit() for word in numbers)


def start_meter(home: Home, settings: Settings) -> "subprocess.Popen[bytes]":
    """Start a meter for a home."""
    gpu = "gpu" if settings.usage.gpu else "none"
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "vedette.hub.processes.meter", home.asked, gpu],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, cwd="/",
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
