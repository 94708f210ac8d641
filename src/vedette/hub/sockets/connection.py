"""The other end of a connection."""

import asyncio

from vedette import wire


class Connection:
    """Whoever has connected, as it speaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._unframer = wire.Unframer()

    async def read(self, limit: int) -> bytes:
        """Return its next payload, of so many bytes at most; raise EOFError when it has left."""
        self._unframer.limit = limit  # for this one alone: what came with it is looked at when it is its turn
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

    async def hear(self, limit: int) -> wire.Message:
        """Return its next message."""
        return wire.unpack_message(await self.read(limit))

    def say(self, message: wire.Message) -> None:
        """Send it a message."""
        self.writer.write(wire.pack_message(message))
