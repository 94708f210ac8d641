"""Which blobs are still to be sent to which hub: a small file for each, so that a new hub goes on where one died.

The keeper's thread adds, the event loop takes away; each does so by one operation on a dict.
"""

import contextlib
import hashlib
import os
import time

from vedette.blobs import MANIFEST, Blobs, is_digest
from vedette.fileio import names, write_private
from vedette.model import Blob, Fact

_ADDRESS = "address"
_LISTING = b"m"  # in the file of a blob that lists others
_LOOKED_FOR = 100  # of the files that one lacks, so that looking is quick
_GIVEN_UP_S = 7 * 86400.0  # bytes that have not come here by then will not


class BlobQueue:
    """The blobs that wait to be sent, by the hub that they are for."""

    def __init__(self, blobs: Blobs) -> None:
        """Read what a hub before this one has left."""
        self._blobs = blobs
        self._root = os.path.join(blobs.root, "outward")
        self._waiting: dict[str, dict[str, bool]] = {}  # by address and digest: does it list others?
        self._stalled: dict[tuple[str, str], list[str]] = {}  # of which all that is here was sent; some that is not
        self.refusing: set[str] = set()  # hubs that take no blobs
        for name in names(self._root):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                with open(os.path.join(self._root, name, _ADDRESS), encoding="utf-8") as file:
                    upstream = file.read(5000)
                for digest in filter(is_digest, names(os.path.join(self._root, name))):
                    with open(os.path.join(self._root, name, digest), "rb") as file:
                        self._waiting.setdefault(upstream, {})[digest] = file.read(1) == _LISTING

    def note(self, upstream: str, facts: list[tuple[int, Fact]]) -> None:
        """Take down the blobs that facts name which go to a hub."""
        for _, fact in facts:
            if isinstance(fact, Blob) and is_digest(fact.digest):
                self._add(upstream, fact.digest, listing=fact.name == MANIFEST)

    def _add(self, upstream: str, digest: str, *, listing: bool) -> None:
        waiting = self._waiting.setdefault(upstream, {})
        if digest in waiting:
            return
        waiting[digest] = listing
        folder = self._folder(upstream)
        with contextlib.suppress(OSError):  # on a full disk this hub alone knows: what is logged must go on
            if not os.path.exists(os.path.join(folder, _ADDRESS)):
                for made in (self._blobs.root, self._root, folder):
                    os.makedirs(made, mode=0o700, exist_ok=True)
                write_private(os.path.join(folder, _ADDRESS), upstream.encode())  # it may hold a token
            write_private(os.path.join(folder, digest), _LISTING if listing else b"")

    def upstreams(self) -> list[str]:
        """Return the hubs that something waits for."""
        return [upstream for upstream, waiting in list(self._waiting.items()) if waiting]

    def of(self, upstream: str) -> list[tuple[str, bool]]:
        """Return what waits for a hub: digests, and whether each lists others."""
        return list(self._waiting.get(upstream, {}).items())

    def all(self) -> list[tuple[str, bool]]:
        """Return all that waits."""
        return [item for upstream in self.upstreams() for item in self.of(upstream)]

    def done(self, upstream: str, digest: str) -> None:
        """Take note that a blob is there, or never will be."""
        self._waiting.get(upstream, {}).pop(digest, None)
        self._stalled.pop((upstream, digest), None)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder(upstream), digest))

    def stall(self, upstream: str, digest: str, absent: list[str]) -> None:
        """Take note that what can be read of a blob, and of what it lists, was sent; `absent` is not here."""
        self._stalled[upstream, digest] = absent[:_LOOKED_FOR]

    def can_go(self, upstream: str, digest: str) -> bool:
        """Tell whether something of it is here that has not been sent."""
        absent = self._stalled.get((upstream, digest))
        return any(self._blobs.size(one) is not None for one in ([digest] if absent is None else absent))

    def give_up_old(self, upstream: str) -> None:
        """Forget the blobs whose bytes, or something that they list, have not come here for a week."""
        for digest, _ in self.of(upstream):
            if self._stalled.get((upstream, digest), [digest]) and not self.can_go(upstream, digest):
                with contextlib.suppress(OSError):
                    if os.stat(os.path.join(self._folder(upstream), digest)).st_mtime < time.time() - _GIVEN_UP_S:
                        self.done(upstream, digest)

    def forget(self, upstream: str) -> None:
        """Forget a hub, which is this one."""
        for digest, _ in self.of(upstream):
            self.done(upstream, digest)

    @property
    def idle(self) -> bool:
        """Whether nothing is here that could be sent."""
        return not any(
            self.can_go(upstream, digest)
            for upstream in self.upstreams()
            if upstream not in self.refusing
            for digest, _ in self.of(upstream)
        )

    def _folder(self, upstream: str) -> str:
        return os.path.join(self._root, hashlib.blake2b(upstream.encode(), digest_size=16).hexdigest())
