"""Blobs on their way to another hub: only what it lacks, from where it has got to, when nothing else is to be sent.

One piece is on the way at a time, as large as the link takes in a fraction of a second, so that what is logged
meanwhile waits no longer than that.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

from vedette import wire
from vedette.blobs import Blobs
from vedette.errors import VedetteError
from vedette.hub.outgoing import Outgoing

_LOOK_S = 1.0
_ASKED_AT_ONCE = 500
_LEAST_PIECE, _FIRST_PIECE = 16 << 10, 64 << 10
_QUICK_S, _SLOW_S = 0.1, 0.3

Tell = Callable[[wire.Message], "asyncio.Future[wire.HasBlobs]"]


class Carrier:
    """Sends blobs to one hub, over one connection after the other."""

    def __init__(self, outgoing: Outgoing, blobs: Blobs, upstream: str) -> None:
        self.refused = ""  # why the other hub did not take a blob, the last time
        self._outgoing = outgoing
        self._blobs = blobs
        self._upstream = upstream
        self._piece = _FIRST_PIECE

    def takes(self, *, blobs: bool) -> None:
        """Take note whether the other hub takes blobs at all."""
        (self._outgoing.deaf.discard if blobs else self._outgoing.deaf.add)(self._upstream)

    async def carry(self, tell: Tell) -> None:
        """Send what waits, for as long as the connection stands; `tell` sends a message, and has its answer."""
        while True:
            try:
                for digest, lists in self._outgoing.of(self._upstream):
                    if await self._send([digest], tell) and (
                        not lists or await self._send(await asyncio.to_thread(self._blobs.listed, digest), tell)
                    ):
                        self._outgoing.done(self._upstream, digest)
                self._outgoing.give_up_old(self._upstream)
            except Exception as error:  # whatever it is, what is logged is shipped on
                self.refused = f"{type(error).__name__}: {error}"
            await asyncio.sleep(_LOOK_S)

    async def _send(self, digests: list[str], tell: Tell) -> bool:
        """Send those that are lacking there; tell whether all are there now, or never will be."""
        complete = True
        for at in range(0, len(digests), _ASKED_AT_ONCE):
            found = {digest: self._blobs.size(digest) for digest in digests[at : at + _ASKED_AT_ONCE]}
            sizes = {digest: size for digest, size in found.items() if size is not None}
            complete = complete and len(sizes) == len(found)
            if not sizes:
                continue
            there = await tell(wire.AskBlobs(sizes))
            for digest, size in sizes.items():
                if digest in there.refused:
                    self.refused = there.refused[digest]
                elif there.places.get(digest, 0) < size or (size == 0 and digest not in there.places):
                    complete = await self._send_one(digest, size, there.places.get(digest, 0), tell) and complete
        return complete

    async def _send_one(self, digest: str, size: int, place: int, tell: Tell) -> bool:
        with suppress(OSError, VedetteError):  # it was removed meanwhile, or cannot be read
            with self._blobs.open(digest) as file:
                while place < size:
                    data = await asyncio.to_thread(os.pread, file.fileno(), min(self._piece, size - place), place)
                    if not data:
                        return False
                    begun = time.monotonic()
                    answer = await tell(wire.Piece(digest, size, place, data))
                    self._pace(time.monotonic() - begun, len(data))
                    if digest in answer.refused:
                        self.refused = answer.refused[digest]
                        return True
                    before, place = place, answer.places.get(digest, 0)
                    if place <= before:  # somebody else sends it, too, or its disk is full
                        await asyncio.sleep(_LOOK_S)
            return True
        return False

    def _pace(self, took_s: float, sent: int) -> None:
        if took_s < _QUICK_S and sent == self._piece:
            self._piece = min(2 * self._piece, wire.MAX_PIECE)
        elif took_s > _SLOW_S:
            self._piece = max(self._piece // 2, _LEAST_PIECE)
