"""Which processes live, and how the others ended, as far as the kernel tells."""

import os
import signal
import time
from typing import NamedTuple

from vedette import kernel
from vedette.model import Origin

_PATIENCE_S = 1.0  # a status can be read once the parent has reaped; then at the latest we give up


class Death(NamedTuple):
    """How a process ended; `status` is None where nobody can tell."""

    t: int | None  # None: nobody was looking
    status: int | None
    rebooted: bool = False  # the machine has been started anew since


class Watch:
    """Follows one process by a pidfd, which no later process of the same pid can be mistaken for."""

    def __init__(self, origin: Origin, handed: dict[tuple[int, int], int]) -> None:
        """Begin to watch; a process that is not there, or is another by its start time, is dead already.

        `handed`: pidfds that were given to us, by (pid, start time): they tell of their process even after its death.
        """
        if origin.boot and not kernel.boot():
            raise OSError("this machine's boot id cannot be read just now")
        self.unknown = origin.boot == "" or (origin.boot != kernel.boot() and origin.host != kernel.host())
        self.death: Death | None = None
        self._pid = origin.pid
        self._fd: int | None = None
        self._died_at: float | None = None
        self._died_t = 0
        if self.unknown:
            return
        if origin.boot != kernel.boot():
            # The same host in another boot or pid namespace. After a reboot the process is gone for certain;
            # in another namespace it may live, and only its own last word can be trusted.
            same_boot = origin.boot.partition("/")[0] == kernel.boot().partition("/")[0]
            if same_boot:
                self.unknown = True
            else:
                self.death = Death(None, None, rebooted=True)
            return
        if (origin.pid, origin.started) in handed:
            self._fd = os.dup(handed[origin.pid, origin.started])
            return
        try:
            self._fd = os.pidfd_open(origin.pid)
        except ProcessLookupError:  # any other error says nothing of the process, and is the caller's
            self.death = Death(None, None)
            return
        try:
            another = origin.started not in (0, kernel.start_ticks(origin.pid))
        except OSError:
            self.shut()
            raise
        if another:
            self._found_dead(Death(None, None))

    def look(self, ready: bool) -> Death | None:
        """Return how the process ended, once it has; `ready`: its pidfd has become readable."""
        if self.death is None and self._fd is not None and (ready or self._died_at is not None):
            if self._died_at is None:
                self._died_at, self._died_t = time.monotonic(), time.time_ns()
            status = kernel.wait_status(self._pid, self._fd)
            if status is not None or time.monotonic() - self._died_at > _PATIENCE_S:
                self._found_dead(Death(self._died_t, status))
        return self.death

    def _found_dead(self, death: Death) -> None:
        self.death = death
        self.shut()

    def send(self, number: int) -> bool:
        """Send the process a signal; tell whether that could be done. No other process can be hit."""
        if self._fd is None:
            return False
        try:
            signal.pidfd_send_signal(self._fd, number)
        except OSError:
            return False
        return True

    def fileno(self) -> int | None:
        """Return the pidfd, to be polled."""
        return self._fd

    def shut(self) -> None:
        """Stop watching."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
