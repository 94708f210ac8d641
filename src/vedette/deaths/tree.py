"""Finds all descendants of a process in /proc, and ends them, so that no grandchild survives."""

import os
import signal
from collections.abc import Callable, Collection

from vedette import kernel

GRACE_S = 10.0  # between SIGTERM and SIGKILL, if nobody says
_ROUNDS = 20  # a stopped tree cannot grow, so it is complete long before this

Find = Callable[[], Collection[int]]


def below(pid: int) -> set[int]:
    """Return all descendants of a process."""
    children: dict[int, list[int]] = {}
    for child, parent in kernel.parents().items():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def of_try(run: str, attempt: str) -> set[int]:
    """Return the processes whose environment says that they belong to a try of a run, whoever their parent is now.

    A process that detaches itself gets init as its parent, but keeps its environment.
    """
    wanted = {f"VEDETTE_RUN={run}".encode(), f"VEDETTE_TRY={attempt}".encode()}
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted <= set(file.read(1 << 20).split(b"\0")):
                        found.add(int(name))
            except OSError:  # gone, or not ours
                continue
    return found


def end(find: Find) -> int:
    """Kill all processes that `find` returns, and those that they start meanwhile; return how many there were.

    All are stopped (SIGSTOP) first, until no new ones are found. A stopped process cannot start another; and if we
    killed a parent at once, we could not find its children any more. A pidfd keeps each from being mistaken.
    """
    held: dict[int, int] = {}
    try:
        for _ in range(_ROUNDS):
            new = [pid for pid in find() if pid not in held and pid not in (1, os.getpid())]
            for pid in new:
                try:
                    held[pid] = os.pidfd_open(pid)
                except OSError:  # it has gone by itself
                    continue
                _send(held[pid], signal.SIGSTOP)
            if not any(pid in held for pid in new):
                break
        for fd in held.values():
            _send(fd, signal.SIGKILL)
        return len(held)
    finally:
        for fd in held.values():
            os.close(fd)


def _send(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:  # dead, or another user's
        pass
