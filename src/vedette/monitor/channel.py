"""Messages between a process and its monitor process, over a pair of sockets: a length, then msgpack."""

import contextlib
import select
import socket
import struct

import msgspec

from vedette.model import Sample
from vedette.monitor.plan import Plan
from vedette.monitor.record import Part

_HEAD = struct.Struct("<I")
_MOST_BYTES = 1 << 30
_WAIT_S = 5.0  # how long we wait for the rest of a message


class Begin(msgspec.Struct, tag="begin"):
    """The first message to the monitor: its plan."""

    plan: Plan


class Ready(msgspec.Struct, tag="ready"):
    """The monitor has started and taken its first look."""

    pid: int
    absent: dict[str, str]
    ports: list[int]
    primed: list[Sample]


class Failed(msgspec.Struct, tag="failed"):
    """The monitor cannot start, for this reason; `asked`: because of a mistake in the plan."""

    text: str
    asked: bool = False


class Ask(msgspec.Struct, tag="ask"):
    """A request for all moments from the number `since` on; `last`: take a last look, answer and end."""

    id: int
    since: int
    last: bool = False


class Answer(msgspec.Struct, tag="account"):
    """The answer to an Ask."""

    id: int
    part: Part
    trouble: dict[str, str]
    ended: str


Message = Begin | Ready | Failed | Ask | Answer


class Channel:
    """One end of the connection."""

    def __init__(self, end: socket.socket, wait_s: float = _WAIT_S) -> None:
        """Use a connected socket."""
        self._socket = end
        self._decoder = msgspec.msgpack.Decoder(Message)
        self._ready = select.poll()
        self._ready.register(end, select.POLLIN)
        end.settimeout(wait_s)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message; raise OSError when the other side has gone or does not read."""
        data = msgspec.msgpack.encode(message)
        # Without MSG_NOSIGNAL, a killed monitor would end a program that has the default handler of SIGPIPE.
        self._socket.sendall(_HEAD.pack(len(data)) + data, getattr(socket, "MSG_NOSIGNAL", 0))

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, or None if none comes in time; raise OSError when the other side has gone."""
        if not self._ready.poll(max(0.0, seconds) * 1000):
            return None
        (size,) = _HEAD.unpack(self._read(_HEAD.size))
        if size > _MOST_BYTES:
            raise OSError(f"a message of {size} bytes is too large")
        try:
            message: Message = self._decoder.decode(self._read(size))
            return message
        except msgspec.DecodeError as error:
            raise OSError(f"a message cannot be decoded: {error}") from None

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise ConnectionResetError("the other side has closed the connection")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):  # the user's program may have closed it already
            self._socket.close()
