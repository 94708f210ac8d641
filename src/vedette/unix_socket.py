"""Unix sockets: how one is reached however long its path is, and who is at the other end.

The kernel takes paths of up to 107 bytes. A socket with a longer path is reached through a descriptor of its directory.
The user's process uses this, too; `socket` takes long to import, so it is not imported here.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vedette.errors import StrangerError

_MOST_BYTES = 107
_CREDENTIALS = struct.Struct("iII")  # pid, uid and gid, as SO_PEERCRED tells them


def connect(peer: Any, path: str) -> None:
    """Connect a socket to the one at a path; raise OSError where nobody listens.

    Raise StrangerError when another user listens there: nothing must be sent to it, and nothing believed.
    """
    with reach(path) as reached:
        peer.connect(reached)
    check_peer(peer)


@contextmanager
def reach(path: str) -> Iterator[str]:
    """Give a path by which a socket can be bound or connected to while this is open; raise OSError if there is none."""
    if len(os.fsencode(path)) <= _MOST_BYTES:
        yield path
        return
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def check_peer(peer: Any) -> None:
    """Raise StrangerError when another user is at the other end, whatever the mode of the socket's file."""
    uid = _credentials(peer)[1]
    if uid != os.geteuid():
        raise StrangerError(f"this end belongs to user {os.geteuid()}, and the other end to user {uid}")


def pid_of_peer(peer: Any) -> int:
    """Return the process at the other end of a connected socket: the one that listens; 0 if it cannot be seen here."""
    return _credentials(peer)[0]


def _credentials(peer: Any) -> tuple[int, int, int]:
    import _socket  # noqa: PLC0415 - not on every system

    pid, uid, gid = _CREDENTIALS.unpack(peer.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid
