"""How the hub comes to hold a pidfd of each process, even of one that is gone before the hub looks.

A process sends its own pidfd to a Unix socket of its home, where only its own user may listen. The kernel keeps it
there until the hub takes it, and a pidfd tells how its process ended even after the death. Who starts a hub makes the
socket first, and hands it on: so nobody has to wait for a hub. The user's process uses `_socket`, because `socket`
takes long to import.
"""

import array
import contextlib
import os
from typing import Any, NamedTuple

from vedette import kernel, unix_socket
from vedette.interrupts import let_through

_MOST_WAITING = 4096  # connections that the hub has not taken yet
_MOST_BYTES = 256  # of the name of an origin
_SEND_S = 0.1  # a process sends as soon as it is connected: the hub may look in between


def send(path: str, origin: str) -> bool:
    """Send a pidfd of this process, which is an origin, to the hub; tell whether a hub has it or will have it.

    Without an origin nothing is sent: that only asks whether there is a hub. It never waits.
    """
    fd = kernel.open_self()
    if fd is None:
        return False
    try:
        import _socket  # noqa: PLC0415 - not on every system

        flags = _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
        connection = _socket.socket(_socket.AF_UNIX, flags)
        try:
            unix_socket.connect(connection, path)
            if not origin:
                return True
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [fd]))
            return connection.sendmsg([origin.encode()[:_MOST_BYTES]], [rights], _socket.MSG_NOSIGNAL) > 0
        finally:
            connection.close()
    except (OSError, ImportError, AttributeError) as error:
        let_through(error)
        return False
    finally:
        os.close(fd)


def listen(path: str) -> int | None:
    """Make the socket, and return its descriptor; None where that cannot be. It takes the place of an older one."""
    try:
        import _socket  # noqa: PLC0415 - not on every system

        # It gets its name only now that it listens: whoever finds a socket that refuses him knows that it is dead.
        unnamed = f"{path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unnamed)
        listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)
        try:
            with unix_socket.reach(unnamed) as reached:
                listening.bind(reached)
            os.chmod(unnamed, 0o600)
            listening.listen(_MOST_WAITING)
            os.rename(unnamed, path)
            return listening.detach()
        finally:
            listening.close()
    except (OSError, ImportError, AttributeError) as error:
        let_through(error)
        return None


class Received(NamedTuple):
    """A pidfd that a process has sent: the origin that it is of, and its pid in our pid namespace, 0 if it has none."""

    origin: str
    fd: int
    pid: int


def receive(listening: int, most: int) -> list[Received]:
    """Return pidfds that have come from processes of ours, so many at most. Wait for nobody to connect."""
    import socket  # noqa: PLC0415 - only the hub needs it

    found: list[Received] = []
    with socket.socket(fileno=os.dup(listening)) as server:
        server.setblocking(False)
        for _ in range(most):
            try:
                connection, _ = server.accept()
            except OSError:  # nobody waits, or descriptors have run out
                break
            with connection:
                found += _read(connection)
    return found


def _read(connection: Any) -> list[Received]:
    import socket  # noqa: PLC0415 - only the hub needs it

    connection.settimeout(_SEND_S)
    try:
        unix_socket.check_peer(connection)
        name, fds, _, _ = socket.recv_fds(connection, _MOST_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return []
    if len(fds) == 1 and name and (pid := kernel.pid_of(fds[0])) is not None:
        return [Received(name.decode(errors="replace"), fds[0], pid)]
    for fd in fds:
        os.close(fd)
    return []
