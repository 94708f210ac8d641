"""The lock that the hub of a home holds while it lives: an flock on a file that says which process it is.

Whoever can take the lock knows that there is no hub. The pid in the file is for messages: it may be one of another
container, where the same number means another process. `access/hub_end.py` has how a hub is ended.
"""

import fcntl
import os
import time
from typing import NamedTuple

from vedette import kernel
from vedette.fileio import open_private
from vedette.interrupts import let_through

_MOST_BYTES = 256


class HubProcess(NamedTuple):
    """The process that holds the lock, as far as it has said so: a pid of 0 is one that has not written it yet."""

    pid: int = 0
    started: int = 0  # in clock ticks since boot
    scope: str = ""  # where the pid counts, as `kernel.boot` tells

    def __str__(self) -> str:
        """Return it for a message."""
        return f"{self.pid}" + (" of another container" if self.scope not in ("", kernel.boot()) else "")

    def is_here(self) -> bool:
        """Tell whether the pid is of that very process here: not of one in another container, or of a later one."""
        return bool(self.pid) and self.scope == kernel.boot() and kernel.start_ticks(self.pid) == self.started


def take(path: str, patience_s: float) -> int | None:
    """Return a descriptor that holds the lock, None when another process holds it for longer than that.

    Somebody who only looks holds it for an instant; hence the patience.
    """
    fd = open_private(path, os.O_RDWR | os.O_CREAT)
    if os.fstat(fd).st_mode & 0o077:  # by `chmod -R`: whoever can open it could hold the lock
        os.fchmod(fd, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() > deadline:
                os.close(fd)
                return None
            time.sleep(0.02)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()} {kernel.start_ticks(os.getpid()) or 0} {kernel.boot()}\n".encode(), 0)
    return fd


def holder(path: str) -> HubProcess | None:
    """Return the process that holds the lock; None when nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        let_through(error)
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError as error:
        let_through(error)
        return _parsed(os.pread(fd, _MOST_BYTES, 0))
    finally:
        os.close(fd)


def _parsed(text: bytes) -> HubProcess:
    pid, started, scope = (*text.split(maxsplit=2), b"", b"", b"")[:3]
    if not pid.isdigit():
        return HubProcess()
    known = int(started) if started.isdigit() else 0  # an older vedette writes its pid alone
    return HubProcess(int(pid), known, scope.decode(errors="replace").strip())
