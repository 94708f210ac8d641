"""A monitor in the original's words: one of ours for each stretch between start() and stop(), and what they found."""

import math
import os
import threading
import uuid
from typing import Any, ClassVar, Literal

from msgspec import structs

from vedette.client.guard import say_once
from vedette.compat.heflwr.monitor.numbers import Wanted, stats_of, summary_of
from vedette.errors import VedetteError
from vedette.monitor import Monitor
from vedette.plain import KEYS, SENSORS
from vedette.sinks import form, prometheus, text

_SHORTEST_S = 0.01  # the original takes 0, and then does nothing else


class Watching:
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
        self._stretches: list[tuple[Wanted, Monitor]] = []
        self._running = threading.Event()

    @property
    def _newest(self) -> Monitor | None:
        return self._stretches[-1][1] if self._stretches else None

    def _sink(self, wanted: Wanted) -> tuple[str, Any]:
        raise NotImplementedError

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
        """Begin to measure; while it does already, do nothing. What is not there is said, and left out."""
        if self._running.is_set():
            return
        wanted = tuple(name for name, on in self.metrics.items() if on)
        made = self._made(wanted, (self._sink(wanted),))
        try:
            made.start()
        except (VedetteError, OSError) as error:
            say_once(f"{error}; it is measured all the same")
            made = self._made(wanted, ())
            made.start()
        self._running.set()
        self._stretches.append((wanted, made))
        for name, why in made.absent.items():
            say_once(f"{name} is not measured: {why}")

    def _made(self, wanted: Wanted, to: tuple[tuple[str, Any], ...]) -> Monitor:
        return Monitor(
            to,
            interval_s=max(_SHORTEST_S, self.interval),
            where=self._where if os.name == "posix" else "thread",
            pid=self.pid,
            sensors=sorted({SENSORS[name] for name in wanted or ("cpu",)}),
        )

    def stop(self) -> None:
        """Take a last look, and measure no more."""
        if self._running.is_set():
            self._running.clear()
            self._stretches[-1][1].stop()

    def stats(self) -> dict[str, list[float]]:
        """Return what was measured at each moment until now, in a list for each number."""
        found = [stats_of(made.primed, made.moments(), wanted) for wanted, made in self._stretches]
        return {key: [value for one in found for value in one[key]] for key in KEYS}

    def summary(self) -> dict[str, float]:
        """Return averages by time, and totals, of all that was measured until now."""
        return summary_of([(wanted, made.summary()) for wanted, made in self._stretches])


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
    ) -> None:
        super().__init__(interval)
        if isinstance(port, bool) or not isinstance(port, int):
            raise TypeError(f"the port is a number, not {port!r}")
        self.port = port
        self._config = prometheus.Config(host, port, "plain", token=token, cert=cert, key=key)

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
