"""Runs as one file: a header, a small store of plain tables (decisions/006), and files by digest.

Nothing in it can run: it has no views, triggers or full-text index. An archive may come from anybody. So it is
unpacked into a file of our own while its digest is computed, and read only if its schema is exactly ours.
"""

import hashlib
import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import BinaryIO

from vedette.blobs import Blobs
from vedette.errors import BlobError, DamagedError, FormatError, OldStoreError, StoreError, VersionError
from vedette.store.sqlite_connection import explained
from vedette.store.sqlite_file import STEPS, add_schema, quoted
from vedette.store.sqlite_read import SqliteReader

MAGIC = b"vedette archive\n"
PLAIN_VERSION = 1  # only a store, which every vedette can read
VERSION = 2  # a store, and files after it
MOST_BYTES = 64 << 30
_HEAD = struct.Struct("<16sHHQ32s")  # magic, version of this header and of the store, the store's length and digest
_FILES = struct.Struct("<QQ")  # after the store: the number of files, and their bytes in total
_FILE = struct.Struct("<32sQ")  # before each file: its sha256 and its size
_BLOCK = 1 << 20
_MOST_VALUE_BYTES = 32 << 20


def pack(
    store_path: str, archive_path: str, files: Mapping[str, int] | None = None, blobs: Blobs | None = None
) -> None:
    """Write an archive: a header, a store of plain tables, and the files with these digests and sizes."""
    files = dict(sorted((files or {}).items())) if blobs is not None else {}
    size = os.stat(store_path).st_size
    digest = hashlib.blake2b(digest_size=32)
    with open(store_path, "rb") as source, open(archive_path, "wb") as file:
        file.write(bytes(_HEAD.size))
        while block := source.read(_BLOCK):
            at = source.tell() - len(block)
            if at == 0:  # make SQLite's change counters and its version the same in every archive
                block = block[:24] + struct.pack(">I", 1) + block[28:92] + struct.pack(">II", 1, 0) + block[100:]
            digest.update(block)
            file.write(block)
        if files and blobs is not None:
            file.write(_FILES.pack(len(files), sum(files.values())))
            for name, length in files.items():
                file.write(_FILE.pack(bytes.fromhex(name), length))
                _put(blobs, name, length, file)
        file.seek(0)
        version = VERSION if files else PLAIN_VERSION
        file.write(_HEAD.pack(MAGIC, version, len(STEPS), size, digest.digest()))
        file.flush()
        os.fsync(file.fileno())


def _put(blobs: Blobs, digest: str, size: int, file: BinaryIO) -> None:
    left = size
    with blobs.open(digest) as source:
        while left and (block := source.read(min(_BLOCK, left))):
            file.write(block)
            left -= len(block)
    if left:
        raise StoreError(f"the bytes of {digest[:12]} are incomplete in this home")


def unpack(
    archive_path: str, store_path: str, blobs: Blobs | None = None, notes: list[str] | None = None
) -> Iterator[int]:
    """Write the store of an archive to `store_path`; yield how many bytes are done; raise if it is not sound.

    Its files go to `blobs`, each if its digest is right; `notes` gets a sentence on each that is over a limit.
    """
    with open(archive_path, "rb") as file, open(store_path, "xb") as into:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or head[: len(MAGIC)] != MAGIC:
            raise FormatError(f"{archive_path} is not an archive of vedette")
        _, version, inside, size, wanted = _HEAD.unpack(head)
        if version > VERSION or inside > len(STEPS):
            raise VersionError(
                f"{archive_path} was written by a newer vedette (archive {version}, store {inside};"
                f" this one reads up to {VERSION} and {len(STEPS)}): upgrade vedette"
            )
        there = os.fstat(file.fileno()).st_size
        whole = there >= _HEAD.size + size + _FILES.size if version > PLAIN_VERSION else there == _HEAD.size + size
        if size > MOST_BYTES or not whole:
            raise FormatError(f"{archive_path} is not as long as it says: it was cut short, or something was added")
        digest = hashlib.blake2b(digest_size=32)
        done = 0
        while done < size and (block := file.read(min(_BLOCK, size - done))):
            digest.update(block)
            into.write(block)
            done += len(block)
            yield done
        if done != size or digest.digest() != wanted:
            raise FormatError(f"{archive_path} is damaged: its digest does not match")
        if version > PLAIN_VERSION:
            for more in _take_files(file, archive_path, blobs, [] if notes is None else notes):
                yield done + more
    with closing(sqlite3.connect(f"file:{quoted(store_path)}?mode=ro&immutable=1", uri=True)) as found:
        if _check_schema(found, archive_path, whole=True) != inside:
            raise FormatError(f"{archive_path} is damaged: the store inside has another version than its header says")


def _take_files(file: BinaryIO, path: str, blobs: Blobs | None, notes: list[str]) -> Iterator[int]:
    count, total = _FILES.unpack(file.read(_FILES.size))
    begun = file.tell()
    end = begun + count * _FILE.size + total
    if os.fstat(file.fileno()).st_size != end:
        raise FormatError(f"{path} is not as long as it says: it was cut short, or something was added")
    for _ in range(count):
        head = file.read(_FILE.size)
        if len(head) < _FILE.size:
            raise FormatError(f"{path} is damaged: a file in it has no header")
        name, size = _FILE.unpack(head)
        behind = file.tell() + size
        if behind > end:
            raise FormatError(f"{path} is damaged: a file in it is longer than the archive")
        if blobs is not None and blobs.size(name.hex()) != size:
            try:
                blobs.check_room(size)
                for _ in blobs.take(file, size, name.hex()):
                    yield file.tell() - begun
            except BlobError as error:
                notes.append(f"a file was not taken in: {error}")
        file.seek(behind)
        yield behind - begun


def open_careful(path: str, shown_path: str, mode: str = "mode=ro") -> SqliteReader:
    """Open a store that anybody may have made; raise FormatError unless its tables are ours.

    `mode`: of SQLite's URI; a store of an older version must be opened writable, and is brought up to date.
    """
    connection = sqlite3.connect(
        f"file:{quoted(path)}?{mode}", uri=True, timeout=10, isolation_level=None, check_same_thread=False
    )
    try:
        if _check_schema(connection, shown_path, whole=False) < len(STEPS):
            if "mode=rw" not in mode:
                raise OldStoreError(f"{shown_path} is a store of an older version, and cannot be changed where it is")
            add_schema(connection)
    except BaseException:
        connection.close()
        raise
    return SqliteReader(connection)


def set_careful(connection: sqlite3.Connection) -> None:
    """Have a connection doubt what is in its file."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)


def _check_schema(connection: sqlite3.Connection, path: str, *, whole: bool) -> int:
    """Return the version of a store; raise FormatError unless it has our tables and indexes, letter by letter.

    `whole`: it must have nothing else.
    """
    try:
        set_careful(connection)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        found = _schema(connection)
    except sqlite3.Error as error:
        kind = DamagedError if isinstance(explained(error), DamagedError) else FormatError
        raise kind(f"{path} cannot be read as a store: {error}") from None
    if version > len(STEPS):
        raise VersionError(
            f"{path} is a store of version {version}, and this vedette reads up to {len(STEPS)}: upgrade"
        )
    with closing(sqlite3.connect(":memory:")) as fresh:
        add_plain_schema(fresh, version)
        ours = _schema(fresh)
    if version < 1 or not ours <= found or (whole and found != ours):
        raise FormatError(f"{path} is not a store of vedette: it has other tables")
    return version


def _schema(connection: sqlite3.Connection) -> set[tuple[str, str, str, str | None]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def add_plain_schema(connection: sqlite3.Connection, version: int = len(STEPS)) -> None:
    """Create the tables and indexes of a store, without views, triggers and the full-text index."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as whole:
        add_schema(whole, STEPS[:version])
        plain = whole.execute(
            "SELECT sql FROM sqlite_schema WHERE sql NOT NULL AND type IN ('table', 'index')"
            " AND tbl_name NOT LIKE 'events\\_text%' ESCAPE '\\'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type DESC, name"
        ).fetchall()
    for (sql,) in plain:
        connection.execute(sql)
    connection.execute(f"PRAGMA user_version = {version}")
