"""The three monitors in a thread: nothing is started, and it has its turn when the program lets go of the GIL."""

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
        """Its thread, from the first start() on."""
        worker = self._newest and self._newest.worker
        return worker if isinstance(worker, threading.Thread) else None


class FileMonitor(_InThread, watching.ToFile):
    """Measures into a file."""


class PrometheusMonitor(_InThread, watching.ToPrometheus):
    """Measures for Prometheus."""


class RemoteMonitor(_InThread, watching.ToRemote):
    """Measures for a server."""
