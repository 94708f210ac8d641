"""Receives blobs from other hubs: pieces are appended to a file, which becomes a blob if its digest is right.

Nobody is told of a blob that his own relays have not sent: it may be another's, and be here unknown to him. So what is
here already is sent once more by each holder, and only then is it noted that he has it (decisions/033).
"""

import asyncio
import collections
import contextlib
import os
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from vedette import wire
from vedette.blobs import Blobs
from vedette.errors import BlobError
from vedette.fileio import file_size, open_private, unlink
from vedette.store import Store
from vedette.tokens import OWNER

_COUNTED_S = 60.0  # so long a holder's files are not counted anew: runs may have been removed
_MOST_PARTS, _MOST_OF_HOLDER = 4, 1000  # unfinished files of one relay, which sends one after the other; of a holder
_PARTS_SHARE = 4  # what a relay has left unfinished may take this part of the room that is left

T = TypeVar("T")


class Sender(NamedTuple):
    """Who sends."""

    holder: str  # whose token it uses
    relay: str


class InStore(Protocol):
    """Does something with the store, in the thread that it is used in."""

    async def __call__(self, act: Callable[[Store], T], relay: str) -> T:
        """Return what `act` returns, which a relay asks for; raise HubError when it fails."""


class BlobReceiver:
    """Receives blobs from all connections; files are written in a thread."""

    def __init__(self, blobs: Blobs, refused: collections.Counter[str], in_store: InStore) -> None:
        """`refused` counts what is refused, by reason."""
        self._blobs = blobs
        self._refused = refused
        self._in_store = in_store
        self._lock = asyncio.Lock()  # two connections of one hub may overlap for a while, after a network failure
        self._used: dict[str, tuple[int, float]] = {}  # by holder: bytes of his files, and until when that holds

    async def offsets_of(self, asked: wire.AskBlobs, sender: Sender) -> wire.HasBlobs:
        """Return how many bytes of each blob the holder's relays have sent, as far as they are here."""
        return await asyncio.shield(self._look(asked, sender))

    async def receive(self, piece: wire.Piece, sender: Sender) -> wire.HasBlobs:
        """Append a piece; with the last one the file becomes a blob. Return how many bytes of it are here."""
        return await asyncio.shield(self._take(piece, sender))

    async def _look(self, asked: wire.AskBlobs, sender: Sender) -> wire.HasBlobs:
        known = await self._in_store(lambda store: store.delivered(list(asked.sizes), sender.holder), sender.relay)
        used = await self._used_by(sender)
        answer = await self._alone(lambda: self._offsets_of(asked, known, sender, used))
        sizes = asked.sizes.items()
        await self._note({d: size for d, size in sizes if d not in known and answer.offsets.get(d) == size}, sender)
        return answer

    async def _take(self, piece: wire.Piece, sender: Sender) -> wire.HasBlobs:
        used = await self._used_by(sender)
        answer = await self._alone(lambda: self._receive(piece, sender, used))
        if answer.offsets.get(piece.digest) == piece.size:
            await self._note({piece.digest: piece.size}, sender)
        return answer

    async def _alone(self, act: Callable[[], wire.HasBlobs]) -> wire.HasBlobs:
        """Run `act` in a thread, one at a time. A caller that is cancelled does not let the next one in early."""
        async with self._lock:
            return await asyncio.to_thread(act)

    async def _note(self, sizes: dict[str, int], sender: Sender) -> None:
        """Note that the relay has sent all bytes of these blobs."""
        if sizes:
            await self._in_store(lambda store: store.note_delivered(sizes, sender.relay), sender.relay)
            if (used := self._used.get(sender.holder)) is not None:
                self._used[sender.holder] = used[0] + sum(sizes.values()), used[1]

    async def _used_by(self, sender: Sender) -> int:
        """Return how many bytes the files have that a holder's relays have sent; the owner's need no count."""
        holder = sender.holder
        if holder == OWNER or not self._blobs.limits.blobs_bytes:
            return 0
        used, until = self._used.get(holder, (0, 0.0))
        if time.monotonic() >= until:
            used = await self._in_store(lambda store: store.delivered_bytes(holder), sender.relay)
            self._used[holder] = used, time.monotonic() + _COUNTED_S
        return used

    # All below runs in a thread.

    def _offsets_of(self, asked: wire.AskBlobs, known: set[str], sender: Sender, used: int) -> wire.HasBlobs:
        answer = wire.HasBlobs({}, {})
        for digest, size in asked.sizes.items():
            if digest in known and self._blobs.size(digest) == size:
                answer.offsets[digest] = size
                self._blobs.touch(digest)  # so that nobody removes it before the fact that names it comes
            elif size == 0:
                self._keep_empty(digest, answer)
            else:
                path = self._blobs.part(digest, *sender)
                here = self._received_bytes(digest, size, path)
                if here < size and (why := self._why_refused(size, here, sender, used)):
                    unlink(path)
                    answer.refused[digest] = why
                else:
                    answer.offsets[digest] = here
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

    def _why_refused(self, size: int, here: int, sender: Sender, used: int) -> str:
        """Return why the rest of a blob cannot be taken, and count that; empty if it can.

        What another holder than the owner has may not be more than what is left then: so one of them alone fills half
        of the room, and there is always some for the next one.
        """
        try:
            unfinished = sum(part.size for part in self._blobs.parts())
            self._blobs.check_room(size, size - here + unfinished)
            limit = self._blobs.limits.blobs_bytes
            if limit and sender.holder != OWNER:
                has = used + sum(part.size for part in self._blobs.parts(sender.holder)) + size - here
                left = limit - self._blobs.total() - unfinished - (size - here)
                if has > left:
                    raise BlobError(
                        f"with it the files of {sender.holder} would take more room than the {max(left, 0)} bytes that"
                        " would be left for all others",
                        "limits.blobs_bytes",
                    )
        except BlobError as error:
            self._refused[error.limit] += 1
            return str(error)
        return ""

    def _make_way(self, sender: Sender) -> None:
        """Remove what a relay has left unfinished, those that rest longest first, before it begins another one.

        What it still wants to send it sends anew; if that were refused instead, it would never be sent.
        """
        parts, limit = self._blobs.parts(*sender), self._blobs.limits.blobs_bytes
        left = limit - self._blobs.total() - sum(part.size for part in self._blobs.parts())
        while parts and (
            len(parts) >= _MOST_PARTS or (limit and _PARTS_SHARE * sum(part.size for part in parts) > left)
        ):
            unlink(parts.pop(0).path)
        for part in self._blobs.parts(sender.holder)[: 1 - _MOST_OF_HOLDER]:
            unlink(part.path)

    def _receive(self, piece: wire.Piece, sender: Sender, used: int) -> wire.HasBlobs:
        digest, size = piece.digest, piece.size
        if piece.offset + len(piece.data) > size:
            return self._refuse(digest, "a piece goes beyond the end of its blob")
        path = self._blobs.part(digest, *sender)
        here = self._received_bytes(digest, size, path)
        if here == size:
            return wire.HasBlobs({digest: size})
        if not here:
            self._make_way(sender)
        if why := self._why_refused(size, here, sender, used):
            unlink(path)
            return wire.HasBlobs({}, {digest: why})
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
