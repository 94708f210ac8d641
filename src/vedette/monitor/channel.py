"""What a process and its monitor beside it say to each other, over a pair of sockets: length, then msgpack."""

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
_WAIT_S = 5.0  # that the other side may leave us waiting in the middle of a message


class Begin(msgspec.Struct, tag="begin"):
    """The first word: do this."""

    plan: Plan


class Ready(msgspec.Struct, tag="ready"):
    """It has taken its first look."""

    pid: int
    absent: dict[str, str]
    ports: list[int]
    primed: list[Sample]


class Failed(msgspec.Struct, tag="failed"):
    """It cannot, for this reason: what it was asked for, or else."""

    text: str
    asked: bool = False


class Ask(msgspec.Struct, tag="ask"):
    """Tell the moments from this number on; with `last`, those up to a last look, and end."""

    id: int
    since: int
    last: bool = False


class Account(msgspec.Struct, tag="account"):
    """The answer."""

    id: int
    part: Part
    trouble: dict[str, str]
    ended: str


Message = Begin | Ready | Failed | Ask | Account


class Talk:
    """One end."""

    def __init__(self, end: socket.socket, wait_s: float = _WAIT_S) -> None:
        """Speak through a connected socket."""
        self._socket = end
        self._decoder = msgspec.msgpack.Decoder(Message)
        self._ready = select.poll()
        self._ready.register(end, select.POLLIN)
        end.settimeout(wait_s)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def say(self, message: Message) -> None:
        """Send; raise OSError when the other side is not there, or does not listen."""
        data = msgspec.msgpack.encode(message)
        # A program that has SIGPIPE as the system does would end by a monitor that was killed.
        self._socket.sendall(_HEAD.pack(len(data)) + data, getattr(socket, "MSG_NOSIGNAL", 0))

    def hear(self, seconds: float) -> Message | None:
        """Return what is said within some time, None if nothing is; raise OSError when the other side is gone."""
        if not self._ready.poll(max(0.0, seconds) * 1000):
            return None
        (size,) = _HEAD.unpack(self._read(_HEAD.size))
        if size > _MOST_BYTES:
            raise OSError("a message beyond all bounds")
        try:
            message: Message = self._decoder.decode(self._read(size))
            return message
        except msgspec.DecodeError as error:
            raise OSError(f"a message that is none: {error}") from None

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise ConnectionResetError("the other side is gone")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):  # the program that we live in has closed it
            self._socket.close()
