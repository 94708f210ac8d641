"""The three monitors in a thread: no process is started, but the thread waits while the program holds the GIL."""

import threading

from vedette.compat.heflwr.monitor import watching


class _InThread(watching.Watching):
    _where = "thread"

    @property
    def monitoring(self) -> bool:
        """Whether it measures now."""
        return self._running.is_set()

    @property
    def thread(self) -> threading.Thread | None:
        """Its thread, after the first start()."""
        worker = self._monitor and self._monitor.worker
        return worker if isinstance(worker, threading.Thread) else None


class FileMonitor(_InThread, watching.ToFile):
    """Measures into a file."""


class PrometheusMonitor(_InThread, watching.ToPrometheus):
    """Measures for Prometheus."""


class RemoteMonitor(_InThread, watching.ToRemote):
    """Measures for a server."""
