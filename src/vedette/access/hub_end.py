"""How the hub of a home is ended: it is asked over its socket, and leaves by itself.

One that does not answer gets a signal, through a pidfd of the process at the other end of that socket. The pid in its
lock alone is never enough: in another container the same number means another process (decisions/038).
"""

import contextlib
import os
import select
import signal
import socket
import time
from typing import NamedTuple

from vedette import kernel, unix_socket, wire
from vedette.access import hub_socket
from vedette.errors import FormatError, HubError, StrangerError
from vedette.home import Home
from vedette.hub_lock import HubProcess

_END_S = 30.0  # it may have much to seal
_KILLED_S = 5.0
_PAUSE_S = 0.02


class Ended(NamedTuple):
    """A hub that was ended, and whether it had to be killed."""

    hub: HubProcess
    killed: bool = False


def end_hub(home: Home, end_s: float = _END_S) -> Ended | None:
    """End the hub, and wait for that; None if there is none. Raise HubError when it cannot be ended from here.

    `end_s`: how long it may take to store what it has. Whatever happens, nothing is lost.
    """
    home.check_owner()
    if (hub := home.hub()) is None:
        return None
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(socket.socket(socket.AF_UNIX))
        connected = _connect(home, peer)
        hub = home.hub() or hub
        fd = _pidfd(home, hub, unix_socket.pid_of_peer(peer) if connected else 0)
        if fd is not None:
            stack.callback(os.close, fd)
        if connected and not _is_stopped(hub) and _asks(peer):
            if _is_gone(home, hub, end_s):
                return Ended(hub)
            raise HubError(
                f"the hub (pid {hub}) leaves, but has much to store: `vedette hub --stop` waits for it again"
            )
        if _is_gone(home, hub, 0):
            return Ended(hub)
        if fd is None:
            raise HubError(
                f"the hub (pid {hub}) does not answer, and its process cannot be seen from here: end it where it runs,"
                " by `vedette hub --stop` or a signal; nothing is lost"
            )
        _send(fd, signal.SIGTERM)
        _send(fd, signal.SIGCONT)  # if it is stopped
        if _is_gone(home, hub, end_s):
            return Ended(hub)
        _send(fd, signal.SIGKILL)
        if _is_gone(home, hub, _KILLED_S):
            return Ended(hub, killed=True)
    raise HubError(f"the hub (pid {hub}) does not end, though it was killed: it waits for a disk, probably")


def _connect(home: Home, peer: socket.socket) -> bool:
    """Connect to the hub; tell whether that was possible. One that begins or leaves has no socket for a moment."""
    deadline = time.monotonic() + hub_socket.START_TIMEOUT_S
    peer.settimeout(hub_socket.HELLO_TIMEOUT_S)
    while (hub := home.hub()) is not None and time.monotonic() < deadline:
        try:
            unix_socket.connect(peer, home.socket)
            return True
        except StrangerError as error:
            raise StrangerError(f"{home.socket} is not answered by the hub of this home: {error}") from None
        except TimeoutError:  # it is stopped, and too many wait for it already
            return False
        except OSError:
            if _is_stopped(hub):
                return False
            time.sleep(_PAUSE_S)
    return False


def _asks(peer: socket.socket) -> bool:
    """Ask the hub to leave; tell whether it said that it will. An older one does not know the question."""
    messages = hub_socket.receive(peer)
    try:
        peer.sendall(wire.pack_message(wire.Hello(name="vedette")))
        hello = next(messages, None)
        if not isinstance(hello, wire.Hello) or wire.LEAVE not in hello.takes:
            return False
        peer.sendall(wire.pack_message(wire.Leave()))
        return isinstance(next(messages, None), wire.Done)
    except (OSError, FormatError):  # it does not answer, or has left at this moment
        return False


def _is_gone(home: Home, hub: HubProcess, within_s: float) -> bool:
    """Wait until the hub has released the lock; tell whether it has. Another one may have taken it since."""
    deadline = time.monotonic() + within_s
    while home.hub() == hub:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _pidfd(home: Home, hub: HubProcess, listens: int) -> int | None:
    """Return a pidfd of the hub's process; None if that process is not surely found here.

    `listens`: the pid of the process at the other end of its socket, 0 if there is none or it cannot be seen. Without
    it, the lock says which process it was.
    """
    pid = listens or (hub.pid if hub.is_here() else 0)
    if not pid or (listens and hub.is_here() and hub.pid != listens):
        return None
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
    with contextlib.suppress(OSError):
        # If it lives after all this was read, then it was read of this process, and not of a later one.
        if _holds(pid, home.lock) and not select.select([fd], [], [], 0)[0]:
            return fd
    os.close(fd)
    return None


def _holds(pid: int, lock: str) -> bool:
    """Tell whether a process has the lock open."""
    wanted = os.stat(lock)
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(f"/proc/{pid}/fd/{name}")
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False


def _is_stopped(hub: HubProcess) -> bool:
    return hub.is_here() and kernel.is_stopped(hub.pid)


def _send(fd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        signal.pidfd_send_signal(fd, number)
