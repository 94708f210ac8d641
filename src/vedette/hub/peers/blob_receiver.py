"""Receives blobs from other hubs: pieces are appended to a file, which becomes a blob if its digest is right."""

import asyncio
import collections
import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

from vedette import wire
from vedette.blobs import Blobs
from vedette.errors import BlobError
from vedette.fileio import file_size, open_private

_Asked = TypeVar("_Asked", wire.AskBlobs, wire.Piece)


class BlobReceiver:
    """Receives blobs from all connections; files are written in a thread."""

    def __init__(self, blobs: Blobs, refused: collections.Counter[str]) -> None:
        """`refused` counts what is refused, by reason."""
        self._blobs = blobs
        self._refused = refused
        self._lock = asyncio.Lock()  # two connections of one hub may overlap for a while, after a network failure

    async def offsets_of(self, asked: wire.AskBlobs, sender: str) -> wire.HasBlobs:
        """Return how many bytes of each blob are here."""
        return await asyncio.shield(self._alone(self._offsets_of, asked, sender))

    async def receive(self, piece: wire.Piece, sender: str) -> wire.HasBlobs:
        """Append a piece; with the last one the file becomes a blob. Return how many bytes of it are here."""
        return await asyncio.shield(self._alone(self._receive, piece, sender))

    async def _alone(self, act: Callable[[_Asked, str], wire.HasBlobs], asked: _Asked, sender: str) -> wire.HasBlobs:
        """Run `act` in a thread, one at a time. A caller that is cancelled does not let the next one in early."""
        async with self._lock:
            return await asyncio.to_thread(act, asked, sender)

    def _offsets_of(self, asked: wire.AskBlobs, sender: str) -> wire.HasBlobs:
        answer = wire.HasBlobs({}, {})
        for digest, size in asked.sizes.items():
            if self._blobs.size(digest) == size:
                answer.offsets[digest] = size
                self._blobs.touch(digest)  # so that nobody removes it before the fact that names it comes
            elif size == 0:
                self._keep_empty(digest, answer)
            elif why := self._why_refused(size, 0):
                answer.refused[digest] = why
            else:
                answer.offsets[digest] = self._received_bytes(digest, size, self._blobs.part(digest, sender))
        return answer

    def _received_bytes(self, digest: str, size: int, path: str) -> int:
        """Return how many bytes of a blob are here. If all are, because a hub died just then, make it a blob."""
        here = file_size(path)
        if here < size:
            return here
        with contextlib.suppress(OSError):
            if here == size and self._blobs.adopt(path, digest):
                return size
            os.unlink(path)
        return 0

    def _keep_empty(self, digest: str, answer: wire.HasBlobs) -> None:
        try:
            if self._blobs.keep(b"")[0] == digest:
                answer.offsets[digest] = 0
                return
        except (OSError, BlobError):
            pass
        answer.refused[digest] = "it has no bytes"

    def _why_refused(self, size: int, more: int) -> str:
        """Return why a blob of this size, or `more` bytes of it, cannot be taken, and count that; empty if they can."""
        try:
            self._blobs.check_room(size, more + self._blobs.parts_bytes())
        except BlobError as error:
            self._refused[error.limit] += 1
            return str(error)
        return ""

    def _receive(self, piece: wire.Piece, sender: str) -> wire.HasBlobs:
        digest, size = piece.digest, piece.size
        if self._blobs.size(digest) == size:
            return wire.HasBlobs({digest: size})
        if piece.offset + len(piece.data) > size:
            return self._refuse(digest, "a piece goes beyond the end of its blob")
        if why := self._why_refused(size, len(piece.data)):
            return wire.HasBlobs({}, {digest: why})
        path = self._blobs.part(digest, sender)
        here = self._received_bytes(digest, size, path)
        if here != piece.offset:
            return wire.HasBlobs({digest: here})
        try:
            fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                here += os.write(fd, piece.data)
            finally:
                os.close(fd)
            if here < size:
                return wire.HasBlobs({digest: here})
            if not self._blobs.adopt(path, digest):  # a power cut may have damaged earlier pieces
                self._refused["blob"] += 1
                return wire.HasBlobs({digest: 0})
        except OSError:  # the disk is full: the sender tries again
            here = file_size(path)
            return wire.HasBlobs({digest: min(here, size - 1)} if here else {})
        return wire.HasBlobs({digest: size})

    def _refuse(self, digest: str, why: str) -> wire.HasBlobs:
        self._refused["blob"] += 1
        return wire.HasBlobs({}, {digest: why})
