"""Sends blobs to another hub: only those that it lacks, from the offset that it has, and only when nothing else waits.

One piece is sent at a time. Its size adapts to the connection, so that it takes a fraction of a second: records that
are logged meanwhile wait no longer than that.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from vedette import wire
from vedette.blobs import Blobs
from vedette.errors import VedetteError
from vedette.fileio import digest_of
from vedette.hub.peers.blob_queue import BlobQueue

_LOOK_S = 1.0
_MOST_LOOKED_AT = 300  # blobs at once: of many, most may never come here
_ALL_S = 60.0  # every so often blobs with missing bytes are tried, too: a disk may have failed for a moment
_ASKED_AT_ONCE = 500
_LEAST_PIECE, _FIRST_PIECE = 16 << 10, 64 << 10
_QUICK_S, _SLOW_S = 0.1, 0.3

Request = Callable[[wire.Message], "asyncio.Future[wire.HasBlobs]"]


class _Left(NamedTuple):
    """The blobs that could not be sent."""

    absent: list[str]  # they are not here
    unread: list[str]  # they are here, but cannot be read now
    untaken: list[str]  # the other hub could not write them

    @property
    def nothing(self) -> bool:
        return not any(self)


class BlobSender:
    """Sends blobs to one hub, over one connection after the other."""

    def __init__(self, queue: BlobQueue, blobs: Blobs, upstream: str) -> None:
        self.refused = ""  # why the other hub last refused a blob
        self._queue = queue
        self._blobs = blobs
        self._upstream = upstream
        self._piece = _FIRST_PIECE

    def takes(self, *, blobs: bool) -> None:
        """Note whether the other hub takes blobs at all."""
        (self._queue.refusing.discard if blobs else self._queue.refusing.add)(self._upstream)

    async def run(self, request: Request) -> None:
        """Send what waits until cancelled; `request` sends a message and returns its answer."""
        every, all_at = False, 0.0
        waiting: list[tuple[str, bool]] = []  # that were not looked at in this round
        while True:
            try:
                if not waiting:
                    waiting = self._queue.of(self._upstream)
                    every = time.monotonic() >= all_at
                    all_at = time.monotonic() + _ALL_S if every else all_at
                some, waiting = waiting[:_MOST_LOOKED_AT], waiting[_MOST_LOOKED_AT:]
                for digest, lists in some:
                    if every or self._queue.can_go(self._upstream, digest):
                        await self._send_whole(digest, request, lists=lists)
                self._queue.give_up_old(self._upstream, [digest for digest, _ in some])
            except Exception as error:  # whatever it is, records must still be shipped
                self.refused = f"{type(error).__name__}: {error}"
            await asyncio.sleep(_LOOK_S)

    async def _send_whole(self, digest: str, request: Request, *, lists: bool) -> None:
        """Send a blob, and the blobs that it lists; note in the queue what was sent."""
        left = await self._send([digest], request)
        if lists and left.nothing:
            try:
                left = await self._send(await asyncio.to_thread(self._blobs.listed, digest, surely=True), request)
            except OSError:
                left.unread.append(digest)
        if left.nothing:
            self._queue.done(self._upstream, digest)
        elif not left.untaken:
            self._queue.stall(self._upstream, digest, left.absent)

    async def _send(self, digests: list[str], request: Request) -> _Left:
        """Send the blobs that the other hub lacks; return those that are neither there now, nor refused."""
        left = _Left([], [], [])
        for at in range(0, len(digests), _ASKED_AT_ONCE):
            found = {digest: self._blobs.size(digest) for digest in digests[at : at + _ASKED_AT_ONCE]}
            sizes = {digest: size for digest, size in found.items() if size is not None}
            left.absent.extend(found.keys() - sizes.keys())
            if not sizes:
                continue
            there = await request(wire.AskBlobs(sizes))
            for digest, size in sizes.items():
                if digest in there.refused:
                    self.refused = there.refused[digest]
                elif size == 0:  # the other hub makes an empty blob by itself
                    left.untaken.extend({digest} - there.offsets.keys())
                elif not await self._send_one(digest, size, there.offsets.get(digest, 0), request):
                    left.unread.append(digest)
        return left

    async def _send_one(self, digest: str, size: int, offset: int, request: Request) -> bool:
        """Send a blob from an offset on; return True when it is there now, or is refused for good."""
        mismatches = 0
        with suppress(OSError, VedetteError):  # it was removed, or cannot be read
            with self._blobs.open(digest) as file:
                while offset < size:
                    data = await asyncio.to_thread(os.pread, file.fileno(), min(self._piece, size - offset), offset)
                    if not data:
                        return False
                    begun = time.monotonic()
                    answer = await request(wire.Piece(digest, size, offset, data))
                    self._pace(time.monotonic() - begun, len(data))
                    if digest in answer.refused:
                        self.refused = answer.refused[digest]
                        return True
                    before, offset = offset, answer.offsets.get(digest, 0)
                    sent_all = before + len(data) == size
                    if sent_all and answer.offsets.get(digest) == 0:  # there, the bytes did not match the digest
                        mismatches += 1
                        if mismatches > 1 or await asyncio.to_thread(digest_of, file.fileno()) != digest:
                            self.refused = f"the bytes of {digest[:12]} do not match their digest"
                            return True
                    if offset <= before:  # another hub sends it, too, or the disk there is full
                        await asyncio.sleep(_LOOK_S)
            return True
        return False

    def _pace(self, took_s: float, sent: int) -> None:
        if took_s < _QUICK_S and sent == self._piece:
            self._piece = min(2 * self._piece, wire.MAX_PIECE)
        elif took_s > _SLOW_S:
            self._piece = max(self._piece // 2, _LEAST_PIECE)
