"""Watches the process of an origin until it has ended, and finds its wait status, as far as the kernel tells."""

import errno
import os
import signal
import time
from typing import NamedTuple

from vedette import kernel
from vedette.model import Origin

_PATIENCE_S = 1.0  # the status can be read once the parent has reaped; we give up after this
_POLL_S = 1.0  # between two looks for a process that has no pidfd


class Death(NamedTuple):
    """How a process ended; `status` is None if nobody knows it."""

    t: int | None  # None: nobody was looking
    status: int | None
    rebooted: bool = False  # the machine has been rebooted since
    unseen: bool = False  # it was in another pid namespace, and only its locks told that it is gone


class Watch:
    """Watches one process by a pidfd, so that a later process with the same pid is not mistaken for it.

    Without one, because descriptors have run out, it looks for the pid and its start time now and then. Several
    origins may be of one process: they share its watch.
    """

    def __init__(self, origin: Origin, handed: int | None = None, *, by_pidfd: bool = True) -> None:
        """Begin to watch. A process that is gone, or whose pid now has another start time, is dead already.

        `handed`: a pidfd that the process has sent, which is ours from now on; it gives the exit status even after the
        death. `by_pidfd`: a pidfd may be opened.
        """
        if origin.boot and not kernel.boot():
            raise OSError("this machine's boot id cannot be read just now")
        self.unknown = origin.boot == "" or (origin.boot != kernel.boot() and origin.host != kernel.host())
        self.death: Death | None = None
        self.pid = origin.pid if origin.boot == kernel.boot() else 0  # in our pid namespace; 0: it is not there
        self._started = origin.started
        self._fd: int | None = None
        self._polled_at = 0.0
        self._seen_dead_at = 0.0
        if handed is not None:
            self.unknown = False
            self._fd = handed
            self.pid = self.pid or kernel.pid_of(handed) or 0
            return
        if self.unknown:
            return
        if origin.boot != kernel.boot():
            # The same host, in another boot or another pid namespace. After a reboot the process is certainly gone.
            # In another namespace it may live: its records and the locks on its segments tell.
            same_boot = kernel.boot_alone(origin.boot) == kernel.boot_alone(kernel.boot())
            if same_boot:
                self.unknown = True
            else:
                self.death = Death(None, None, rebooted=True)
            return
        try:
            self._fd = os.pidfd_open(origin.pid) if by_pidfd else None
        except ProcessLookupError:  # other errors say nothing about the process: the caller handles them
            self.death = Death(None, None)
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        try:
            another = not self._is_there()
        except OSError:
            self.shut()
            raise
        if another:
            self.death = Death(None, None)
            self.shut()

    def _is_there(self) -> bool:
        """Tell whether the process has its pid still, dead or alive, by its start time."""
        started = kernel.start_ticks(self.pid)
        return started is not None and self._started in (0, started)

    def look(self, died_t: int | None) -> Death | None:
        """Return how the process ended, once that is known; `died_t`: when its pidfd became readable, if it has."""
        if self.death is None and self._fd is not None and died_t is not None:
            self._seen_dead_at = self._seen_dead_at or time.monotonic()
            status = kernel.wait_status(self.pid, self._fd)
            if status is not None or time.monotonic() - self._seen_dead_at > _PATIENCE_S:
                self.death = Death(died_t, status)
        elif self.death is None and self._fd is None and not self.unknown:
            self._poll()
        return self.death

    def _poll(self) -> None:
        """Look whether the process is still there, if that was not done just now."""
        now = time.monotonic()
        if now - self._polled_at < _POLL_S:
            return
        self._polled_at = now
        if not self._is_there():
            self.death = Death(time.time_ns(), None)
        elif kernel.is_zombie(self.pid):
            self.death = Death(time.time_ns(), kernel.wait_status(self.pid, None))

    def send(self, number: int) -> bool:
        """Send the process a signal; tell whether that could be done. It cannot reach another process."""
        fd = self._fd
        try:
            if fd is None and (self.unknown or self.death is not None):
                return False
            pidfd = os.pidfd_open(self.pid) if fd is None else fd
            try:
                if fd is None and not self._is_there():
                    return False
                signal.pidfd_send_signal(pidfd, number)
            finally:
                if fd is None:
                    os.close(pidfd)
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
