"""The three monitors in a process of their own: it also sees a program that holds the GIL."""

import threading

from vedette.compat.heflwr.monitor import watching


class _Process:
    """A monitor's process, as far as the original's users know one."""

    def __init__(self, stretch: watching.Monitor) -> None:
        self._stretch = stretch
        self.pid = stretch.monitor_pid

    def is_alive(self) -> bool:
        """Tell whether it still measures."""
        return self._stretch.running


class _InProcess(watching.Watching):
    _where = "process"

    @property
    def monitoring(self) -> threading.Event:
        """Whether it measures now: `monitoring.is_set()`."""
        return self._running

    @property
    def monitor_process(self) -> _Process | None:
        """Its process, from the first start() on."""
        return self._newest and _Process(self._newest)


class FileMonitor(_InProcess, watching.ToFile):
    """Measures into a file."""


class PrometheusMonitor(_InProcess, watching.ToPrometheus):
    """Measures for Prometheus."""


class RemoteMonitor(_InProcess, watching.ToRemote):
    """Measures for a server."""
