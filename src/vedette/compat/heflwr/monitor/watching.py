"""A monitor in the original's words: one of ours from each start() to its stop(), and all that they found."""

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

_SHORTEST_S, _LONGEST_S = 0.01, 86_400.0  # the original takes 0, and then does nothing else


class Watching(abc.ABC):
    """What all six have in common. A subclass says what it measures into, another where it runs."""

    _where: ClassVar[Literal["process", "thread"]]

    def __init__(self, interval: float) -> None:
        if isinstance(interval, bool) or not isinstance(interval, int | float):
            raise TypeError(f"the interval is a number of seconds, not {interval!r}")
        if not (math.isfinite(interval) and interval >= 0):
            raise ValueError(f"the interval is a number of seconds, and {interval!r} is none that can pass")
        self.pid = os.getpid()
        self.interval = interval
        self.metrics = {"cpu": True, "memory": True, "network": True, "power": False}
        self._running = threading.Event()
        self._newest: Monitor | None = None
        self._found: tuple[Account, tuple[Wanted, Monitor] | None] = Account(), None  # of before, and what adds to it

    @abc.abstractmethod
    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        """Return the name and the Config of the sink that these numbers go to."""

    def set_metrics(self, **kwargs: bool) -> None:
        """Set which metrics are measured from now on; raise what the original would."""
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
        """Begin to measure; while it does already, do nothing. What cannot be is said, and left out."""
        if self._running.is_set() and self._newest is not None and self._newest.running:
            return
        self.stop()
        wanted = tuple(name for name, on in self.metrics.items() if on)
        for sinks in ([self._sink(wanted)], []):
            try:
                made = self._made(wanted, sinks).start()
            except (VedetteError, OSError) as error:
                say_once(f"{error}; {'it is measured all the same' if sinks else 'nothing is measured'}")
                continue
            self._newest, self._found = made, (self._account(), (wanted, made))
            self._running.set()
            for name, why in made.absent.items():
                say_once(f"{name} is not measured: {why}")
            return

    def _made(self, wanted: Wanted, to: list[tuple[str, Any]]) -> Monitor:
        return Monitor(
            to,
            interval_s=min(max(_SHORTEST_S, self.interval), _LONGEST_S),
            where=self._where if os.name == "posix" else "thread",
            pid=self.pid,
            sensors=sorted({SENSORS[name] for name in wanted or ("cpu",)}),
        )

    def stop(self) -> None:
        """Take a last look, and measure no more."""
        self._running.clear()
        if self._newest is not None:
            self._newest.stop()

    def _account(self, *, lists: bool = True) -> Account:
        before, now = self._found
        if now is None:
            return before
        wanted, made = now
        return before.plus(wanted, made.primed, made.stats() if lists else {}, made.summary())

    def stats(self) -> dict[str, list[float]]:
        """Return what was measured at each moment until now, in a list for each number."""
        return {key: list(values) for key, values in self._account().stats.items()}

    def summary(self) -> dict[str, float]:
        """Return averages by time, and totals, of all that was measured until now."""
        return self._account(lists=False).summary


class ToFile(Watching):
    """Measures into a file, a line for each moment."""

    def __init__(self, file: str, interval: float = 5) -> None:
        super().__init__(interval)
        self.file = file
        self._path = os.path.abspath(os.fspath(file))

    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        return "text", text.Config(self._path, wanted=tuple(wanted))


class ToPrometheus(Watching):
    """Measures for Prometheus, which asks at a port: on loopback, unless another address is said."""

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
    """Measures for a server, to which each moment is posted; while it is away they wait."""

    def __init__(self, host: str, interval: float = 5, identifier: str | None = None, simple: bool = True) -> None:
        super().__init__(interval)
        if not isinstance(host, str):
            raise TypeError(f"the host is HOST:PORT, not {host!r}")
        self.host = host
        self.simple = simple
        self.identifier = f"remote-monitor-{uuid.uuid4().hex}" if identifier is None else identifier

    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        return "form", form.Config(self.host, str(self.identifier), simple=bool(self.simple), wanted=tuple(wanted))
