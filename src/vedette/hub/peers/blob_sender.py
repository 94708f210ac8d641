"""Blobs on their way to another hub: only what it lacks, from where it has got to, when nothing else is to be sent.

One piece is on the way at a time, as large as the link takes in a fraction of a second, so that what is logged
meanwhile waits no longer than that.
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
_ALL_S = 60.0  # so often even what lacks something here is tried again: a disk may have failed for a moment
_ASKED_AT_ONCE = 500
_LEAST_PIECE, _FIRST_PIECE = 16 << 10, 64 << 10
_QUICK_S, _SLOW_S = 0.1, 0.3

Tell = Callable[[wire.Message], "asyncio.Future[wire.HasBlobs]"]


class _Left(NamedTuple):
    """What could not be sent."""

    absent: list[str]  # is not here
    unread: list[str]  # is here, and cannot be read now
    untaken: list[str]  # the other hub has failed

    @property
    def nothing(self) -> bool:
        return not any(self)


class BlobSender:
    """Sends blobs to one hub, over one connection after the other."""

    def __init__(self, queue: BlobQueue, blobs: Blobs, upstream: str) -> None:
        self.refused = ""  # why the other hub did not take a blob, the last time
        self._queue = queue
        self._blobs = blobs
        self._upstream = upstream
        self._piece = _FIRST_PIECE

    def takes(self, *, blobs: bool) -> None:
        """Take note whether the other hub takes blobs at all."""
        (self._queue.refusing.discard if blobs else self._queue.refusing.add)(self._upstream)

    async def carry(self, tell: Tell) -> None:
        """Send what waits, for as long as the connection stands; `tell` sends a message, and has its answer."""
        all_at = 0.0
        while True:
            try:
                every = time.monotonic() >= all_at
                all_at = time.monotonic() + _ALL_S if every else all_at
                for digest, lists in self._queue.of(self._upstream):
                    if every or self._queue.can_go(self._upstream, digest):
                        await self._send_whole(digest, tell, lists=lists)
                self._queue.give_up_old(self._upstream)
            except Exception as error:  # whatever it is, what is logged is shipped on
                self.refused = f"{type(error).__name__}: {error}"
            await asyncio.sleep(_LOOK_S)

    async def _send_whole(self, digest: str, tell: Tell, *, lists: bool) -> None:
        """Send a blob, and what it lists; take note of how far that got."""
        left = await self._send([digest], tell)
        if lists and left.nothing:
            try:
                left = await self._send(await asyncio.to_thread(self._blobs.listed, digest, surely=True), tell)
            except OSError:
                left.unread.append(digest)
        if left.nothing:
            self._queue.done(self._upstream, digest)
        elif not left.untaken:
            self._queue.stall(self._upstream, digest, left.absent)

    async def _send(self, digests: list[str], tell: Tell) -> _Left:
        """Send those that are lacking there; return those that are neither there now, nor given up."""
        left = _Left([], [], [])
        for at in range(0, len(digests), _ASKED_AT_ONCE):
            found = {digest: self._blobs.size(digest) for digest in digests[at : at + _ASKED_AT_ONCE]}
            sizes = {digest: size for digest, size in found.items() if size is not None}
            left.absent.extend(found.keys() - sizes.keys())
            if not sizes:
                continue
            there = await tell(wire.AskBlobs(sizes))
            for digest, size in sizes.items():
                if digest in there.refused:
                    self.refused = there.refused[digest]
                elif size == 0:  # the question alone makes it
                    left.untaken.extend({digest} - there.offsets.keys())
                elif not await self._send_one(digest, size, there.offsets.get(digest, 0), tell):
                    left.unread.append(digest)
        return left

    async def _send_one(self, digest: str, size: int, offset: int, tell: Tell) -> bool:
        """Send a blob from an offset on; tell whether it is there now, or never will be."""
        mismatches = 0
        with suppress(OSError, VedetteError):  # it was removed meanwhile, or cannot be read
            with self._blobs.open(digest) as file:
                while offset < size:
                    data = await asyncio.to_thread(os.pread, file.fileno(), min(self._piece, size - offset), offset)
                    if not data:
                        return False
                    begun = time.monotonic()
                    answer = await tell(wire.Piece(digest, size, offset, data))
                    self._pace(time.monotonic() - begun, len(data))
                    if digest in answer.refused:
                        self.refused = answer.refused[digest]
                        return True
                    before, offset = offset, answer.offsets.get(digest, 0)
                    if (
                        before + len(data) == size and answer.offsets.get(digest) == 0
                    ):  # the whole of it was wrong there
                        mismatches += 1
                        if mismatches > 1 or await asyncio.to_thread(digest_of, file.fileno()) != digest:
                            self.refused = f"the bytes of {digest[:12]} are not those of its digest"
                            return True
                    if offset <= before:  # somebody else sends it, too, or its disk is full
                        await asyncio.sleep(_LOOK_S)
            return True
        return False

    def _pace(self, took_s: float, sent: int) -> None:
        if took_s < _QUICK_S and sent == self._piece:
            self._piece = min(2 * self._piece, wire.MAX_PIECE)
        elif took_s > _SLOW_S:
            self._piece = max(self._piece // 2, _LEAST_PIECE)
