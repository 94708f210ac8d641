"""The capture program of this process: started for its first run, and handed the later ones while it lives.

A program that begins runs by the hundred would else start as many programs at once. The way is a pair of sockets; a
brief is a file in memory, since other users could read a command line. Nothing here waits for the program.
"""

import array
import os
import threading
from typing import Any

from vedette import detached
from vedette.interrupts import let_through

_way: Any = None  # our end of the pair, while the program lives
_lock = threading.RLock()  # a signal handler may begin a run while its thread begins one
_pid = 0


def capture(brief: bytes) -> None:
    """Hand a brief to the capture program, and start one if none lives; raise OSError where that cannot be."""
    global _way, _pid, _lock
    if _pid != os.getpid():  # a fork child has a program of its own
        _way, _pid, _lock = None, os.getpid(), threading.RLock()
    handed = os.memfd_create("vedette-brief", os.MFD_CLOEXEC)
    try:
        with open(handed, "wb", closefd=False) as file:
            file.write(brief)
        os.lseek(handed, 0, os.SEEK_SET)
        with _lock:
            if not _send(handed):
                _way = _start(handed)
    finally:
        os.close(handed)


def _send(brief: int) -> bool:
    """Tell whether the program that was started before has taken a brief, or will."""
    if _way is None:
        return False
    import _socket  # noqa: PLC0415 - `socket` takes long to import

    try:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [brief]))
        return bool(_way.sendmsg([b"b"], [rights], _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT) > 0)
    except OSError as error:  # it has ended, or too many wait
        let_through(error)
        return False


def _start(brief: int) -> Any:
    """Start the program with its first brief, and return our end of the way to it."""
    import _socket  # noqa: PLC0415

    kind = _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, kind)
    try:
        detached.start("vedette.capture", (), detached.environment(), handed=(brief, theirs.fileno()))
    finally:
        theirs.close()
    return ours
