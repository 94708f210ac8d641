"""The three monitors in a process of their own, which measures also while the program holds the GIL."""

import threading
from typing import NamedTuple

from vedette.compat.heflwr.monitor import watching
from vedette.monitor import Monitor


class _Process(NamedTuple):
    """The part of a process object that heflwr's users use."""

    pid: int
    monitor: Monitor

    def is_alive(self) -> bool:
        """Tell whether it still measures."""
        return self.monitor.running


class _InProcess(watching.Watching):
    _where = "process"

    @property
    def monitoring(self) -> threading.Event:
        """Whether it measures now: `monitoring.is_set()`."""
        return self._running

    @property
    def monitor_process(self) -> _Process | None:
        """Its process, after the first start()."""
        pid = self._monitor and self._monitor.worker
        return _Process(pid, self._monitor) if isinstance(pid, int) and self._monitor else None


class FileMonitor(_InProcess, watching.ToFile):
    """Measures into a file."""


class PrometheusMonitor(_InProcess, watching.ToPrometheus):
    """Measures for Prometheus."""


class RemoteMonitor(_InProcess, watching.ToRemote):
    """Measures for a server."""
