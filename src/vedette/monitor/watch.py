"""The monitor as a user holds it: started, asked and stopped, in whichever form."""

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
from vedette.monitor.inside import Inside
from vedette.monitor.life import exists
from vedette.monitor.plan import DEFAULT, KEEP, Plan, make
from vedette.monitor.record import Record

_all: "weakref.WeakSet[Monitor]" = weakref.WeakSet()
_running: "set[Monitor]" = set()  # one that nobody holds goes on until the end of the program


class Monitor:
    """Watches a process and all that descends from it, until it is stopped.

    What cannot be is said when it is made or started, in a VedetteError. Once it is started nothing raises, and nothing
    waits for long; what goes wrong is in `trouble`. It may be asked at any time, before, during and after, and started
    again: then it goes on with its record.
    """

    def __init__(
        self, to: Any = (), *, interval_s: float = 1.0, where: str = "thread", pid: int | None = None,
        sensors: str | Iterable[str] = DEFAULT, keep: int = KEEP,
    ) -> None:  # fmt: skip
        """Have a look every so often, and hand what is seen to some sinks: paths, `NAME:TEXT` or Configs."""
        self._plan = make(to, interval_s=interval_s, where=where, pid=pid, sensors=sensors, keep=keep)
        self._record = Record(keep)
        self._form: Any = None  # Inside or Beside; the last one, once it is stopped
        self._owner = 0  # who started it; 0: it is not running
        self._failed = ""
        self._starting = False
        self._lock = threading.RLock()
        _all.add(self)

    @property
    def plan(self) -> Plan:
        """What it does."""
        return self._plan

    @property
    def running(self) -> bool:
        """Whether it is looking."""
        return self._owner == os.getpid() and self._form.looks

    @property
    def absent(self) -> dict[str, str]:
        """The sensors that are not here, each with the reason; known once it was started."""
        return dict(self._form.absent) if self._form else {}

    @property
    def worker(self) -> threading.Thread | int | None:
        """Who looks, or looked last: a thread, or the process of this pid; None before the first start."""
        return self._form.worker if self._form else None

    @property
    def ports(self) -> list[int]:
        """The ports that its sinks listen on."""
        return list(self._form.ports) if self._form else []

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong, by where: a sink, a sensor, or `monitor`."""
        self._refresh()
        found = dict(self._form.trouble) if self._form else {}
        return {**found, "monitor": self._failed} if self._failed else found

    @property
    def ended(self) -> str:
        """Why it stopped by itself: the watched process has ended."""
        self._refresh()
        return str(self._form.ended) if self._form else ""

    def start(self) -> Self:
        """Take a first look, and go on; raise for a sink that cannot be opened and a process that is not there."""
        with self._lock:
            if self._starting:  # a signal handler of the user's, in the middle of a start
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
            except (
                MonitorError,
                RuntimeError,
                OSError,
            ) as error:  # for want of processes, threads, files; the work goes on
                self._failed = str(error)
                say_once(f"nothing is monitored: {error}")
            finally:
                self._starting = False
        return self

    def _begin(self) -> Any:
        if self._plan.where == "thread":
            return Inside(self._plan, self._record)
        from vedette.monitor.beside import Beside  # noqa: PLC0415 - sockets and subprocess, for this form alone

        return Beside(self._plan, self._record)

    def stop(self) -> None:
        """Take a last look, close the sinks, and end; at once, however long the interval is."""
        with self._lock:
            if self._owner == os.getpid():
                self._owner = 0
                _running.discard(self)
                self._form.stop()

    def stats(self) -> dict[str, list[Any]]:
        """Return the last moments, a list for each number: `t` in nanoseconds, None where a moment lacks a number."""
        self._refresh()
        return self._record.stats()

    def summary(self) -> dict[str, Any]:
        """Return the mean over time, the most and the last of each number, or how much a counter has grown."""
        self._refresh()
        return self._record.summary()

    def moments(self) -> list[list[Sample]]:
        """Return the last moments as samples; `primed` is the look before the first of them."""
        self._refresh()
        return self._record.moments()

    @property
    def primed(self) -> list[Sample]:
        """The first look, at the start: counters and what stands at the moment, no rates."""
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
        """Be a copy that is not running: the thread stayed with the parent, and so did the process beside it."""
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
