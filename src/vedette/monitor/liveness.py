"""Whether a process is still there: by a pidfd, which tells at once and never means another; else by asking."""

import contextlib
import os
import select
import sys


class Life:
    """One process. `fd` becomes readable when it has ended, where there is such a thing."""

    def __init__(self, pid: int, fd: int | None = None) -> None:
        """Watch a process, or the one that a pidfd was handed over for."""
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
        """Look no longer."""
        fd, self.fd = self.fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # the program that we live in has closed it
                os.close(fd)


def exists(pid: int) -> bool:
    """Tell whether there is such a process, dead ones that nobody has taken leave of not counted."""
    if sys.platform == "win32":  # where signal 0 would end it
        import psutil  # noqa: PLC0415 - only where it is needed

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in b"ZX"
    except (FileNotFoundError, ProcessLookupError):
        return not os.path.isdir("/proc/self")
    except (OSError, IndexError):  # no descriptor is left to look with
        return True


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError, OverflowError):
        return None
