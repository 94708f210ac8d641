"""Blobs that other hubs send: pieces are put together beside, and become a blob when the digest is right."""

import asyncio
import collections
import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

from vedette import wire
from vedette.blobs import Blobs
from vedette.errors import BlobError
from vedette.fileio import file_size

_Asked = TypeVar("_Asked", wire.AskBlobs, wire.Piece)


class BlobReceiver:
    """Puts together what comes from all connections; what it writes, it writes in a thread."""

    def __init__(self, blobs: Blobs, refused: collections.Counter[str]) -> None:
        """`refused` counts what is turned away."""
        self._blobs = blobs
        self._refused = refused
        self._lock = asyncio.Lock()  # two connections of one hub may overlap, when a cut is noticed late

    async def have(self, asked: wire.AskBlobs, sender: str) -> wire.HasBlobs:
        """Say how much of blobs is here."""
        return await asyncio.shield(self._alone(self._have, asked, sender))

    async def take(self, piece: wire.Piece, sender: str) -> wire.HasBlobs:
        """Take in a piece, and with the last one the blob; say how much of it is here."""
        return await asyncio.shield(self._alone(self._take, piece, sender))

    async def _alone(self, act: Callable[[_Asked, str], wire.HasBlobs], asked: _Asked, sender: str) -> wire.HasBlobs:
        """Do one thing after the other: who stops waiting for an answer does not stop the thread, nor let others in."""
        async with self._lock:
            return await asyncio.to_thread(act, asked, sender)

    def _have(self, asked: wire.AskBlobs, sender: str) -> wire.HasBlobs:
        answer = wire.HasBlobs({}, {})
        for digest, size in asked.sizes.items():
            if self._blobs.size(digest) == size:
                answer.offsets[digest] = size
                self._blobs.touch(digest)  # its name comes with the facts: nobody removes it meanwhile
            elif size == 0:
                self._keep_nothing(digest, answer)
            elif why := self._why_not(size, 0):
                answer.refused[digest] = why
            else:
                answer.offsets[digest] = self._come(digest, size, self._blobs.part(digest, sender))
        return answer

    def _come(self, digest: str, size: int, path: str) -> int:
        """Return how much of a blob has come; a hub that died may have been about to make it one."""
        here = file_size(path)
        if here < size:
            return here
        with contextlib.suppress(OSError):
            if here == size and self._blobs.adopt(path, digest):
                return size
            os.unlink(path)
        return 0

    def _keep_nothing(self, digest: str, answer: wire.HasBlobs) -> None:
        try:
            if self._blobs.keep(b"")[0] == digest:
                answer.offsets[digest] = 0
                return
        except (OSError, BlobError):
            pass
        answer.refused[digest] = "it has no bytes"

    def _why_not(self, size: int, more: int) -> str:
        """Say why a blob of this size, or so many more bytes of it, are not taken; count that."""
        try:
            self._blobs.check_room(size, more + self._blobs.parts_bytes())
        except BlobError as error:
            self._refused[error.limit] += 1
            return str(error)
        return ""

    def _take(self, piece: wire.Piece, sender: str) -> wire.HasBlobs:
        digest, size = piece.digest, piece.size
        if self._blobs.size(digest) == size:
            return wire.HasBlobs({digest: size})
        if piece.offset + len(piece.data) > size:
            return self._refuse(digest, "a piece goes beyond its end")
        if why := self._why_not(size, len(piece.data)):
            return wire.HasBlobs({}, {digest: why})
        path = self._blobs.part(digest, sender)
        here = self._come(digest, size, path)
        if here != piece.offset:
            return wire.HasBlobs({digest: here})
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                here += os.write(fd, piece.data)
            finally:
                os.close(fd)
            if here < size:
                return wire.HasBlobs({digest: here})
            if not self._blobs.adopt(path, digest):  # a power cut may have damaged what had come before
                self._refused["blob"] += 1
                return wire.HasBlobs({digest: 0})
        except OSError:  # a full disk: it is tried again
            here = file_size(path)
            return wire.HasBlobs({digest: min(here, size - 1)} if here else {})
        return wire.HasBlobs({digest: size})

    def _refuse(self, digest: str, why: str) -> wire.HasBlobs:
        self._refused["blob"] += 1
        return wire.HasBlobs({}, {digest: why})
