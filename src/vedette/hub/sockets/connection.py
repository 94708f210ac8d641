"""One open connection of the hub's sockets: frames <-> messages."""

import asyncio
from collections.abc import Callable

from vedette import wire


class Connection:
    """A connection that a process or another hub has opened."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.relay = ""  # who is at the other end, if it is a relay that has shown that
        self.holder = ""  # whose token it has sent; "" is the owner's
        self.is_admitted: Callable[[], bool] = lambda: True  # it may stay: its token was not revoked
        self._unframer = wire.Unframer()

    async def read(self, limit: int) -> bytes:
        """Return the next payload, of `limit` bytes at most; raise EOFError when the connection has ended."""
        self._unframer.limit = limit  # only for this payload: the next call sets its own
        data = b""
        while (payload := self._first(data)) is None:
            data = await self.reader.read(1 << 18)
            if not data:
                raise EOFError
        return payload

    def _first(self, data: bytes) -> bytes | None:
        frames = self._unframer.feed(data)
        try:
            return next(frames, None)
        finally:
            frames.close()

    async def receive(self, limit: int) -> wire.Message:
        """Return the next message."""
        return wire.unpack_message(await self.read(limit))

    def send(self, message: wire.Message) -> None:
        """Send a message; it is buffered."""
        self.writer.write(wire.pack_message(message))
