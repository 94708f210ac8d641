"""Finds in /proc what a process or a try has started, also what was detached, and ends it, so that nothing survives."""

import contextlib
import os
import signal
from collections.abc import Callable, Collection

from vedette import kernel, proc_stat

GRACE_S = 10.0  # between SIGTERM and SIGKILL, if nobody says
_IN_SESSION = (proc_stat.SESSION, proc_stat.TERMINAL, proc_stat.PARENT)
_ROUNDS = 20  # a stopped tree cannot grow, so it is complete long before this

Find = Callable[[], Collection[int]]


def below(*pids: int) -> set[int]:
    """Return all descendants of processes."""
    children: dict[int, list[int]] = {}
    for child, parent in kernel.parents().items():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def born(pids: Collection[int]) -> set[tuple[int, int]]:
    """Return processes with their start times, by which they are found again: a pid may be another's by then."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if (started := kernel.start_ticks(pid)) is not None:
                found.add((pid, started))
    return found


def of_try(run: str, attempt: str = "") -> set[int]:
    """Return the processes whose environment says that they belong to a try of a run, or to any try of it.

    A process that detaches itself gets init as its parent, but keeps its environment. What a user may be typing in is
    left out, even if it was started with that environment: it is no orphan.
    """
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            named = named_try(int(name))
            if named is not None and named[0] == run and attempt in ("", named[1]) and not is_a_users(int(name)):
                found.add(int(name))
    return found


def named_try(pid: int, proc: str = "/proc") -> tuple[str, str] | None:
    """Return the run and the try that the environment of a process names; None for that of another user."""
    try:
        if os.stat(f"{proc}/{pid}").st_uid != os.getuid():
            return None
        environ = kernel.environ(pid, proc)
    except OSError:  # gone, or not ours
        return None
    run, attempt = environ.get("VEDETTE_RUN", ""), environ.get("VEDETTE_TRY", "")
    return (run, attempt) if run and attempt else None


def is_a_users(pid: int, proc: str = "/proc") -> bool:
    """Tell whether a process is an interactive shell, the leader of a session on a terminal, or a job of one.

    What an ended job has left behind in the session of a shell is nobody's: the shell is not above it any more.
    """
    session = 0
    while pid > 1:
        try:
            fields = proc_stat.fields_of(proc_stat.read(pid, proc))
            here, terminal, parent = (int(fields[at]) for at in _IN_SESSION)
        except (OSError, ValueError, IndexError):
            return False
        if here != (session or here):
            return False
        if here == pid:
            return terminal != 0
        session, pid = here, parent
    return False


def tell(find: Find, number: int) -> int:
    """Send a signal to all processes that `find` returns; return how many there were.

    It is asked again when there is a pidfd of each: who is found both times was not mistaken for another.
    """
    held: dict[int, int] = {}
    try:
        for pid in find():
            try:
                held[pid] = os.pidfd_open(pid)
            except OSError:  # it has gone by itself
                continue
        meant = set(held).intersection(find()) if held else set()
        for pid in meant:
            _send(held[pid], number)
        return len(meant)
    finally:
        for fd in held.values():
            os.close(fd)


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
