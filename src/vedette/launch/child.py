"""The command as a process: its descriptors, its terminal, and that it does not outlive who launched it."""

import os
import signal
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn

from vedette import kernel
from vedette.launch import terminal
from vedette.launch.pump import Stream


class Plumbing(NamedTuple):
    """How the command's descriptors hang together with ours."""

    streams: list[Stream]
    given: dict[int, int]  # the command's descriptors 0, 1 and 2, where they are not ours
    master: int | None  # our end of its terminal
    own_session: bool  # it is in a session of its own, whose terminal this is
    slave: int | None = None  # its end: ours as well while it lives, as it may let go of it and come back


def lay(*, capture: bool) -> Plumbing:
    """Make what the command prints to: a terminal where ours is one, else a pipe; what is no terminal stays none.

    With our stdin a terminal in whose foreground we are, the command gets a session of its own, and keys go there as
    they are typed. Else it stays in ours, where the terminal's own signals reach it; so it does in a pipeline, as a
    terminal in raw mode would be of no use to those who write to it, or read keys, behind us. Where both its streams
    go to one place they share one way, so that their order is kept.
    """
    if not capture:
        return Plumbing([], {}, None, own_session=False)
    terminals = [fd for fd in (1, 2) if os.isatty(fd)]
    streams, given = [], {}
    master = slave = None
    alone = not any(_is_pipe(fd) for fd in (1, 2))
    own_session = bool(terminals) and alone and os.isatty(0) and terminal.in_foreground(0)
    if terminals:
        master, slave = os.openpty()
        given.update(dict.fromkeys(terminals, slave))
        terminal.copy_size(terminals[0], slave)
        if own_session:
            given[0] = slave
            terminal.copy_settings(0, slave)
        else:
            terminal.pass_through(slave)
        streams.append(Stream(_NAMES[terminals[0]], master, terminals[0]))
    for fd in (1, 2):
        if fd in given or not _is_open(fd):
            continue
        source, given[fd] = os.pipe()
        if fd == 1 and 2 not in given and _is_open(2) and os.path.sameopenfile(1, 2):
            given[2] = given[1]
        streams.append(Stream(_NAMES[fd], source, fd))
    return Plumbing(streams, given, master, own_session, slave)


_NAMES = {1: "stdout", 2: "stderr"}


def _is_open(fd: int) -> bool:
    """Tell whether a descriptor was open when we came: what we have put in the place of one is not passed on."""
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
    argv: list[str], environ: Mapping[str, str], plumbing: Plumbing, mask: Iterable[int], *, bound: bool = True
) -> int:
    """Start the command and return its pid; raise OSError when it cannot be started.

    A fork, as a death signal can only be set in the child; this process has but one thread, so it is safe. `bound`:
    the command is killed when this process is.
    """
    me = os.getpid()
    told, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, environ, plumbing, mask, telling, me if bound else 0)
    os.close(telling)
    for fd in set(plumbing.given.values()) - {plumbing.slave}:
        os.close(fd)
    with open(told, "rb") as file:
        word = file.read()
    if word:
        os.waitpid(pid, 0)
        number = int(word)
        raise OSError(number, os.strerror(number))
    return pid


def _become(
    argv: list[str], environ: Mapping[str, str], plumbing: Plumbing, mask: Iterable[int], telling: int, parent: int
) -> NoReturn:
    """Between fork and exec: whatever happens, this never comes back."""
    try:
        if parent:
            kernel.die_with(parent)
        if plumbing.own_session:
            os.setsid()
            terminal.control(plumbing.given[0])
        for target, fd in plumbing.given.items():
            os.dup2(fd, target)
            os.set_inheritable(target, True)  # it may have been there already
        execute(argv, environ, mask)
    except OSError as error:
        os.write(telling, str(error.errno or 1).encode())
    finally:
        os._exit(127)


def execute(argv: list[str], environ: Mapping[str, str], mask: Iterable[int]) -> NoReturn:
    """Be a command from now on, with signals as it expects them; raise OSError when it cannot be."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python has had ignored
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.execvpe(argv[0], argv, dict(environ))
