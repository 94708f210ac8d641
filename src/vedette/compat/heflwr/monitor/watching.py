"""heflwr's monitor: each start() begins a Monitor of ours, stop() ends it, and the results add up."""

import abc
import math
import os
import threading
import uuid
from typing import Any, ClassVar, Literal

from msgspec import structs

from vedette.client.faults import say_once
from vedette.compat.heflwr import form
from vedette.compat.heflwr.monitor.numbers import Account, Wanted
from vedette.errors import VedetteError
from vedette.monitor import Monitor
from vedette.sinks import prometheus, text
from vedette.sinks.plain import SENSORS

_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.01, 86_400.0  # heflwr accepts 0, and then measures without a pause


class Watching(abc.ABC):
    """What the six monitors share. One subclass says where the numbers go, another where the monitor runs."""

    _where: ClassVar[Literal["process", "thread"]]

    def __init__(self, interval: float) -> None:
        if isinstance(interval, bool) or not isinstance(interval, int | float):
            raise TypeError(f"the interval is a number of seconds, not {interval!r}")
        if not (math.isfinite(interval) and interval >= 0):
            raise ValueError(f"the interval is a number of seconds, 0 or more, not {interval!r}")
        self.pid = os.getpid()
        self.interval = interval
        self.metrics = {"cpu": True, "memory": True, "network": True, "power": False}
        self._running = threading.Event()
        self._monitor: Monitor | None = None
        self._found: tuple[Account, tuple[Wanted, Monitor] | None] = Account(), None  # of before, and what adds to it

    @abc.abstractmethod
    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        """Return the name and the Config of the sink that these numbers go to."""

    def set_metrics(self, **kwargs: bool) -> None:
        """Set which metrics are measured from now on; raise the same errors as heflwr."""
        before = dict(self.metrics)
        for name, value in kwargs.items():
            if name not in self.metrics:
                raise ValueError(f"Metric '{name}' is not supported. Available metrics: {list(self.metrics)}")
            if not isinstance(value, bool):
                raise TypeError(f"Value for metric '{name}' must be a boolean, got {type(value)} instead.")
            self.metrics[name] = value
        if self._running.is_set() and self.metrics != before:
            self.stop()
            self.start()

    def start(self) -> None:
        """Begin to measure; do nothing if it already runs. Say what cannot be measured, and leave it out."""
        if self._running.is_set() and self._monitor is not None and self._monitor.running:
            return
        self.stop()
        wanted = tuple(name for name, on in self.metrics.items() if on)
        for sinks in ([self._sink(wanted)], []):
            try:
                monitor = self._new_monitor(wanted, sinks).start()
            except (VedetteError, OSError) as error:
                say_once(f"{error}; {'the monitor measures without it' if sinks else 'nothing is measured'}")
                continue
            self._monitor, self._found = monitor, (self._account(), (wanted, monitor))
            self._running.set()
            for name, why in monitor.absent.items():
                say_once(f"{name} is not measured: {why}")
            return

    def _new_monitor(self, wanted: Wanted, to: list[tuple[str, Any]]) -> Monitor:
        return Monitor(
            to,
            interval_s=min(max(_MIN_INTERVAL_S, self.interval), _MAX_INTERVAL_S),
            where=self._where if os.name == "posix" else "thread",
            pid=self.pid,
            sensors=sorted({SENSORS[name] for name in wanted or ("cpu",)}),
        )

    def stop(self) -> None:
        """Take a last sample, and stop measuring."""
        self._running.clear()
        if self._monitor is not None:
            self._monitor.stop()

    def _account(self, *, lists: bool = True) -> Account:
        before, now = self._found
        if now is None:
            return before
        wanted, monitor = now
        return before.plus(wanted, monitor.primed, monitor.stats() if lists else {}, monitor.summary())

    def stats(self) -> dict[str, list[float]]:
        """Return what was measured so far: a list for each number."""
        return {key: list(values) for key, values in self._account().stats.items()}

    def summary(self) -> dict[str, float]:
        """Return time-weighted averages, and totals, of all that was measured so far."""
        return self._account(lists=False).summary


class ToFile(Watching):
    """Writes to a file, a line per moment."""

    def __init__(self, file: str, interval: float = 5) -> None:
        super().__init__(interval)
        self.file = file
        self._path = os.path.abspath(os.fspath(file))

    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        return "text", text.Config(self._path, wanted=tuple(wanted))


class ToPrometheus(Watching):
    """Serves the numbers to Prometheus at a port, by default only on loopback."""

    def __init__(
        self,
        port: int = 8003,
        interval: float = 5,
        *,
        host: str = "127.0.0.1",
        token: str = "",
        cert: str = "",
        key: str = "",
        hostnames: tuple[str, ...] = (),
    ) -> None:
        super().__init__(interval)
        if isinstance(port, bool) or not isinstance(port, int):
            raise TypeError(f"the port is a number, not {port!r}")
        self.port = port
        self._config = prometheus.Config(
            host, port, "plain", token=token, cert=cert, key=key, hostnames=tuple(hostnames)
        )

    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        return "prometheus", structs.replace(self._config, wanted=tuple(wanted))


class ToRemote(Watching):
    """Posts each moment to a server; while the server is away, the messages wait."""

    def __init__(self, host: str, interval: float = 5, identifier: str | None = None, simple: bool = True) -> None:
        super().__init__(interval)
        if not isinstance(host, str):
            raise TypeError(f"the host is HOST:PORT, not {host!r}")
        self.host = host
        self.simple = simple
        self.identifier = f"remote-monitor-{uuid.uuid4().hex}" if identifier is None else identifier

    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        return "form", form.Config(self.host, str(self.identifier), simple=bool(self.simple), wanted=tuple(wanted))
