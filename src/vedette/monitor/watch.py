"""The class `Monitor`, which users start, ask and stop; it runs in a thread or in a process."""

import atexit
import os
import threading
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from vedette.client.faults import say_once
from vedette.errors import MonitorError, NotFoundError
from vedette.model import Sample
from vedette.monitor.liveness import exists
from vedette.monitor.plan import DEFAULT, KEEP, Plan, make
from vedette.monitor.record import Record
from vedette.monitor.thread_form import ThreadForm

_all: "weakref.WeakSet[Monitor]" = weakref.WeakSet()
_running: "set[Monitor]" = set()  # a running monitor goes on until the program ends, even if nobody refers to it


class Monitor:
    """Measures a process and all its descendants until it is stopped.

    A mistake in its arguments raises a VedetteError when it is made or started. Once it runs, nothing raises or waits
    for long; problems are in `trouble`. It can be asked at any time, also before the start and after the end. It can be
    started again: then it continues its record.
    """

    def __init__(
        self, to: Any = (), *, interval_s: float = 1.0, where: str = "thread", pid: int | None = None,
        sensors: str | Iterable[str] = DEFAULT, keep: int = KEEP,
    ) -> None:  # fmt: skip
        """Measure every `interval_s` seconds, and give the samples to the sinks `to`: paths, `NAME:TEXT` or Configs."""
        self._plan = make(to, interval_s=interval_s, where=where, pid=pid, sensors=sensors, keep=keep)
        self._record = Record(keep)
        self._form: Any = None  # ThreadForm or ProcessForm; it stays here after the stop
        self._owner = 0  # the pid of the process that started it; 0 when it is not running
        self._failed = ""
        self._starting = False
        self._lock = threading.RLock()
        _all.add(self)

    @property
    def plan(self) -> Plan:
        """What it measures, how often, and where the samples go."""
        return self._plan

    @property
    def running(self) -> bool:
        """Whether it is measuring."""
        return self._owner == os.getpid() and self._form.looks

    @property
    def absent(self) -> dict[str, str]:
        """The sensors that do not work here, each with the reason; known after the first start."""
        return dict(self._form.absent) if self._form else {}

    @property
    def worker(self) -> threading.Thread | int | None:
        """The thread or the pid of the process that measures, or measured last; None before the first start."""
        return self._form.worker if self._form else None

    @property
    def ports(self) -> list[int]:
        """The ports on which its sinks listen."""
        return list(self._form.ports) if self._form else []

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong, by place: a sink, a sensor, or `monitor`."""
        self._refresh()
        found = dict(self._form.trouble) if self._form else {}
        return {**found, "monitor": self._failed} if self._failed else found

    @property
    def ended(self) -> str:
        """Why it stopped by itself, such as because the watched process has ended; else empty."""
        self._refresh()
        return str(self._form.ended) if self._form else ""

    def start(self) -> Self:
        """Take a first look, and go on measuring; raise if a sink cannot be opened or the process does not exist."""
        with self._lock:
            if self._starting:  # a signal handler of the user's calls us during a start
                return self
            if self._owner == os.getpid():
                if self._form.looks:
                    return self
                self.stop()
            pid = self._plan.pid
            if pid and not exists(pid):
                raise NotFoundError(f"there is no process {pid}")
            self._failed = ""
            self._starting = True
            try:
                self._form = self._begin()
                self._owner = os.getpid()
                _running.add(self)
            except (MonitorError, RuntimeError, OSError) as error:  # out of processes, threads or files
                self._failed = str(error)
                say_once(f"nothing is monitored: {error}")
            finally:
                self._starting = False
        return self

    def _begin(self) -> Any:
        if self._plan.where == "thread":
            return ThreadForm(self._plan, self._record)
        from vedette.monitor.process_form import ProcessForm  # noqa: PLC0415 - only this form needs sockets

        return ProcessForm(self._plan, self._record)

    def stop(self) -> None:
        """Take a last look at once, close the sinks, and end."""
        with self._lock:
            if self._owner == os.getpid():
                self._owner = 0
                _running.discard(self)
                self._form.stop()

    def stats(self) -> dict[str, list[Any]]:
        """Return the last moments as a list for each number; `t` is in nanoseconds; None where a number is missing."""
        self._refresh()
        return self._record.stats()

    def summary(self) -> dict[str, Any]:
        """Return the mean over time, the maximum and the last value of each number; for a counter, its growth."""
        self._refresh()
        return self._record.summary()

    def moments(self) -> list[list[Sample]]:
        """Return the last moments as samples; `primed` is the look before the first of them."""
        self._refresh()
        return self._record.moments()

    @property
    def primed(self) -> list[Sample]:
        """The first look, at the start: counters and present values, but no rates."""
        return self._record.primed

    def _refresh(self) -> None:
        with self._lock:
            if self._owner == os.getpid():
                self._form.refresh()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def _after_fork(self) -> None:
        """Become a copy that is not running: the thread or the process belongs to the parent."""
        self._lock = threading.RLock()
        self._record.renew_lock()
        self._starting = False
        if self._owner:
            self._owner = 0
            self._form.let_go()


def _stop_all() -> None:
    for monitor in list(_running):
        monitor.stop()


def _after_fork() -> None:
    _running.clear()
    for monitor in list(_all):
        monitor._after_fork()  # noqa: SLF001 - the other half of the same class


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
