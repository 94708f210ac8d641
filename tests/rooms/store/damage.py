"""Stores that are damaged on purpose: which pages a table has, and how they are overwritten."""

import contextlib
import os
import sqlite3
import struct

from tests.rooms.conftest import Maker
from vedette.model import Blob
from vedette.store.sqlite import SqliteStore

PAGE = 4096
RUNS = [f"r{number}" for number in range(8)]
POINTS, LINES = 1200, 60


def make_store(path):
    """Make a store with eight runs, each with two series, some lines and a file."""
    store = SqliteStore(str(path))
    make = Maker(store)
    for run in RUNS:
        make.run(run, f"name of {run}", config={"lr": 0.1})
        make.points(run, "loss", [1 / (1 + step) for step in range(POINTS)])
        make.points(run, "acc", [step * 0.001 for step in range(POINTS)])
        make.events(run, *(f"line {number} of {run}, which says nothing of interest" for number in range(LINES)))
        make.facts(run, Blob(run, 1, "weights", "ab" * 32, 5))
    store.close()
    return str(path)


def pages_of(path, table):
    """Return the pages of a table or index, the root first, without those that only continue a row."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as store:
        [(root,)] = store.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
    with open(path, "rb") as file:
        data = file.read()
    return _below(data, root)


def _below(data, page):
    begin = (page - 1) * PAGE
    kind, _, cells, _, _ = struct.unpack_from(">BHHHB", data, begin)
    if kind not in (2, 5):  # a leaf
        return [page]
    at = struct.unpack_from(f">{cells}H", data, begin + 12)
    children = [struct.unpack_from(">I", data, begin + cell)[0] for cell in at]
    children.append(struct.unpack_from(">I", data, begin + 8)[0])
    return [page, *(found for child in children for found in _below(data, child))]


def overwrite(path, *pages, fill=b"\xff"):
    """Overwrite pages of a store."""
    with open(path, "r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(fill * PAGE)


def as_directory(path):
    os.unlink(path)
    os.mkdir(path)


def as_newer(path):
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA user_version = 99")


def as_garbage(path):
    with open(path, "wb") as file:
        file.write(b"this is not a database, however one looks at it\n" * 200)


# What makes a store unreadable as a whole.
RUINS = {
    "first page": lambda path: overwrite(path, 1),
    "no header": lambda path: overwrite(path, 1, fill=b"\0"),
    "spans": lambda path: overwrite(path, *pages_of(path, "spans")),
    "cut short": lambda path: os.truncate(path, 40 * PAGE),
    "cut in its header": lambda path: os.truncate(path, 60),
    "garbage": as_garbage,
    "directory": as_directory,
    "newer": as_newer,
}

# What makes a part of it unreadable, and the tables that have it.
HOLES = {
    "events": lambda path: overwrite(path, pages_of(path, "events")[1]),
    "search": lambda path: overwrite(path, *pages_of(path, "events_text_data")),
    "chunks": lambda path: overwrite(path, *pages_of(path, "chunks")),
    "axes": lambda path: overwrite(path, *pages_of(path, "axes")),
    "series": lambda path: overwrite(path, *pages_of(path, "series")),
    "origins": lambda path: overwrite(path, *pages_of(path, "origins")),
    "blobs": lambda path: overwrite(path, *pages_of(path, "blobs")),
}
