"""The thread form of a monitor: it measures its own process, or another one."""

import contextlib
import math
import os
import select
import threading

from vedette import kernel
from vedette.client.faults import say_once
from vedette.monitor.liveness import Liveness
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.monitor.rounds import Rounds
from vedette.sensing.sensor import Target

_LAST_S = 1.0  # how long `stop` waits for a sensor or a sink that hangs


class ThreadForm:
    """One thread that measures. `stop` wakes it at once."""

    def __init__(self, plan: Plan, record: Record) -> None:
        """Start; raise SettingError for a bad sink, RuntimeError or OSError when out of threads or files."""
        self._rounds = Rounds(plan, Target(plan.pid or os.getpid()), record, say_once)
        self._hung = ""
        self.ended = ""
        liveness = Liveness(plan.pid) if plan.pid and plan.pid != os.getpid() else None
        self._thread = threading.Thread(target=self._run, args=(liveness,), name="vedette-monitor", daemon=True)
        try:
            self._wakeup = _Wakeup(liveness)
            self._thread.start()
        except (OSError, RuntimeError):
            self._rounds.finish()
            raise

    @property
    def looks(self) -> bool:
        """Whether it still measures: it has not ended by itself."""
        return not self.ended

    @property
    def worker(self) -> threading.Thread:
        """The thread."""
        return self._thread

    @property
    def absent(self) -> dict[str, str]:
        """The sensors that do not work here, each with the reason."""
        return self._rounds.absent

    @property
    def ports(self) -> list[int]:
        """The ports on which sinks listen."""
        return self._rounds.ports

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong."""
        return {**self._rounds.trouble, **({"monitor": self._hung} if self._hung else {})}

    def refresh(self) -> None:
        """Do nothing: here the record is always up to date."""

    def stop(self) -> None:
        """Let it take its last look, and end."""
        self._wakeup.set()
        self._thread.join(_LAST_S)
        if self._thread.is_alive():
            self._hung = "a sensor or a sink hangs, and has been left behind"
            say_once(f"the monitor: {self._hung}")
        else:
            self._wakeup.close()

    def let_go(self) -> None:
        """Do nothing in a fork child: the thread does not exist there, and the sinks are the parent's."""

    def _run(self, liveness: Liveness | None) -> None:
        kernel.block_sigpipe()
        while not self._wakeup.wait(self._rounds.wait_s()):
            if liveness is not None and liveness.gone():
                self.ended = f"process {liveness.pid} has ended"
                break
            self._rounds.turn()
        self._rounds.finish()
        if liveness is not None:
            liveness.close()


class _Wakeup:
    """Ends a wait when it is set, or when the watched process ends (if that has a pidfd)."""

    def __init__(self, liveness: Liveness | None) -> None:
        self._is_set = threading.Event()
        self._ends: tuple[int, int] | None = None
        if liveness is not None and liveness.fd is not None:
            self._ends = os.pipe()
            self._ready = select.poll()
            for fd in (self._ends[0], liveness.fd):
                self._ready.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait; tell whether it was set."""
        if self._ends is None:
            return self._is_set.wait(seconds)
        self._ready.poll(math.ceil(seconds * 1000))
        return self._is_set.is_set()

    def set(self) -> None:
        self._is_set.set()
        if self._ends is not None:
            with contextlib.suppress(OSError):
                os.write(self._ends[1], b"\0")

    def close(self) -> None:
        for fd in self._ends or ():
            with contextlib.suppress(OSError):  # the user's program may have closed it already
                os.close(fd)
        self._ends = None
