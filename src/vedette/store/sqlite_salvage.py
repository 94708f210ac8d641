"""Saves what can be read of a damaged store: its rows go to a new one, around the pages that cannot be read.

A table is read in the order of its key. Where that fails, reading goes on behind the bad page: at the next number that
can be read, or at the next span that another table names. What a store has twice stands in for what is lost: a span's
attributes and state for its writes and claims, the index of a table for its names.
"""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import msgspec

from vedette import wire
from vedette.errors import FormatError
from vedette.model import HUB, KINDS
from vedette.store import archive
from vedette.store.sqlite_file import VERSION, quoted
from vedette.store.sqlite_mend import mend

_NUMBERED = ("origins", "events", "series", "axes", "chunks")  # their key is `id`
_KEYED = {"spans": "id", "claims": "span", "writes": "span", "progress": "span", "blobs": "span", "marks": "origin"}
_INDEXED = (  # what indexes have of their tables
    ("origins", ("id", "name")), ("series", ("id", "span", "name", "tags")), ("spans", ("id", "kind")),
    ("spans", ("id", "parent")),
)  # fmt: skip
_DEFAULTS = {"host": "", "boot": "", "pid": 0, "started": 0, "span": "", "process": ""}
_SPANS = (  # where the id of a span stands
    ("spans", "id"), ("claims", "span"), ("writes", "span"), ("progress", "span"), ("blobs", "span"),
    ("series", "span"), ("events", "span"), ("origins", "span"), ("origins", "process"),
)  # fmt: skip
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "REAL": (int, float), "BLOB": (bytes,)}
_STEP_ROWS = 200
_BEYOND = 1 << 62
_SALVAGED = "salvaged"  # the origin of what was said by records that cannot be read


def salvage(path: str, into: str) -> Iterator[Counter[str]]:
    """Save what can be read of a copy of a store, which this changes; yield how much was left out so far.

    That is the number of rows, by table, as far as it is known. Raise FormatError when nothing can be read.
    """
    mend(path)
    left_out: Counter[str] = Counter()
    with closing(_open(path)) as source, closing(sqlite3.connect(into, isolation_level=None)) as target:
        for setting in ("journal_mode = OFF", "synchronous = OFF"):
            target.execute(f"PRAGMA {setting}")
        version = int(source.execute("PRAGMA user_version").fetchone()[0])
        archive.add_plain_schema(target, version if 0 < version <= VERSION else VERSION)
        damaged = _Damaged(source, left_out)
        for table in (*_NUMBERED, *_KEYED):
            rows = damaged.numbered(table) if table in _NUMBERED else damaged.keyed(table, _KEYED[table])
            for _ in _copy(rows, target, table, left_out):
                yield left_out
        del left_out["spans"]  # what they say follows from their claims and writes
        for table, columns in _INDEXED:
            _put(target, table, columns, damaged.either_way(table, columns[1], columns))
        _restate(target)
        if target.execute("SELECT 1 FROM spans UNION ALL SELECT 1 FROM axes LIMIT 1").fetchone() is None:
            raise FormatError("nothing of it can be read as a store")
    yield left_out


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quoted(path)}?mode=rw", uri=True, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    archive.set_careful(connection)
    return connection


class _Damaged:
    """Reads the tables of a damaged store."""

    def __init__(self, source: sqlite3.Connection, left_out: Counter[str]) -> None:
        self._source = source
        self._left_out = left_out
        self._spans: list[str] | None = None

    def numbered(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table with numbers."""
        after = 0
        while True:
            try:
                for row in self._source.execute(f"SELECT * FROM {table} WHERE id > ? ORDER BY id", (after,)):
                    yield row
                    after = row[0]
                return
            except sqlite3.Error:
                number = self._next_number(table, after)
                self._left_out[table] += 1 if number is None else number - after - 1
                if number is None:
                    return
                after = number - 1

    def _next_number(self, table: str, after: int) -> int | None:
        """Return the first number behind a bad page: ever further ahead, and then back half by half."""
        bad, good = after + 1, after + 2
        while self._at(table, good) is False:
            bad, good = good, after + 2 * (good - after)
            if good > _BEYOND:
                return None
        while good - bad > 1:
            middle = (bad + good) // 2
            if self._at(table, middle) is False:
                bad = middle
            else:
                good = middle
        number = self._at(table, good)
        return number if number is not False else None

    def _at(self, table: str, number: int) -> "int | bool | None":
        """Return the number of the first row from one on, None if there is no more, False if it cannot be read."""
        try:
            row = self._source.execute(f"SELECT * FROM {table} WHERE id >= ? ORDER BY id LIMIT 1", (number,)).fetchone()
        except sqlite3.Error:
            return False
        return None if row is None else int(row[0])

    def keyed(self, table: str, key: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table without numbers, some of them twice."""
        query = f"SELECT * FROM {table}"
        known = iter(self._known(table))
        at: Any = None
        while True:
            try:
                which = "" if at is None else f" WHERE {key} >= ?"
                for row in self._source.execute(f"{query}{which} ORDER BY {key}", () if at is None else (at,)):
                    yield row
                    at = row[0]
                return
            except sqlite3.Error:
                self._left_out[table] += 1
                last, at = at, next((one for one in known if at is None or one > at), None)
                if at is None:
                    break
        with contextlib.suppress(sqlite3.Error):
            rows = self._source.execute(f"{query} ORDER BY {key} DESC")
            while (some := rows.fetchone()) is not None and (last is None or some[0] > last):
                yield some

    def _known(self, table: str) -> Sequence[Any]:
        """Return the keys that a table may have, sorted."""
        if table == "marks":
            return sorted({row[0] for row in self.either_way("origins", "id", ("id",))})
        if self._spans is None:
            found: set[str] = set()
            for other, column in _SPANS:
                found |= {row[0] for row in self.either_way(other, column, (column,)) if isinstance(row[0], str)}
            self._spans = sorted(found)
        return self._spans

    def either_way(self, table: str, by: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table as far as they can be read from its beginning and from its end."""
        for order in ("", " DESC"):
            with contextlib.suppress(sqlite3.Error):
                yield from self._source.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {by}{order}")


def _copy(
    rows: Iterable[tuple[Any, ...]], target: sqlite3.Connection, table: str, left_out: Counter[str]
) -> Iterator[None]:
    """Copy rows, in steps; leave out those with values of another type than their columns have."""
    columns = target.execute(f"PRAGMA table_info({table})").fetchall()
    forms = [(_TYPES.get(kind, (object,)), not needed) for _, _, kind, needed, *_ in columns]
    put = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"
    rows = iter(rows)
    while some := list(islice(rows, _STEP_ROWS)):
        sound = [row for row in some if _fits(row, forms)]
        left_out[table] += len(some) - len(sound)
        target.executemany(put, sound)
        yield


def _fits(row: tuple[Any, ...], forms: list[tuple[tuple[type, ...], bool]]) -> bool:
    if len(row) != len(forms):
        return False
    pairs = zip(row, forms, strict=True)
    return all(isinstance(value, types) or (value is None and may_lack) for value, (types, may_lack) in pairs)


def _put(target: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Add rows that are not there, or a value that a row lacks; only these columns are known."""
    others = _DEFAULTS if table == "origins" else {}
    names = (*columns, *others)
    put = (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) ON CONFLICT DO"
        f" UPDATE SET {columns[1]} = excluded.{columns[1]} WHERE {columns[1]} = ''"
    )
    with contextlib.suppress(sqlite3.Error):
        target.executemany(put, [(*row, *others.values()) for row in rows])


def _restate(target: sqlite3.Connection) -> None:
    """Say again of each span what its row says, if its writes or claims are lost; and list spans without a row."""
    for table in ("claims", "writes", "progress"):
        target.execute(f"INSERT OR IGNORE INTO spans (id) SELECT DISTINCT span FROM {table}")
    lost = "SELECT id, kind, name, parent, attrs FROM spans WHERE kind <> '' AND id NOT IN (SELECT span FROM writes)"
    for span, kind, name, parent, attrs in target.execute(lost).fetchall():
        said: dict[str, Any] = {}
        with contextlib.suppress(msgspec.DecodeError):
            said = msgspec.json.decode(attrs, type=dict[str, Any])
        packed = wire.encode({"kind": kind, "name": name, "parent": parent, **said})
        target.execute(
            "INSERT INTO writes (span, origin, n, t, attrs) VALUES (?, ?, 0, 0, ?)", (span, _SALVAGED, packed)
        )
    lost = "SELECT id, kind, state, cause, start_t, end_t FROM spans WHERE state <> ''"
    lost += " AND id NOT IN (SELECT span FROM claims)"
    for span, kind, state, cause, start_t, end_t in target.execute(lost).fetchall():
        claims = [(state, start_t if end_t is None else end_t, cause)]
        if end_t is not None and start_t is not None and kind in KINDS:
            claims.append((KINDS[kind].climbing[-1], start_t, ""))
        target.executemany(
            "INSERT OR IGNORE INTO claims (span, state, t, voice, origin, cause) VALUES (?, ?, ?, ?, ?, ?)",
            [(span, state, t or 0, HUB, _SALVAGED, cause) for state, t, cause in claims],
        )
