"""Programs of vedette's own, started beside a process and not as its child: a hub, a monitor, the capture of a run.

As a child such a program would show up in the user's own os.wait(). So a small shell starts it and is gone at once.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

FIRST_FD = 3  # a program finds the descriptors that it was handed here, and from here on

# What belongs to the run of whoever starts a program, and to nobody else. A program with VEDETTE_RUN in its
# environment would count as a part of that run, and be ended with it. Where a run's records go (VEDETTE_HUB, with
# VEDETTE_TOKEN) is the run's own choice too: a hub has settings of its own, and the capture is told in its brief.
_OF_THE_RUN = (
    "VEDETTE_RUN", "VEDETTE_TRY", "VEDETTE_RESUME", "VEDETTE_CAPTURED", "VEDETTE_NEW", "VEDETTE_HUB", "VEDETTE_TOKEN",
    "VEDETTE_NAME", "VEDETTE_ASKED",
)  # fmt: skip
_OF_A_SESSION = ("PYTHONINSPECT", "PYTHONSTARTUP")  # with the first a Python would wait for input at its end


def environment(keep: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for a program of vedette's own; `keep` names what it needs of the run's nevertheless."""
    unwanted = {*_OF_THE_RUN, *_OF_A_SESSION}.difference(keep)
    environ = {name: value for name, value in os.environ.items() if name not in unwanted}
    package_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [_absolute(part) for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    environ["PYTHONPATH"] = os.pathsep.join((package_root, *path))
    environ["VEDETTE_MODE"] = "off"  # whatever its Python runs at its start begins no run
    return environ


def _absolute(path: str) -> str:
    """Return a path as it is from any directory: the program may begin in another one."""
    try:
        return os.path.abspath(path)
    except OSError:  # the working directory is gone
        return path


def is_possible() -> bool:
    """Tell whether a program can be started from here; a frozen program would start itself."""
    return bool(sys.executable) and not getattr(sys, "frozen", False) and hasattr(os, "posix_spawn")


def start(
    module: str,
    arguments: Iterable[str],
    environ: Mapping[str, str],
    *,
    handed: Sequence[int] = (),
    log: int | None = None,
    stay: bool = False,
) -> None:
    """Start `python -P -m MODULE ARGUMENTS` in a session of its own; raise OSError where that cannot be.

    It finds the descriptors in `handed` from FIRST_FD on; they remain the caller's to close. `log` is a
    descriptor of the file that its output is appended to, if it is to be kept. It runs in the root directory unless it
    is to `stay` where the caller is.
    """
    import fcntl  # noqa: PLC0415 - not on every system

    script = '"$@" </dev/null &' if stay else 'cd /; "$@" </dev/null &'
    argv = ["sh", "-c", script, "sh", sys.executable, "-P", "-m", module, *arguments]
    targets = (1, *range(FIRST_FD, FIRST_FD + len(handed)))
    opened = [os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)] if log is None else []
    sources = [*opened, *([] if log is None else [log]), *handed]
    try:
        for at, fd in enumerate(sources):
            if fd <= targets[-1]:  # it would be overwritten before its turn
                sources[at] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, targets[-1] + 1)
                opened.append(sources[at])
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for fd, target in zip(sources, targets, strict=True)]
        with _without_sigchld():
            _spawn(argv, environ, [*actions, (os.POSIX_SPAWN_DUP2, 1, 2)])
    finally:
        for fd in opened:
            os.close(fd)


def _spawn(argv: list[str], environ: Mapping[str, str], actions: list[tuple[int, int, int]]) -> None:
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            argv,
            environ,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # the user's process ignores SIGCHLD
    except NotImplementedError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None


@contextmanager
def _without_sigchld() -> Iterator[None]:
    """While the shell ends, suspend the user's SIGCHLD handler.

    If another child has ended meanwhile, send the signal again.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the default: the signal is ignored
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, handler)
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                os.kill(os.getpid(), signal.SIGCHLD)
        except ChildProcessError:
            pass


def take_handed(count: int) -> list[int]:
    """In a program that was started so: return the descriptors that it was handed, and close all others above 2.

    It has inherited pipes and locks of whoever started it, which are not its to hold. Its own children get none.
    """
    try:
        last = max(int(name) for name in os.listdir("/proc/self/fd"))
    except OSError:  # it is not there on every system
        last = 1023
    os.closerange(FIRST_FD + count, last + 1)
    handed = list(range(FIRST_FD, FIRST_FD + count))
    for fd in handed:
        os.set_inheritable(fd, False)
    return handed
