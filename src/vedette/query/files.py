"""The files of a run; of several with the same name, the newest counts."""

from msgspec import Struct

from vedette.errors import NotFoundError
from vedette.store import BlobRow, Reader


class File(Struct, frozen=True):
    """A file that a run has saved; `vedette files` and `Blobs.open` return its bytes, by the digest."""

    name: str
    digest: str
    size: int
    media: str  # as the process that saved it detected; whoever shows the file detects it again
    t: int  # nanoseconds


def files(store: Reader, run: str) -> list[File]:
    """Return the files of a run, sorted by name."""
    newest: dict[str, BlobRow] = {}
    for row in store.blobs(run):
        if row.name not in newest or _rank(row) > _rank(newest[row.name]):
            newest[row.name] = row
    return [File(row.name, row.digest, row.size, row.media, row.t) for _, row in sorted(newest.items())]


def file(store: Reader, run: str, name: str) -> File:
    """Return one file of a run; raise NotFoundError when it has no file of this name."""
    found = files(store, run)
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in found[:10]) + (" ..." if len(found) > 10 else "")
    raise NotFoundError(f"the run has no file {name!r}; it has {known or 'none'}")


def _rank(row: BlobRow) -> tuple[int, str, int, str, str, int, str]:
    return row.t, row.origin, row.n, row.span, row.digest, row.size, row.media
