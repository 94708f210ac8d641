"""What wakes the keeper's thread before its pause between two turns is over."""

import contextlib
import os
import select

from vedette import kernel


class Alarm:
    """Wakes the thread when somebody asks for it, and when a process makes its spool: it may not live long."""

    def __init__(self, spool: str, pids: int | None = None) -> None:
        """`spool` is the directory of all spools; `pids` the socket of pidfds, which the next turn reads."""
        self._pids = pids
        self._asked = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._asked, select.POLLIN)
        if (fd := kernel.watch_directory(spool)) is not None:
            self._poll.register(fd, select.POLLIN)
        if pids is not None:
            self._poll.register(pids, select.POLLIN)

    def set(self) -> None:
        """Wake it."""
        os.eventfd_write(self._asked, 1)

    def wait(self, seconds: float) -> None:
        """Sleep until the time is over or somebody wakes it."""
        for fd, _ in self._poll.poll(seconds * 1000):
            if fd == self._pids:
                continue
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 1 << 16)
