"""Runs of a store, copied into an archive whose bytes depend only on their content (decisions/006).

Two homes that have the same records of a run write the same bytes, however each has sealed, merged or numbered them:
rows are sorted by content and numbered anew, and points are cut into chunks of equal length.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedette import manifest
from vedette.blobs import Blobs, is_digest
from vedette.errors import NotFoundError, StoreError
from vedette.ids import range_below
from vedette.model import LANE_FACTS, LANE_SAMPLES, PURGED
from vedette.store import archive, chunks
from vedette.store.points import MERGED
from vedette.store.sqlite_read import SqliteReader

_PLAIN = {  # tables that are copied unchanged, sorted by these keys
    "spans": "id",
    "claims": "span, state, t, voice, origin, cause",
    "writes": "span, origin, n",
    "progress": "span, origin",
    "blobs": "span, name, origin, n",
}
_BY_NAME = ("claims", "writes", "progress", "blobs")  # with the names of origins; events and axes have numbers


def write_archive(
    source: SqliteReader, runs: Iterable[str], path: str, shown: Callable[[int], None], blobs: Blobs | None = None
) -> list[str]:
    """Write runs, with all spans below them, as one archive; call `shown` with the number of points done so far.

    Their files come from `blobs`; return the digests of those that are missing.
    """
    plain = path + ".store"
    try:
        with closing(sqlite3.connect(plain, isolation_level=None)) as target:
            os.chmod(plain, 0o600)
            for setting in ("journal_mode = OFF", "synchronous = OFF", "secure_delete = ON", "page_size = 4096"):
                target.execute(f"PRAGMA {setting}")
            target.execute("BEGIN")
            archive.add_plain_schema(target)
            source.connection.execute("BEGIN")
            try:
                _Copy(source.connection, target, shown).copy(list(runs))
            finally:
                source.connection.rollback()
            target.execute("COMMIT")
            files, missing = _files(target, blobs) if blobs is not None else ({}, [])
        archive.pack(plain, path, files, blobs)
        return missing
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be written: {error}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(plain)


def _files(target: sqlite3.Connection, blobs: Blobs) -> tuple[dict[str, int], list[str]]:
    """Return the sizes of the files that rows and manifests name, and the digests of those that are missing."""
    sizes: dict[str, int] = {}
    missing: set[str] = set()
    for name, digest, size in target.execute("SELECT DISTINCT name, digest, size FROM blobs").fetchall():
        for one in (digest, *(blobs.listed(digest) if name == manifest.NAME and is_digest(digest) else ())):
            here = blobs.size(one) if is_digest(one) else None
            if here is None or (one == digest and here != size):
                missing.add(one)
            else:
                sizes[one] = here
    return sizes, sorted(missing - sizes.keys())


# `heard_t` is what one hub observed, so it differs between homes; the time of an origin's last record does not.
_HEARD = """
UPDATE origins SET heard_t = spoke.t FROM (
  SELECT name, max(t) AS t FROM (
    SELECT origin AS name, t FROM claims UNION ALL SELECT origin, t FROM writes UNION ALL SELECT origin, t FROM progress
    UNION ALL SELECT name, t FROM events JOIN origins ON origins.id = origin
    UNION ALL SELECT name, last_t * 1000 FROM axes JOIN origins ON origins.id = origin
  ) GROUP BY name
) AS spoke WHERE spoke.name = origins.name
"""


class _Copy:
    def __init__(self, source: sqlite3.Connection, target: sqlite3.Connection, shown: Callable[[int], None]) -> None:
        self._source = source
        self._target = target
        self._shown = shown
        self._points = 0

    def copy(self, runs: list[str]) -> None:
        ask, put = self._source.execute, self._target.executemany
        self._choose(runs)
        for table, order in _PLAIN.items():
            key = "id" if table == "spans" else "span"
            rows = ask(f"SELECT * FROM {table} WHERE {key} IN (SELECT id FROM wanted) ORDER BY {order}")
            names = [column[0] for column in rows.description]
            put(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", rows)
        self._copy_origins()
        rows = ask(
            "SELECT events.span, t, kind, level, text, attrs, copied_origins.number, n FROM events"
            " JOIN copied_origins ON copied_origins.id = events.origin WHERE events.span IN (SELECT id FROM wanted)"
            " ORDER BY t, copied_origins.number, n"
        )
        put(
            "INSERT INTO events (id, span, t, kind, level, text, attrs, origin, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((number, *row) for number, row in enumerate(rows, 1)),
        )
        self._copy_series()
        for theirs, ours in ask("SELECT id, number FROM copied_origins ORDER BY number").fetchall():
            self._copy_points(theirs, ours)
        self._target.execute(_HEARD)

    def _choose(self, runs: list[str]) -> None:
        """Find all spans below the runs, by parent or by id, without those that were purged."""
        ask = self._source.execute
        ask("DROP TABLE IF EXISTS temp.wanted")
        ask("CREATE TEMP TABLE wanted (id TEXT PRIMARY KEY)")
        new = set(runs)
        while new:
            self._source.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", [(id_,) for id_ in new])
            found = set()
            for id_ in new:
                found |= {row[0] for row in ask("SELECT id FROM spans WHERE parent = ?", (id_,))}
                for table, column in (("spans", "id"), ("series", "span"), ("events", "span"), ("blobs", "span")):
                    below = f"SELECT DISTINCT {column} FROM {table} WHERE {column} > ? AND {column} < ?"
                    found |= {row[0] for row in ask(below, range_below(id_))}
            purged = {row[0] for row in ask("SELECT id FROM spans WHERE state = ?", (PURGED,))}
            if gone := purged & set(runs):
                raise NotFoundError(f"run {min(gone)} was purged: nothing of it is left to export")
            new = {id_ for id_ in found - purged if not ask("SELECT 1 FROM wanted WHERE id = ?", (id_,)).fetchone()}

    def _copy_origins(self) -> None:
        """Copy the origins of these spans, by name; marks only of origins that have logged nothing else."""
        ask = self._source.execute
        ask("DROP TABLE IF EXISTS temp.copied_origins")
        ask("CREATE TEMP TABLE copied_origins (id INTEGER PRIMARY KEY, number INTEGER)")
        self._add_origins()
        others = self._with_other_spans()
        columns = "name, host, boot, pid, started, span, process, main, voice"
        rows = ask(
            f"SELECT id, {columns} FROM origins WHERE id IN (SELECT id FROM copied_origins) ORDER BY name"
        ).fetchall()
        for number, (id_, *row) in enumerate(rows, 1):
            ask("UPDATE copied_origins SET number = ? WHERE id = ?", (number, id_))
            self._target.execute(
                f"INSERT INTO origins (id, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (number, *row)
            )
            if id_ not in others:
                marks = ask(
                    "SELECT substr(lane, 1, 1), max(place), max(damaged), max(refused) FROM marks"
                    " WHERE origin = ? AND lane IN (?, ?, 'f<', 's<') GROUP BY 1 ORDER BY 1",
                    (id_, LANE_FACTS, LANE_SAMPLES),
                )
                self._target.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?)", ((number, *m) for m in marks))

    def _add_origins(self) -> None:
        put = "INSERT OR IGNORE INTO copied_origins (id)"
        for table in _BY_NAME:
            self._source.execute(
                f"{put} SELECT origins.id FROM {table} JOIN origins ON origins.name = {table}.origin"
                f" WHERE {table}.span IN (SELECT id FROM wanted)"
            )
        self._source.execute(f"{put} SELECT origin FROM events WHERE span IN (SELECT id FROM wanted)")
        self._source.execute(
            f"{put} SELECT axes.origin FROM series JOIN chunks ON chunks.series = series.id"
            " JOIN axes ON axes.id = axis WHERE series.span IN (SELECT id FROM wanted)"
        )

    def _with_other_spans(self) -> set[int]:
        """Return the origins that also have records of other spans: their marks would claim more than is copied."""
        queries = [
            f"SELECT origins.id FROM {table} JOIN origins ON origins.name = {table}.origin"
            f" WHERE {table}.span NOT IN (SELECT id FROM wanted)"
            for table in _BY_NAME
        ]
        queries.append("SELECT origin FROM events WHERE span NOT IN (SELECT id FROM wanted)")
        queries.append(
            "SELECT axes.origin FROM copied_origins CROSS JOIN axes ON axes.origin = copied_origins.id"
            " CROSS JOIN chunks ON chunks.axis = axes.id CROSS JOIN series ON series.id = series"
            " WHERE series.span NOT IN (SELECT id FROM wanted)"
        )
        return {int(row[0]) for query in queries for row in self._source.execute(query)}

    def _copy_series(self) -> None:
        ask = self._source.execute
        ask("DROP TABLE IF EXISTS temp.copied_series")
        ask("CREATE TEMP TABLE copied_series (id INTEGER PRIMARY KEY, number INTEGER)")
        self._dtypes: dict[int, Any] = {}
        columns = "span, name, tags, count, min, max, last, last_step, last_t"
        rows = ask(
            f"SELECT id, {columns} FROM series WHERE span IN (SELECT id FROM wanted) ORDER BY span, name, tags"
        ).fetchall()
        for number, (id_, *row) in enumerate(rows, 1):
            ask("INSERT INTO copied_series VALUES (?, ?)", (id_, number))
            kinds = {chunks.dtype_of(value) for (value,) in ask("SELECT value FROM chunks WHERE series = ?", (id_,))}
            # One type for the whole series, as readers see it, whichever values were sealed together.
            self._dtypes[id_] = np.result_type(*kinds) if kinds else np.dtype(np.float64)
            if self._dtypes[id_] == np.float64 and isinstance(row[6], int):
                row[6] = float(row[6])
            self._target.execute(
                f"INSERT INTO series (id, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (number, *row)
            )

    def _copy_points(self, origin: int, number: int) -> None:
        """Copy the points of an origin: each set of series that were logged together, in chunks of equal length."""
        rows = self._source.execute(
            "SELECT axes.id, first_n, last_n, (SELECT group_concat(series) FROM (SELECT series FROM chunks"
            " JOIN copied_series ON copied_series.id = series WHERE axis = axes.id ORDER BY copied_series.number))"
            " FROM axes WHERE origin = ? ORDER BY first_n, axes.id",
            (origin,),
        )
        groups: dict[str, list[tuple[int, int, int]]] = {}
        for axis, first_n, last_n, series in rows:
            if series:
                groups.setdefault(series, []).append((axis, first_n, last_n))
        for series, axes in groups.items():
            self._copy_group(number, [int(id_) for id_ in series.split(",")], list(_clusters(axes)))

    def _copy_group(self, origin: int, series: list[int], clusters: list[list[int]]) -> None:
        axes: list[int | None] = []
        orders: list[Any] = []
        columns = (self._columns_of(cluster, orders) for cluster in clusters)
        for n, t, step in _recut(columns):
            ends = int(n[0]), int(n[-1]), len(t), int(t[0]), int(t[-1])
            packed = chunks.pack(t, tight=True), chunks.pack(step), chunks.pack_offsets(n)
            axes.append(
                self._target.execute(
                    "INSERT INTO axes (origin, first_n, last_n, count, first_t, last_t, t, step, n)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (origin, *ends, *packed),
                ).lastrowid
            )
        for id_ in series:
            number = self._source.execute("SELECT number FROM copied_series WHERE id = ?", (id_,)).fetchone()[0]
            parts = ((self._values_of(id_, cluster, orders[at]),) for at, cluster in enumerate(clusters))
            for axis, (value,) in zip(axes, _recut(parts), strict=True):
                self._target.execute(
                    "INSERT INTO chunks (series, axis, min, max, sum, value) VALUES (?, ?, ?, ?, ?, ?)",
                    (number, axis, *chunks.extremes(value), chunks.pack(value, tight=True)),
                )
                self._points += len(value)
                self._shown(self._points)

    def _columns_of(self, cluster: list[int], orders: list[Any]) -> tuple[NDArray[Any], ...]:
        """Return offsets, times and steps of some axes, sorted by offset."""
        rows = [
            self._source.execute("SELECT n, t, step, count FROM axes WHERE id = ?", (axis,)).fetchone()
            for axis in cluster
        ]
        t, step = (np.concatenate([chunks.unpack(row[part]) for row in rows]) for part in (1, 2))
        n = np.concatenate([chunks.unpack_offsets(row[0], row[3]) for row in rows])
        orders.append(np.argsort(n, kind="stable") if len(rows) > 1 else slice(None))
        return n[orders[-1]], t[orders[-1]], step[orders[-1]]

    def _values_of(self, series: int, cluster: list[int], order: Any) -> NDArray[Any]:
        ask = "SELECT value FROM chunks WHERE series = ? AND axis = ?"
        parts = [self._source.execute(ask, (series, axis)).fetchone()[0] for axis in cluster]
        value = np.concatenate([chunks.unpack(part) for part in parts]).astype(self._dtypes[series], copy=False)
        return np.asarray(value[order])


def _clusters(axes: list[tuple[int, int, int]]) -> Iterator[list[int]]:
    """Group axes whose offsets overlap, which happens when a gap was filled later; most groups have one axis."""
    cluster: list[int] = []
    end = -1
    for axis, first_n, last_n in axes:
        if cluster and first_n > end:
            yield cluster
            cluster = []
        cluster.append(axis)
        end = max(end, last_n)
    if cluster:
        yield cluster


def _recut(parts: Iterable[tuple[NDArray[Any], ...]]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Join columns that come in parts of any length, and cut them into parts of equal length, and a rest."""
    held: list[tuple[NDArray[Any], ...]] = []
    length = 0
    for part in parts:
        held.append(part)
        length += len(part[0])
        if length >= MERGED:
            whole = tuple(np.concatenate(column) for column in zip(*held, strict=True))
            full = length // MERGED * MERGED
            for at in range(0, full, MERGED):
                yield tuple(column[at : at + MERGED] for column in whole)
            held, length = [tuple(column[full:] for column in whole)], length - full
    if length:
        yield tuple(np.concatenate(column) for column in zip(*held, strict=True))
