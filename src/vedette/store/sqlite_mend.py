"""Makes a copy of a damaged store one that SQLite opens: it gets its length, and a schema if its own is unreadable.

What is in the pages that were damaged stays lost: `sqlite_salvage` reads around them.
"""

import contextlib
import os
import sqlite3
import struct
from contextlib import closing

from vedette.store.sqlite_file import VERSION, add_schema, quoted

MAGIC = b"SQLite format 3\0"
_PAGE = 4096
_HEADER = struct.Struct(">16sHBBBBBBIIIIIIIIIIII20xII")  # as SQLite's documentation of its file format has it
_PAGES = 9  # in the header: how many there are
_LEAF = struct.Struct(">BHHHB")  # of the first page: no rows yet
_MOST_PAGES = 1 << 28
_PLAIN = "type IN ('table', 'index') AND coalesce(sql, '') NOT LIKE 'CREATE VIRTUAL%'"


def mend(path: str) -> None:
    """Change a copy of a store so that it can be opened."""
    with open(path, "rb") as file:
        head = file.read(_HEADER.size)
    if len(head) == _HEADER.size and head.startswith(MAGIC):
        pages = _HEADER.unpack(head)[_PAGES]
        if os.stat(path).st_size < pages * _PAGE and pages < _MOST_PAGES:  # SQLite opens none that was cut short
            os.truncate(path, pages * _PAGE)
    if not _has_schema(path):
        _clear_first_page(path)
    if not _has_schema(path):  # else its log had it
        _write_schema(path)


def _has_schema(path: str) -> bool:
    with closing(_open(path)) as connection, contextlib.suppress(sqlite3.Error):
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        return found.issuperset(name for _, name, *_ in _schema())
    return False


def _clear_first_page(path: str) -> None:
    pages = max(-(-os.stat(path).st_size // _PAGE), len(_schema()) + 3)
    header = _HEADER.pack(MAGIC, _PAGE, 2, 2, 0, 64, 32, 32, 1, pages, 0, 0, 1, 4, 0, 0, 1, VERSION, 0, 0, 1, 0)
    with open(path, "r+b") as file:
        file.write((header + _LEAF.pack(13, 0, 0, _PAGE, 0)).ljust(_PAGE, b"\0"))
    os.truncate(path, pages * _PAGE)


def _write_schema(path: str) -> None:
    with closing(_open(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", _schema())


def _schema() -> list[tuple[str, str, str, int, str | None]]:
    """Return the tables and indexes of a store: with auto_vacuum, their roots are at the same pages in every store."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        fresh.execute("PRAGMA auto_vacuum = INCREMENTAL")
        add_schema(fresh)
        return fresh.execute(
            f"SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE {_PLAIN} ORDER BY rootpage"
        ).fetchall()


def _open(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quoted(path)}?mode=rw", uri=True, isolation_level=None)
