"""Notes when processes die, to the millisecond: the event loop does it at once, whatever the keeper's thread is doing.

A rank that dies makes the others fail milliseconds later, and they say so themselves. Turns of the keeper are much
further apart, so the time of a turn does not tell who was the first (decisions/032).
"""

import contextlib
import select
import threading
import time


class DeathClock:
    """Knows since when pidfds are readable. `note` may be called in any thread, all else in the keeper's."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.Lock()  # between a poll and its note, no descriptor may become another process's
        self._deaths: dict[int, int] = {}  # by pidfd
        self._watched: set[int] = set()  # pidfds

    def fileno(self) -> int:
        """Return what becomes readable when a process dies, for an event loop that is to call `note` then."""
        return self._epoll.fileno()

    def watch(self, pidfd: int) -> None:
        """Begin to watch; raise OSError if the kernel watches no more."""
        self._epoll.register(pidfd, select.EPOLLIN | select.EPOLLONESHOT)
        self._watched.add(pidfd)

    def __len__(self) -> int:
        """How many pidfds are watched."""
        return len(self._watched)

    def note(self) -> None:
        """Note who has died by now. The kernel tells them in their order, and their times have the same."""
        with self._lock:
            t = 0
            for pidfd, _ in self._epoll.poll(0):
                t = self._deaths[pidfd] = max(time.time_ns(), t + 1)

    def died_t(self, pidfd: int) -> int | None:
        """Return when the process died, as far as it is noted; None while it lives."""
        return self._deaths.get(pidfd)

    def forget(self, pidfd: int) -> None:
        """Stop watching. Call it before the pidfd is closed: the kernel may give its number to another one."""
        with self._lock:
            with contextlib.suppress(OSError):
                self._epoll.unregister(pidfd)
            self._deaths.pop(pidfd, None)
            self._watched.discard(pidfd)
