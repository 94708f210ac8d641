"""The queue of blobs that are to be sent to other hubs: one small file each, so that it survives a killed hub.

The keeper's thread adds and the event loop removes, each by a single operation on a dict.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable

from vedette import manifest
from vedette.blobs import Blobs, is_digest
from vedette.fileio import make_private_directory, names, write_private
from vedette.model import Blob, Fact

_ADDRESS = "address"
_LISTING = b"m"  # the content of the small file, if the blob lists others
_MOST_ABSENT = 100  # missing digests that are remembered of one blob: checking them must be quick
_GIVEN_UP_S = 7 * 86400.0  # a blob whose bytes are not here by then is forgotten


class BlobQueue:
    """The blobs that wait to be sent, by the address of their hub."""

    def __init__(self, blobs: Blobs) -> None:
        """Read the queue that the last hub of this home has left."""
        self._blobs = blobs
        self._root = os.path.join(blobs.root, "outward")
        self._waiting: dict[str, dict[str, bool]] = {}  # by address and digest: whether it lists others
        self._stalled: dict[tuple[str, str], list[str]] = {}  # by address and digest: the digests still missing here
        self.refusing: set[str] = set()  # addresses of hubs that take no blobs
        for name in names(self._root):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                with open(os.path.join(self._root, name, _ADDRESS), encoding="utf-8") as file:
                    upstream = file.read(5000)
                for digest in filter(is_digest, names(os.path.join(self._root, name))):
                    with open(os.path.join(self._root, name, digest), "rb") as file:
                        self._waiting.setdefault(upstream, {})[digest] = file.read(1) == _LISTING

    def note(self, upstream: str, facts: list[tuple[int, Fact]]) -> None:
        """Queue the blobs that are named by facts for a hub."""
        for _, fact in facts:
            if isinstance(fact, Blob) and is_digest(fact.digest):
                self._add(upstream, fact.digest, listing=fact.name == manifest.NAME)

    def _add(self, upstream: str, digest: str, *, listing: bool) -> None:
        waiting = self._waiting.setdefault(upstream, {})
        if digest in waiting:
            return
        waiting[digest] = listing
        folder = self._folder(upstream)
        with contextlib.suppress(OSError):  # the disk is full: only the memory of this hub knows of it then
            if not os.path.exists(os.path.join(folder, _ADDRESS)):
                for made in (self._blobs.root, self._root, folder):
                    make_private_directory(made)
                write_private(os.path.join(folder, _ADDRESS), upstream.encode())  # it may hold a token
            write_private(os.path.join(folder, digest), _LISTING if listing else b"", flush=False)

    def upstreams(self) -> list[str]:
        """Return the addresses that blobs wait for."""
        return [upstream for upstream, waiting in list(self._waiting.items()) if waiting]

    def of(self, upstream: str) -> list[tuple[str, bool]]:
        """Return what waits for a hub: digests, and whether each blob lists others."""
        return list(self._waiting.get(upstream, {}).items())

    def all(self) -> list[tuple[str, bool]]:
        """Return what waits for any hub."""
        return [item for upstream in self.upstreams() for item in self.of(upstream)]

    def done(self, upstream: str, digest: str) -> None:
        """Remove a blob from the queue: it was sent, refused or given up."""
        self._waiting.get(upstream, {}).pop(digest, None)
        self._stalled.pop((upstream, digest), None)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder(upstream), digest))

    def stall(self, upstream: str, digest: str, absent: list[str]) -> None:
        """Note that a blob, and what it lists, was sent as far as it is here; `absent` are the missing digests."""
        self._stalled[upstream, digest] = absent[:_MOST_ABSENT]

    def can_go(self, upstream: str, digest: str) -> bool:
        """Tell whether the blob, or one that it lists, is here and has not been sent."""
        absent = self._stalled.get((upstream, digest))
        return any(self._blobs.size(one) is not None for one in ([digest] if absent is None else absent))

    def give_up_old(self, upstream: str, digests: Iterable[str]) -> None:
        """Remove those of these blobs that have waited for a week for bytes that are not here."""
        folder = self._folder(upstream)
        for digest in digests:
            with contextlib.suppress(OSError):
                is_old = os.stat(os.path.join(folder, digest)).st_mtime < time.time() - _GIVEN_UP_S
                if is_old and self._stalled.get((upstream, digest), [digest]) and not self.can_go(upstream, digest):
                    self.done(upstream, digest)

    def forget(self, upstream: str) -> None:
        """Remove all blobs for a hub, because it is this one."""
        for digest, _ in self.of(upstream):
            self.done(upstream, digest)

    @property
    def idle(self) -> bool:
        """Whether nothing can be sent now."""
        return not any(
            self.can_go(upstream, digest)
            for upstream in self.upstreams()
            if upstream not in self.refusing
            for digest, _ in self.of(upstream)
        )

    def _folder(self, upstream: str) -> str:
        return os.path.join(self._root, hashlib.blake2b(upstream.encode(), digest_size=16).hexdigest())
