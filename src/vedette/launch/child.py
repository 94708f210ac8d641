"""Starts the command as a child process: its descriptors, its terminal, and its death with the launcher."""

import os
import signal
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn

from vedette import kernel
from vedette.launch import terminal
from vedette.launch.pump import Stream


class Plumbing(NamedTuple):
    """How the command's descriptors are connected to ours."""

    streams: list[Stream]
    child_fds: dict[int, int]  # by descriptor 0, 1 or 2 of the command: what it gets there, if not ours
    master: int | None  # our end of its terminal
    own_session: bool  # the command has a session of its own, with this terminal
    slave: int | None = None  # its end of the terminal; we keep it open, because the command may close and reopen it


def make_plumbing(*, capture: bool) -> Plumbing:
    """Make what the command prints to: a terminal where ours is a terminal, else a pipe.

    If our stdin is a terminal and we are in its foreground, the command gets a session of its own, and each key goes
    there as it is typed. Otherwise it stays in our session, where the terminal's signals reach it. It also stays there
    in a pipeline: a terminal in raw mode would be useless to the other programs of the pipeline. If stdout and stderr
    go to the same place they share one pipe, so that their order is kept.
    """
    if not capture:
        return Plumbing([], {}, None, own_session=False)
    terminals = [fd for fd in (1, 2) if os.isatty(fd)]
    streams, child_fds = [], {}
    master = slave = None
    no_pipe = not any(_is_pipe(fd) for fd in (1, 2))
    own_session = bool(terminals) and no_pipe and os.isatty(0) and terminal.in_foreground(0)
    if terminals:
        master, slave = os.openpty()
        child_fds.update(dict.fromkeys(terminals, slave))
        terminal.copy_size(terminals[0], slave)
        if own_session:
            child_fds[0] = slave
            terminal.copy_settings(0, slave)
        else:
            terminal.pass_through(slave)
        streams.append(Stream(_NAMES[terminals[0]], master, terminals[0]))
    for fd in (1, 2):
        if fd in child_fds or not _is_open(fd):
            continue
        source, child_fds[fd] = os.pipe()
        if fd == 1 and 2 not in child_fds and _is_open(2) and os.path.sameopenfile(1, 2):
            child_fds[2] = child_fds[1]
        streams.append(Stream(_NAMES[fd], source, fd))
    return Plumbing(streams, child_fds, master, own_session, slave)


_NAMES = {1: "stdout", 2: "stderr"}


def _is_open(fd: int) -> bool:
    """Tell whether a descriptor was open when we started; one that we opened since is not inheritable."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def _is_pipe(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def start(
    argv: list[str], environ: Mapping[str, str], plumbing: Plumbing, mask: Iterable[int], *, dies_with_us: bool = True
) -> int:
    """Start the command and return its pid; raise OSError when it cannot be started.

    It forks because only the child can set its own death signal; that is safe, because this process has one thread.
    `dies_with_us`: the kernel kills the command when this process dies.
    """
    me = os.getpid()
    error_read, error_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _exec(argv, environ, plumbing, mask, error_write, me if dies_with_us else 0)
    os.close(error_write)
    for fd in set(plumbing.child_fds.values()) - {plumbing.slave}:
        os.close(fd)
    with open(error_read, "rb") as file:
        answer = file.read()
    if answer:
        os.waitpid(pid, 0)
        number = int(answer)
        raise OSError(number, os.strerror(number))
    return pid


def _exec(
    argv: list[str], environ: Mapping[str, str], plumbing: Plumbing, mask: Iterable[int], error_write: int, parent: int
) -> NoReturn:
    """Become the command, between fork and exec; never return."""
    try:
        if parent:
            kernel.die_with(parent)
        if plumbing.own_session:
            os.setsid()
            terminal.control(plumbing.child_fds[0])
        for target, fd in plumbing.child_fds.items():
            os.dup2(fd, target)
            os.set_inheritable(target, True)  # needed if fd == target: then dup2 changes nothing
        execute(argv, environ, mask)
    except OSError as error:
        os.write(error_write, str(error.errno or 1).encode())
    finally:
        os._exit(127)


def execute(argv: list[str], environ: Mapping[str, str], mask: Iterable[int]) -> NoReturn:
    """Replace this process by the command, with default signals; raise OSError if that fails."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.execvpe(argv[0], argv, dict(environ))
