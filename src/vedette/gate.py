"""The connections of a port: how many there may be, and which one has to go when there are too many.

Whoever connects is a stranger until he was let in: by the guard of an HTTP server, or by a hub to which he has shown a
token. Strangers have an allowance of their own, and ten seconds. When there are too many, the oldest goes, of the
address that has the most: one who means it has asked long before. So those who only hang on the line keep nobody out,
use no descriptor that others need, and cost a bounded amount of memory.
"""

import contextlib
import resource
import socket
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

HEADERS_S = 10.0  # from the beginning of a connection to the first request that is let in
_STRANGER = ""
_BACKLOG = 1024  # connections that wait to be accepted
_MOST, _LEAST = 256, 16  # of each kind: if the system allows us enough descriptors, and if it allows few


def room() -> int:
    """Return how many connections of each kind fit into the descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(_LEAST, min(_MOST, soft // 8))


class _Line(NamedTuple):
    """A connection, where it comes from, and since when it is of its kind."""

    connection: socket.socket
    host: str
    since_s: float


class Gate(socket.socket):
    """A listening socket that counts what it accepts; thread-safe."""

    def __init__(self, bound: socket.socket, most: int = 0, refused: Callable[[], None] = lambda: None) -> None:
        """Take over a bound socket; `most`: connections of each kind. `refused` counts those that had to go."""
        super().__init__(fileno=bound.detach())
        self._refused = refused
        self.most = most or room()
        # How many to accept before the earlier ones are looked at: who has asked is heard before he would have to go.
        self.at_once = max(1, self.most // 8)
        self._lock = threading.Lock()
        self._held: defaultdict[str, OrderedDict[int, _Line]] = defaultdict(OrderedDict)  # by kind, the oldest first

    def listen(self, _backlog: int = 0, /) -> None:
        """Listen; asyncio asks for as many as it accepts at once, and more of them may wait."""
        super().listen(_BACKLOG)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, of a stranger; if there are too many, the oldest of them ends."""
        connection, address = super().accept()
        with self._lock:
            self._note(_STRANGER, connection, str(address[0]) if isinstance(address, tuple) else "")
        return connection, address

    def admit(self, fd: int, who: str) -> None:
        """Note that a request on this connection was let in; `who`: a kind of reader, with an allowance of its own."""
        with self._lock:
            for held in self._held.values():
                if fd in held:
                    self._note(who, held[fd].connection, held[fd].host)
                    return

    def release(self, fd: int) -> None:
        """Note that a connection was let in, or is gone, and does not count here any more."""
        with self._lock:
            for held in self._held.values():
                held.pop(fd, None)

    def replace(self, connection: socket.socket) -> None:
        """Note that TLS has put another object in the place of a connection, with the same descriptor."""
        fd = connection.fileno()
        with self._lock:
            for held in self._held.values():
                if fd in held:
                    held[fd] = held[fd]._replace(connection=connection)
                    return
            self._note(_STRANGER, connection, "")

    def holds(self, connection: socket.socket) -> bool:
        """Tell whether a connection was not ended: one that was may still have something to be read."""
        fd = connection.fileno()
        with self._lock:
            return any(fd in held and held[fd].connection is connection for held in self._held.values())

    def sweep(self, known_s: float = float("inf")) -> None:
        """End the strangers whose time is over, and the others after `known_s`; call it now and then."""
        now = time.monotonic()
        with self._lock:
            for kind, held in self._held.items():
                most_s = known_s if kind else HEADERS_S
                while held and now - next(iter(held.values())).since_s > most_s:
                    _end(held.popitem(last=False)[1].connection)

    def end_all(self) -> None:
        """End every connection."""
        with self._lock:
            for held in self._held.values():
                while held:
                    _end(held.popitem()[1].connection)

    def __len__(self) -> int:
        """How many connections are open."""
        with self._lock:
            return sum(line.connection.fileno() >= 0 for held in self._held.values() for line in held.values())

    def __bool__(self) -> bool:
        return True

    def _note(self, kind: str, connection: socket.socket, host: str) -> None:
        fd, held = connection.fileno(), self._held[kind]
        for others in self._held.values():
            others.pop(fd, None)  # one that was closed: its descriptor is used again
        if len(held) >= self.most:
            for gone in [other for other, line in held.items() if line.connection.fileno() < 0]:
                del held[gone]
        while len(held) >= self.most:
            busiest, _ = Counter([host, *(line.host for line in held.values())]).most_common(1)[0]
            oldest = next((other for other, line in held.items() if line.host == busiest), next(iter(held)))
            _end(held.pop(oldest).connection)
            self._refused()
        held[fd] = _Line(connection, host, time.monotonic())


def _end(connection: socket.socket) -> None:
    """Shut a connection down; whoever reads it closes it."""
    with contextlib.suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)
