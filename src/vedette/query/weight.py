"""How many bytes runs take: their rows in the store, and the blobs that they name."""

from collections import defaultdict
from collections.abc import Sequence

from vedette import manifest
from vedette.blobs import Blobs
from vedette.errors import VedetteError
from vedette.ids import above
from vedette.store import BlobRow, Reader

_MOST_MANIFEST = 64 << 20


class Weights:
    """Weighs runs. A blob that several runs name is freed with the last of them, so it counts with that one."""

    def __init__(self, store: Reader, blobs: Blobs) -> None:
        """Read who names which blob."""
        self._store = store
        self._freed: set[str] = set()  # the runs of earlier calls
        self._sizes: dict[str, int] = {}  # of blobs, by digest
        self._holders: dict[str, set[str]] = defaultdict(set)  # by digest: the spans that name it
        self._held: dict[str, set[str]] = defaultdict(set)  # by span: the digests that it and its parts name
        listed: dict[str, dict[str, int]] = {}  # files of code packages, which may share some
        for row in store.blobs():
            found = {row.digest: row.size}
            if row.name == manifest.NAME:
                if row.digest not in listed:
                    listed[row.digest] = _listed(blobs, row)
                found |= listed[row.digest]
            self._sizes |= found
            for digest in found:
                self._holders[digest].add(row.span)
                for span in above(row.span):
                    self._held[span].add(digest)

    def total(self) -> int:
        """Return the bytes of the store and of all blobs that something names."""
        return self._store.weigh() + sum(self._sizes[digest] for digest, spans in self._holders.items() if spans)

    def free(self, runs: Sequence[str]) -> int:
        """Return about how many bytes are freed when these runs are removed after those of earlier calls."""
        new = [run for run in runs if run not in self._freed]
        self._freed.update(new)
        freed = self._store.weigh(new) if new else 0
        gone = set(runs)
        for digest in {digest for run in runs for digest in self._held.get(run, ())}:
            left = {span for span in self._holders[digest] if gone.isdisjoint(above(span))}
            if self._holders[digest] and not left:
                freed += self._sizes[digest]
            self._holders[digest] = left
        return freed


def _listed(blobs: Blobs, row: BlobRow) -> dict[str, int]:
    """Return the files of a code package; none when its manifest is not here."""
    try:
        with blobs.open(row.digest) as file:
            return {entry.digest: entry.size for entry in manifest.read(file.read(_MOST_MANIFEST))}
    except (OSError, VedetteError):
        return {}
