"""Files of a run: what it saves is copied under the home, of what it uses the digest is put on record."""

import os
import threading
from typing import Any

from vedette.blobs import Source
from vedette.client import faults
from vedette.client.journal import Journal
from vedette.client.messages import sound
from vedette.errors import BlobError
from vedette.fileio import digest_of, open_plain
from vedette.media import HEAD_BYTES, media_of

_MOST_NAME = 500
_AT_ONCE_BYTES = 64 << 20  # of an input are read in the call itself


class CannotBeKeptError(Exception):
    """A file is turned away; the text says why."""


def name_of(source: Any, name: Any) -> str:
    """Return what a file is called: as it was said, else its path, as far as that lies below the working directory."""
    if name is None and isinstance(source, bytes | bytearray | memoryview):
        raise CannotBeKeptError("needs a name: save(bytes, name)")
    if name is None:
        path = os.path.normpath(os.fsdecode(source))
        inside = not os.path.isabs(path) and path.split(os.sep)[0] != os.pardir
        name = path if inside else os.path.basename(path) or path
    text = sound(str(name))
    if not text or len(text) > _MOST_NAME:
        raise CannotBeKeptError(f"has a name of {len(text)} letters: one to {_MOST_NAME} are kept")
    return text


def save(journal: Journal, source: Any, name: str) -> str:
    """Copy a file or bytes, and say that the run has them; return their digest."""
    try:
        digest, size = journal.blobs.keep(_sourced(source))
        with journal.blobs.open(digest) as file:
            head = file.read(HEAD_BYTES)
    except (BlobError, OSError, ValueError) as error:  # ValueError: a NUL in a path
        raise CannotBeKeptError(_why(error)) from None
    journal.blob(name, digest, size, media_of(head, whole=len(head) == size))
    return digest


def use(journal: Journal, source: Any, name: str) -> None:
    """Say which bytes an input has; those of a large one are read by a thread, and the call goes on."""
    try:
        fd = open_plain(os.fsdecode(source), follow=True)
    except (BlobError, OSError, ValueError) as error:
        raise CannotBeKeptError(_why(error)) from None
    size = os.fstat(fd).st_size
    journal.set(journal.run, {f"data_bytes.{name}": size})
    if size <= _AT_ONCE_BYTES:
        _digest(journal, fd, name)
        return
    threading.Thread(target=_digest, args=(journal, fd, name), name="vedette data", daemon=True).start()


def _digest(journal: Journal, fd: int, name: str) -> None:
    try:
        journal.set(journal.run, {f"data.{name}": digest_of(fd)})
    except Exception as error:
        faults.swallow(error, "use()")
    finally:
        os.close(fd)


def _sourced(source: Any) -> Source:
    if isinstance(source, bytes | bytearray | memoryview | str):
        return source
    try:
        return os.fsdecode(source)
    except TypeError:
        raise CannotBeKeptError(f"is of type {type(source).__name__}: a path or bytes can be kept") from None


def _why(error: Exception) -> str:
    return f"cannot be kept: {(error.strerror if isinstance(error, OSError) else '') or error}"
