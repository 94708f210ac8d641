"""The thread form: a monitor inside the user's process, or inside one that watches another."""

import contextlib
import math
import os
import select
import threading

from vedette import kernel
from vedette.client.faults import say_once
from vedette.monitor.life import Life
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.monitor.rounds import Rounds
from vedette.sensing.sensor import Target

_LAST_S = 1.0  # that a sensor or a sink which hangs may keep `stop` waiting


class Inside:
    """One thread that looks. `stop` wakes it at once."""

    def __init__(self, plan: Plan, record: Record) -> None:
        """Begin; raise SettingError for a bad sink, RuntimeError or OSError for want of threads or files."""
        self._rounds = Rounds(plan, Target(plan.pid or os.getpid()), record, say_once)
        self._hung = ""
        self.ended = ""
        life = Life(plan.pid) if plan.pid and plan.pid != os.getpid() else None
        self._thread = threading.Thread(target=self._run, args=(life,), name="vedette-monitor", daemon=True)
        try:
            self._bell = _Bell(life)
            self._thread.start()
        except (OSError, RuntimeError):
            self._rounds.finish()
            raise

    @property
    def looks(self) -> bool:
        """Whether it has not ended by itself."""
        return not self.ended

    @property
    def worker(self) -> threading.Thread:
        """The thread."""
        return self._thread

    @property
    def absent(self) -> dict[str, str]:
        """Which sensors are not here, and why."""
        return self._rounds.absent

    @property
    def ports(self) -> list[int]:
        """The ports that sinks listen on."""
        return self._rounds.ports

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong."""
        return {**self._rounds.trouble, **({"monitor": self._hung} if self._hung else {})}

    def refresh(self) -> None:
        """See to it that the record is up to date: here it always is."""

    def stop(self) -> None:
        """Have it take its last look, and end."""
        self._bell.ring()
        self._thread.join(_LAST_S)
        if self._thread.is_alive():
            self._hung = "a sensor or a sink hangs, and has been left behind"
            say_once(f"the monitor: {self._hung}")
        else:
            self._bell.close()

    def let_go(self) -> None:
        """Be no monitor in a fork child: the thread is not there, and the sinks are the parent's."""

    def _run(self, life: Life | None) -> None:
        kernel.block_sigpipe()
        while not self._bell.wait(self._rounds.wait_s()):
            if life is not None and life.gone():
                self.ended = f"process {life.pid} has ended"
                break
            self._rounds.turn()
        self._rounds.finish()
        if life is not None:
            life.close()


class _Bell:
    """Ends a wait, as the end of a process does, where that can be waited for."""

    def __init__(self, life: Life | None) -> None:
        self._rung = threading.Event()
        self._ends: tuple[int, int] | None = None
        if life is not None and life.fd is not None:
            self._ends = os.pipe()
            self._ready = select.poll()
            for fd in (self._ends[0], life.fd):
                self._ready.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait; tell whether it has rung."""
        if self._ends is None:
            return self._rung.wait(seconds)
        self._ready.poll(math.ceil(seconds * 1000))
        return self._rung.is_set()

    def ring(self) -> None:
        self._rung.set()
        if self._ends is not None:
            with contextlib.suppress(OSError):
                os.write(self._ends[1], b"\0")

    def close(self) -> None:
        for fd in self._ends or ():
            with contextlib.suppress(OSError):  # the program that we live in has closed it
                os.close(fd)
        self._ends = None
