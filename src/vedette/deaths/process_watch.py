"""Watches the process of an origin until it has ended, and finds its wait status, as far as the kernel tells."""

import os
import signal
import time
from typing import NamedTuple

from vedette import kernel
from vedette.model import Origin

_PATIENCE_S = 1.0  # the status can be read once the parent has reaped; we give up after this


class Death(NamedTuple):
    """How a process ended; `status` is None if nobody knows it."""

    t: int | None  # None: nobody was looking
    status: int | None
    rebooted: bool = False  # the machine has been rebooted since


class Watch:
    """Watches one process by a pidfd, so that a later process with the same pid is not mistaken for it."""

    def __init__(self, origin: Origin, handed: int | None = None) -> None:
        """Begin to watch. A process that is gone, or whose pid now has another start time, is dead already.

        `handed`: a pidfd that the process has sent; it gives the exit status even after the death.
        """
        if origin.boot and not kernel.boot():
            raise OSError("this machine's boot id cannot be read just now")
        self.unknown = origin.boot == "" or (origin.boot != kernel.boot() and origin.host != kernel.host())
        self.death: Death | None = None
        self._pid = origin.pid if origin.boot == kernel.boot() else 0  # in another namespace it is another process
        self._fd: int | None = None
        self._seen_dead_at = 0.0
        if handed is not None:
            self.unknown = False
            self._fd = os.dup(handed)
            return
        if self.unknown:
            return
        if origin.boot != kernel.boot():
            # The same host, in another boot or another pid namespace. After a reboot the process is certainly gone.
            # In another namespace it may live, and only its own records tell of its end.
            same_boot = kernel.boot_alone(origin.boot) == kernel.boot_alone(kernel.boot())
            if same_boot:
                self.unknown = True
            else:
                self.death = Death(None, None, rebooted=True)
            return
        try:
            self._fd = os.pidfd_open(origin.pid)
        except ProcessLookupError:  # other errors say nothing about the process: the caller handles them
            self.death = Death(None, None)
            return
        try:
            another = origin.started not in (0, kernel.start_ticks(origin.pid))
        except OSError:
            self.shut()
            raise
        if another:
            self.death = Death(None, None)
            self.shut()

    def look(self, died_t: int | None) -> Death | None:
        """Return how the process ended, once that is known; `died_t`: when its pidfd became readable, if it has."""
        if self.death is None and self._fd is not None and died_t is not None:
            self._seen_dead_at = self._seen_dead_at or time.monotonic()
            status = kernel.wait_status(self._pid, self._fd)
            if status is not None or time.monotonic() - self._seen_dead_at > _PATIENCE_S:
                self.death = Death(died_t, status)
        return self.death

    def send(self, number: int) -> bool:
        """Send the process a signal; tell whether that could be done. It cannot reach another process."""
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
