"""Flushes the blobs of a home, counts them, and removes those that nothing names any more.

`step` does a few milliseconds of that between two turns. A blob stays while a fact in the store, a manifest or the
queue of blobs to send names it, and for a while after it was last saved.
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator

from vedette import manifest
from vedette.blobs import YOUNG_S, Blobs, Found
from vedette.errors import StoreError
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.model import Blob, Fact
from vedette.store import Store

_EVERY_S = 3600.0
_AGAIN_S = YOUNG_S + 10.0  # the next sweep, when some blobs were too young to be removed
_SLICE_S = 0.005
_ROWS = 2000  # rows that are read from the store at once


class BlobCollector:
    """Flushes, counts and removes blobs. Flushing is done in a thread, all else in the keeper's."""

    def __init__(self, blobs: Blobs, store: Store, blob_queue: BlobQueue) -> None:
        self.busy = False  # a sweep is going on
        self._blobs = blobs
        self._store = store
        self._queue = blob_queue
        self._due_at = time.monotonic() + _EVERY_S
        self._steps: Iterator[None] = iter(())
        self._unsafe: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._flusher: threading.Thread | None = None

    def note(self, facts: list[tuple[int, Fact]]) -> None:
        """Flush the blobs that facts name; a thread does it, because the disk may be slow."""
        for _, fact in facts:
            if isinstance(fact, Blob):
                self._unsafe.put(fact.digest)
                if self._flusher is None:
                    self._flusher = threading.Thread(target=self._flush, name="flusher", daemon=True)
                    self._flusher.start()

    def _flush(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # a malformed digest, a disk that fails
                self._blobs.flush(self._unsafe.get())

    def ask(self) -> None:
        """Sweep soon: facts that named blobs were deleted."""
        self._due_at = 0.0

    def step(self, all_read: Callable[[], bool]) -> None:
        """Go on with a sweep, or begin one that is due. Stop while records wait unread: they may name a blob."""
        if not self.busy and time.monotonic() < self._due_at:
            return
        if not all_read():
            if self.busy:
                self.ask()  # begin again later
            self.busy = False
            return
        if not self.busy:
            self.busy, self._due_at = True, time.monotonic() + _EVERY_S
            self._steps = self._sweep()
        until = time.monotonic() + _SLICE_S
        try:
            while time.monotonic() < until:
                next(self._steps)
        except StopIteration:
            self.busy = False
        except (OSError, StoreError):  # what names a blob cannot be read: nothing is removed
            self.busy, self._due_at = False, time.monotonic() + _AGAIN_S

    def _sweep(self) -> Iterator[None]:
        if not os.path.isdir(self._blobs.root):
            return
        self._blobs.tidy()
        old: dict[str, Found] = {}
        total = young = 0
        spared, before = self._blobs.spared_until(), time.time() - YOUNG_S
        for found in self._blobs.all():
            total += found.size
            if found.saved >= before:
                young += 1
            elif spared is None or found.saved > spared:
                old[found.digest] = found
            yield
        if old:
            for named in self._named():
                old.pop(named, None)
                yield
        for digest, found in old.items():
            if self._blobs.remove(digest):
                total -= found.size
                self._store.forget_delivered(digest)
            yield
        self._blobs.count(total)
        if young:
            self._due_at = min(self._due_at, time.monotonic() + _AGAIN_S)

    def _named(self) -> Iterator[str]:
        """Yield every digest that must stay, some more than once; raise OSError when a manifest cannot be read."""
        manifests = set()
        after = None
        while rows := self._store.blobs(after=after, limit=_ROWS):
            after = rows[-1].key
            for row in rows:
                yield row.digest
                if row.name == manifest.NAME:
                    manifests.add(row.digest)
        for digest in manifests:
            yield from self._blobs.listed(digest, surely=True)
        for digest, lists in self._queue.all():
            yield digest
            if lists:
                yield from self._blobs.listed(digest, surely=True)
