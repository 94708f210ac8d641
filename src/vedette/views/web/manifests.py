"""Which files the code of runs is made of, by their digests: who has a link to a run may read these."""

import contextlib

from vedette import manifest
from vedette.access.home_access import HomeAccess
from vedette.errors import FormatError


class Manifests:
    """Which blobs manifests of code list: a manifest never changes, so each is read once."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._known: dict[str, frozenset[str]] = {}

    def digests(self, home: HomeAccess, digest: str) -> frozenset[str]:
        """Return what a manifest lists; nothing if it cannot be read."""
        if digest not in self._known:
            found: frozenset[str] = frozenset()
            with contextlib.suppress(FormatError):
                found = frozenset(entry.digest for entry in manifest.read(home.read_blob(digest) or b"[]"))
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[digest] = found
        return self._known[digest]
