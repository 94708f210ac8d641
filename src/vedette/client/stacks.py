"""Writes the Python stacks when the program dies. faulthandler does it in C: a handler in Python would delay the end.

We never replace a handler that the program itself has set for SIGTERM or crashes, before us or after.
faulthandler has one file for the whole process. If several runs are open, it lies in the spool of each of them, as a
hard link.
"""

import faulthandler
import os
import signal
from typing import IO, Any
from weakref import ref

from vedette.fileio import exists, open_private
from vedette.interrupts import is_default, let_through
from vedette.segment import STACKS


class _Shared:
    """The file that faulthandler writes to, for all runs of this process."""

    file: IO[str] | None = None
    paths: tuple[str, ...] = ()  # its names, the newest last
    users = 0
    terminated: "ref[_StackFile] | None" = None  # dead once somebody else has registered a file
    crashed: "ref[_StackFile] | None" = None


_shared = _Shared()


class Stacks:
    """Has faulthandler write the stacks to a file `stacks` on SIGTERM or on a crash."""

    def __init__(self) -> None:
        """Watch for nothing yet."""
        self._watches = False

    def watch(self, directory: str) -> None:
        """Begin, except for what the program handles itself: SIGTERM, or crashes by its own faulthandler."""
        path = os.path.join(directory, STACKS)
        try:
            if not _shared.users or not _link(path):
                _begin(path)
        except (OSError, ValueError, RuntimeError, AttributeError) as error:
            let_through(error)
            return
        self._watches = _shared.file is not None
        _shared.users += self._watches

    def stop(self) -> None:
        """Undo `watch`, except where somebody has changed the handlers meanwhile."""
        if not self._watches:
            return
        self._watches = False
        _shared.users -= 1
        if not _shared.users:
            _end()


def _link(path: str) -> bool:
    """Add a name to the file that is in use; False if all its names are gone, or lie on another file system."""
    for known in reversed(_shared.paths):
        try:
            os.link(known, path)
        except OSError as error:
            let_through(error)
            continue
        _shared.paths = (*(one for one in _shared.paths if exists(one)), path)
        return True
    return False


def _begin(path: str) -> None:
    users = _shared.users
    _end()  # a file whose names are all gone
    on_sigterm = is_default(signal.SIGTERM)
    on_crash = not faulthandler.is_enabled()
    if not on_sigterm and not on_crash:
        return
    opened = open(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w")  # noqa: SIM115 - open until death
    _shared.file, _shared.paths, _shared.users = opened, (path,), users
    if on_sigterm:
        file = _StackFile(_shared.file)
        faulthandler.register(signal.SIGTERM, file=file, all_threads=True, chain=True)
        _shared.terminated = ref(file)
    if on_crash:
        file = _StackFile(_shared.file)
        faulthandler.enable(file=file, all_threads=True)
        _shared.crashed = ref(file)


def _end() -> None:
    if _is_alive(_shared.terminated) and is_default(signal.SIGTERM):  # unregister() would remove a handler
        faulthandler.unregister(signal.SIGTERM)
    if _is_alive(_shared.crashed):
        faulthandler.disable()
    _shared.terminated = _shared.crashed = None
    if _shared.file is not None:
        _shared.file.close()
        _shared.file = None


class _StackFile:
    """The file object that only faulthandler refers to: while it lives, faulthandler uses it."""

    def __init__(self, file: IO[str]) -> None:
        self.fileno = file.fileno
        self.flush = file.flush


def _is_alive(file: Any) -> bool:
    return file is not None and file() is not None
