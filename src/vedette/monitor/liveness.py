"""Whether a process is still alive, and no more: by a pidfd, which never refers to another process, else by its pid."""

import contextlib
import os
import select
import sys

from vedette import proc_stat


class Liveness:
    """One process. `fd` is its pidfd, which becomes readable when it has ended; None if the system has no pidfds."""

    def __init__(self, pid: int, fd: int | None = None) -> None:
        """Watch the process with this pid; `fd`: a pidfd of it that is open already."""
        self.pid = pid
        self._there = True
        self.fd = _open(pid) if fd is None else fd
        if self.fd is None:
            self._there = exists(pid)

    def gone(self) -> bool:
        """Tell whether it has ended."""
        if self._there:
            if self.fd is None:
                self._there = exists(self.pid)
            else:
                ready = select.poll()
                ready.register(self.fd, select.POLLIN)
                self._there = not ready.poll(0)
        return not self._there

    def close(self) -> None:
        """Close the pidfd."""
        fd, self.fd = self.fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # the user's program may have closed it already
                os.close(fd)


def exists(pid: int) -> bool:
    """Tell whether a live process has this pid; zombies do not count."""
    if sys.platform == "win32":  # there, signal 0 would end the process
        import psutil  # noqa: PLC0415 - only where it is needed

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    try:
        return not proc_stat.has_ended(proc_stat.fields_of(proc_stat.read(pid)))
    except (FileNotFoundError, ProcessLookupError):
        return not os.path.isdir("/proc/self")
    except (OSError, IndexError):  # such as no free descriptor: it is alive as far as we know
        return True


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError, OverflowError):
        return None
