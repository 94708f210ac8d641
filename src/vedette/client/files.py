"""Files of a run. A file that it saves is copied under the home; of a file that it uses only the digest is recorded."""

import os
import threading
from typing import Any

from vedette.blobs import Source
from vedette.client import faults
from vedette.client.journal import Journal
from vedette.client.messages import clean_text
from vedette.errors import BlobError
from vedette.fileio import digest_of, open_plain
from vedette.interrupts import let_through
from vedette.media import HEAD_BYTES, media_of

_MAX_NAME = 500
_READ_IN_CALL_BYTES = 64 << 20  # up to this size an input is read in the call itself


class CannotBeKeptError(Exception):
    """A file is refused; the text says why."""


def name_of(source: Any, name: Any) -> str:
    """Return the given name of a file, else its path if it is below the working directory, else its base name."""
    if name is None and isinstance(source, bytes | bytearray | memoryview):
        raise CannotBeKeptError("needs a name: save(bytes, name)")
    if name is None:
        path = os.path.normpath(os.fsdecode(source))
        inside = not os.path.isabs(path) and path.split(os.sep)[0] != os.pardir
        name = path if inside else os.path.basename(path) or path
    text = clean_text(str(name))
    if not text or len(text) > _MAX_NAME:
        raise CannotBeKeptError(f"has a name of {len(text)} characters: 1 to {_MAX_NAME} are allowed")
    return text


def save(journal: Journal, source: Any, name: str) -> str:
    """Copy a file or bytes, and record that they belong to the run; return their digest."""
    try:
        digest, size = journal.blobs.keep(_as_source(source))
        with journal.blobs.open(digest) as file:
            head = file.read(HEAD_BYTES)
    except (BlobError, OSError, ValueError) as error:  # ValueError: a NUL in a path
        raise CannotBeKeptError(_why(error)) from None
    journal.blob(name, digest, size, media_of(head, whole=len(head) == size))
    return digest


def use(journal: Journal, source: Any, name: str) -> None:
    """Record the size and digest of an input; a thread reads a large one, so that the call returns at once."""
    try:
        fd = open_plain(os.fsdecode(source), follow=True)
    except (BlobError, OSError, ValueError) as error:
        raise CannotBeKeptError(_why(error)) from None
    size = os.fstat(fd).st_size
    journal.set(journal.run, {f"data_bytes.{name}": size})
    if size <= _READ_IN_CALL_BYTES:
        _record_digest(journal, fd, name)
        return
    threading.Thread(target=_record_digest, args=(journal, fd, name), name="vedette data", daemon=True).start()


def _record_digest(journal: Journal, fd: int, name: str) -> None:
    try:
        journal.set(journal.run, {f"data.{name}": digest_of(fd)})
    except Exception as error:
        let_through(error)
        faults.swallow(error, "use()")
    finally:
        os.close(fd)


def _as_source(source: Any) -> Source:
    if isinstance(source, bytes | bytearray | memoryview | str):
        return source
    try:
        return os.fsdecode(source)
    except TypeError:
        raise CannotBeKeptError(f"is of type {type(source).__name__}: give a path or bytes") from None


def _why(error: Exception) -> str:
    return f"cannot be kept: {(error.strerror if isinstance(error, OSError) else '') or error}"
