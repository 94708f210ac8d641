"""The store in one SQLite file: plain tables, and points as compressed chunks."""

import collections
import contextlib
import functools
import json
import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from vedette import wire
from vedette.errors import FormatError, NotFoundError, StoreError, VersionError
from vedette.fold import Claim, Folded, Outcome, Progress, Write, settle
from vedette.model import PURGED, Blob, Event, Fact, Origin, Span, Value
from vedette.store import Batch, Block, Columns, Reader, Taken, chunks, sqlite_merge
from vedette.store.sqlite_purge import Reclaimer, is_gone, note
from vedette.store.sqlite_read import SqliteReader

STEPS = ("schema.sql",)  # each brings a store from one version to the next; a new one is added at the end
VERSION = len(STEPS)
_APPLICATION = 0x76656474  # "vedt"
_MOST_CACHED = 100_000
_WAL_BYTES = 16 << 20  # what the write-ahead log is cut back to when it has grown longer


def open_reader(path: str) -> SqliteReader:
    """Open a store to read; raise NotFoundError when there is none."""
    if not os.path.exists(path):
        raise NotFoundError(f"there is no store at {path} yet: nothing has been logged to this home")
    connection = sqlite3.connect(f"file:{quoted(path)}?mode=ro", uri=True, timeout=10)
    ask_version = "SELECT user_version FROM pragma_user_version, (SELECT count(*) FROM sqlite_schema)"
    try:
        try:
            version = connection.execute(ask_version).fetchone()[0]
        except sqlite3.OperationalError:  # a read-only directory without the -shm file of a living hub
            connection.close()
            connection = sqlite3.connect(f"file:{quoted(path)}?mode=ro&immutable=1", uri=True)
            version = connection.execute(ask_version).fetchone()[0]
    except sqlite3.Error as error:
        raise FormatError(f"{path} cannot be read as a store: {error}") from None
    _check_version(path, version)
    return SqliteReader(connection)


def quoted(path: str) -> str:
    """Return a path as it stands in a URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _check_version(path: str, version: int, known: int = VERSION) -> None:
    if version > known:
        raise VersionError(
            f"{path} is a store of version {version}, and this vedette reads up to {known}: upgrade vedette"
        )


def add_schema(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> None:
    """Bring the schema forward, one version at a time; each step is one transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, step in enumerate(steps[version:], version + 1):
        script = resources.files("vedette.store").joinpath(step).read_text()
        connection.executescript(
            f"BEGIN IMMEDIATE; {script}\n; PRAGMA application_id = {_APPLICATION};"
            f" PRAGMA user_version = {number}; COMMIT;"
        )


class SqliteStore(SqliteReader):
    """The one writer of a store; see the Store protocol for what each method promises."""

    def __init__(self, path: str, steps: Sequence[str] = STEPS, most_series: int = 1 << 40) -> None:
        """Open a store, made or brought up to date if need be; `steps` is for tests of that.

        `most_series`: of one span; points of more series than that are refused, and counted.
        """
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite gives its log the same mode
        connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        super().__init__(connection)
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute("PRAGMA secure_delete = FAST")  # some builds overwrite every page that they free
        self._migrate(path, steps)
        os.chmod(path, 0o600)
        self._wal = path + "-wal"
        self._origins: dict[str, int] = {}
        self._series: dict[tuple[str, str, str], int] = {}
        self._most_series = most_series
        self._series_of: dict[str, int] = {}  # how many series a span has
        self._reclaimer = Reclaimer(connection, self._wal, self._transaction, self._refold, self._settle_again)

    def _migrate(self, path: str, steps: Sequence[str]) -> None:
        _check_version(path, self.connection.execute("PRAGMA user_version").fetchone()[0], len(steps))
        add_schema(self.connection, steps)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except BaseException as error:
            self._origins.clear()
            self._series.clear()
            self._series_of.clear()
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"the store cannot be written to: {error}") from error
            raise

    def keep(
        self,
        batches: Iterable[Batch],
        heard: Mapping[str, int] | None = None,
        skews: Mapping[str, float] | None = None,
    ) -> None:
        """Keep batches and their marks in one transaction."""
        spans: dict[str, list[tuple[str, int, Span]]] = defaultdict(list)
        gone = functools.cache(lambda span: is_gone(self.connection, span))
        with self._transaction():
            for batch in batches:
                number = self._origin(batch.origin)
                refusals = collections.Counter(batch.refusals)
                self._keep_facts(batch.origin.name, number, batch.facts, spans, gone)
                for columns in self._new(number, batch):
                    if not gone(columns.span):
                        self._keep_block(number, columns.block(), refusals)
                self.connection.execute(
                    "INSERT INTO marks (origin, lane, place, damaged, refused) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET place = max(place, excluded.place),"
                    " damaged = max(damaged, excluded.damaged), refused = max(refused, excluded.refused)",
                    (number, batch.lane, batch.place, batch.damaged, batch.refused),
                )
                self.connection.executemany(
                    "INSERT INTO refusals VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    [(number, limit, count) for limit, count in refusals.items()],
                )
            self._keep_spans(spans)
            self.connection.executemany(
                "UPDATE origins SET heard_t = max(heard_t, ?) WHERE name = ?",
                [(t, name) for name, t in (heard or {}).items()],
            )
            self.connection.executemany(
                "UPDATE origins SET skew_s = ? WHERE name = ?", [(skew, name) for name, skew in (skews or {}).items()]
            )

    def sync(self) -> None:
        """Flush the write-ahead log: a commit under synchronous=NORMAL is not on disk by itself."""
        try:
            fd = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def _origin(self, origin: Origin) -> int:
        number = self._origins.get(origin.name)
        if number is None:
            self.connection.execute(
                "INSERT INTO origins (name, host, boot, pid, started, span, process, main, voice)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (
                    origin.name,
                    origin.host,
                    origin.boot,
                    origin.pid,
                    origin.started,
                    origin.span,
                    origin.process,
                    origin.main,
                    origin.voice,
                ),
            )
            row = self.connection.execute("SELECT id FROM origins WHERE name = ?", (origin.name,)).fetchone()
            number = self._origins[origin.name] = int(row[0])
        return number

    def _new(self, origin: int, batch: Batch) -> list[Columns | Block]:
        """Return the samples that lie behind the mark; what lies before it is here already."""
        if not batch.columns:
            return []
        among = "SELECT lane, place FROM marks WHERE origin = ? AND lane IN (?, ?)"
        marks = dict(self.connection.execute(among, (origin, batch.lane, sqlite_merge.AHEAD)))
        mark = marks.get(batch.lane, 0)
        found = [part for columns in batch.columns if len((part := columns.after(mark)).n)]
        if marks.get(sqlite_merge.AHEAD, 0) > mark:  # some of them came before the rest, by `absorb`
            return sqlite_merge.not_held(self.connection, origin, [part.block() for part in found])
        return found

    def absorb(self, source: Reader, heard_here: Container[str] = (), *, trusted: bool = True) -> Iterator[Taken]:
        """Take in all that another store has, in steps of one transaction each."""
        assert isinstance(source, SqliteReader)
        return sqlite_merge.absorb(self, source, heard_here, trusted=trusted)

    def _keep_facts(
        self,
        origin: str,
        number: int,
        facts: list[tuple[int, Fact]],
        spans: dict[str, list[tuple[str, int, Span]]],
        gone: Callable[[str], bool],
    ) -> None:
        events = []
        for n, fact in facts:
            if isinstance(fact, Span):
                spans[fact.id].append((origin, n, fact))  # even of what is gone: `reclaim` has the last word on it
            elif gone(fact.span):
                continue
            elif isinstance(fact, Event):
                events.append((fact.span, fact.t, fact.kind, fact.level, fact.text, to_json(fact.attrs), number, n))
            elif isinstance(fact, Blob):
                self.connection.execute(
                    "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (fact.span, fact.name, fact.digest, fact.size, fact.media, fact.t, origin, n),
                )
        self.connection.executemany(
            "INSERT OR IGNORE INTO events (span, t, kind, level, text, attrs, origin, n)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            events,
        )

    def _keep_spans(self, spans: Mapping[str, list[tuple[str, int, Span]] | Folded]) -> None:
        """Fold records into their spans; what a try comes to, its parent comes to as well."""
        parents: dict[str, None] = {}
        for span, records in spans.items():
            before = self.connection.execute("SELECT kind, parent FROM spans WHERE id = ?", (span,)).fetchone()
            kind, parent, own = self._fold(span, records)
            self._settle(span, own)
            note(self.connection, span, parent, purged=own.state == PURGED)
            if before is not None and before[0] == "try":
                parents[before[1]] = None
            if kind == "try":
                parents[parent] = None
        self._settle_again(parents)

    def _settle_again(self, spans: Iterable[str]) -> None:
        """Settle spans that something new was said of, or of a try of theirs, and those above as far as it matters."""
        parents = dict.fromkeys(spans)
        rounds = len(parents) + 100  # enough for any tree; spans that are each other's parents must not hold us up
        while parents and rounds:
            rounds -= 1
            span = next(iter(parents))
            del parents[span]
            row = self.connection.execute("SELECT kind, parent FROM spans WHERE id = ?", (span,)).fetchone()
            if row is None:
                continue
            changed = self._settle(span, self._load(span).outcome(row[0]))
            if changed and row[0] == "try":  # a try may have tries of its own, so it goes on upwards
                parents[row[1]] = None

    def _load(self, span: str) -> Folded:
        run = self.connection.execute
        return Folded(
            (Claim(*row) for row in run("SELECT state, t, voice, origin, cause FROM claims WHERE span = ?", (span,))),
            (
                Write(t, origin, n, msgspec.msgpack.decode(attrs))
                for t, origin, n, attrs in run("SELECT t, origin, n, attrs FROM writes WHERE span = ?", (span,))
            ),
            {
                row[0]: Progress(*row[1:])
                for row in run("SELECT origin, n, t, at, added FROM progress WHERE span = ?", (span,))
            },
        )

    def _fold(self, span: str, records: list[tuple[str, int, Span]] | Folded) -> tuple[str, str, Outcome]:
        """Fold records into a span's tables; return its kind, its parent, and what its own claims come to."""
        state = self._load(span)
        claims, writes = set(state.claims), set(state.writes)
        if isinstance(records, Folded):
            state.unite(records)
        else:
            for origin, n, record in records:
                state.fold(record, origin, n)
        attrs = state.attrs()
        many = self.connection.executemany
        many(
            "INSERT OR IGNORE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
            [(span, *c) for c in state.claims - claims],
        )
        many(
            "DELETE FROM writes WHERE span = ? AND origin = ? AND n = ?",
            [(span, *key) for key in writes - set(state.writes)],
        )
        many(
            "INSERT INTO writes VALUES (?, ?, ?, ?, ?)",
            [(span, w.origin, w.n, w.t, wire.encode(w.attrs)) for k, w in state.writes.items() if k not in writes],
        )
        many(
            "INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?)",
            [(span, origin, *p) for origin, p in state.progress.items()],
        )
        kind, name, parent = (str(attrs.pop(key, "")) for key in ("kind", "name", "parent"))
        self.connection.execute(
            "INSERT INTO spans (id, kind, name, parent, done, attrs) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET kind = excluded.kind, name = excluded.name, parent = excluded.parent,"
            " done = excluded.done, attrs = excluded.attrs",
            (span, kind, name, parent, state.done(), to_json(attrs)),
        )
        return kind, parent, state.outcome(kind)

    def _refold(self, span: str) -> None:
        self._settle(span, self._fold(span, [])[2])

    def reclaim(self, budget: int = 1000) -> bool:
        """Do about `budget` pages' worth of deleting; tell whether there is more to do."""
        return self._reclaimer.reclaim(budget)

    def _settle(self, span: str, own: Outcome) -> bool:
        """Write the outcome of a span: its own, or that of its highest try; tell whether that is news."""
        tries = self.connection.execute(
            "SELECT coalesce(json_extract(attrs, '$.n'), 0), id, state, cause, start_t, end_t FROM spans"
            " WHERE parent = ? AND kind = 'try'",
            (span,),
        )
        outcome = settle(own, [(n if isinstance(n, int) else 0, id, Outcome(*rest)) for n, id, *rest in tries])  # noqa: A001
        cursor = self.connection.execute(
            "UPDATE spans SET state = ?1, cause = ?2, start_t = ?3, end_t = ?4 WHERE id = ?5"
            " AND (state, cause, start_t, end_t) IS NOT (?1, ?2, ?3, ?4)",
            (*outcome, span),
        )
        return cursor.rowcount > 0

    def _keep_block(self, origin: int, block: Block, refusals: collections.Counter[str]) -> None:
        tags = to_json(block.tags)
        found = [self._series_number(block.span, name, tags) for name in block.names]
        if None in found:
            refusals["limits.series_per_run"] += len(block.n) * found.count(None)
        numbers = [number for number in found if number is not None]
        columns = [value for number, value in zip(found, block.values, strict=True) if number is not None]
        if not numbers:
            return
        t, step = block.t // 1000, block.step
        for at in range(0, len(t), chunks.FULL):
            part = slice(at, at + chunks.FULL)
            n = block.n[part]
            axis = self._keep_axis(origin, n, t[part], step[part])
            self._keep_values(axis, zip(numbers, (value[part] for value in columns), strict=True))
        rows = []
        for number, value in zip(numbers, columns, strict=True):
            low, high, _ = chunks.extremes(value)
            last = value[-1].item()
            rows.append(
                (
                    len(t), low, high, "nan" if isinstance(last, float) and math.isnan(last) else last,
                    int(step[-1]), int(block.t[-1]), number,
                )
            )  # fmt: skip
        self._count(rows)

    def _count(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add points to the rows of series: how many, min, max, and last, last_step and last_t of the newest."""
        self.connection.executemany(_UPDATE_SERIES, rows)

    def _keep_axis(self, origin: int, n: Any, t: Any, step: Any, *, tight: bool = False) -> int:
        """Keep places, times and steps of some samples."""
        packed = (chunks.pack(t, tight=tight), chunks.pack(step), chunks.pack_places(n))
        cursor = self.connection.execute(
            "INSERT INTO axes (origin, first_n, last_n, count, first_t, last_t, t, step, n)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (origin, int(n[0]), int(n[-1]), len(t), int(t[0]), int(t[-1]), *packed),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _keep_values(self, axis: int, columns: Iterable[tuple[int, Any]], *, tight: bool = False) -> None:
        self.connection.executemany(
            "INSERT INTO chunks (series, axis, min, max, sum, value) VALUES (?, ?, ?, ?, ?, ?)",
            [(number, axis, *chunks.extremes(value), chunks.pack(value, tight=tight)) for number, value in columns],
        )

    def _series_number(self, span: str, name: str, tags: str) -> int | None:
        """Return the number of a series, made if need be; None when its span has as many as it may."""
        key = (span, name, tags)
        number = self._series.get(key)
        if number is not None:
            return number
        if len(self._series) > _MOST_CACHED:
            self._series.clear()
        run = self.connection.execute
        row = run("SELECT id FROM series WHERE span = ? AND name = ? AND tags = ?", key).fetchone()
        if row is None:
            if span not in self._series_of:
                if len(self._series_of) > _MOST_CACHED:
                    self._series_of.clear()
                self._series_of[span] = run("SELECT count(*) FROM series WHERE span = ?", (span,)).fetchone()[0]
            if self._series_of[span] >= self._most_series:
                return None
            self._series_of[span] += 1
            row = (run("INSERT INTO series (span, name, tags) VALUES (?, ?, ?)", key).lastrowid,)
        self._series[key] = int(row[0])
        return self._series[key]

    def tidy(self, origin: str) -> int:
        """Merge an origin's short chunks into long ones; return how many were merged."""
        row = self.connection.execute("SELECT id FROM origins WHERE name = ?", (origin,)).fetchone()
        if row is None:
            return 0
        short = self.connection.execute(
            "SELECT id, count, (SELECT group_concat(series) FROM (SELECT series FROM chunks WHERE axis = axes.id"
            " ORDER BY series)) FROM axes WHERE origin = ? AND count < ? ORDER BY first_n",
            (row[0], chunks.MERGED // 2),
        ).fetchall()
        groups: dict[str, list[list[int]]] = defaultdict(lambda: [[]])
        held: dict[str, int] = defaultdict(int)
        for axis, count, series in short:
            groups[series][-1].append(axis)
            held[series] += count
            if held[series] >= chunks.MERGED:
                groups[series].append([])
                held[series] = 0
        merged = 0
        for series, parts in groups.items():
            for axes in parts:
                if len(axes) > 1:
                    with self._transaction():
                        self._merge(int(row[0]), [int(number) for number in (series or "").split(",") if number], axes)
                    merged += len(axes)
        return merged

    def _merge(self, origin: int, series: list[int], axes: list[int]) -> None:
        """Make one axis out of several that the same series lie on; one series at a time, to keep memory small."""
        wanted = (json.dumps(axes),)
        among = "IN (SELECT value FROM json_each(?))"
        run = self.connection.execute
        rows = run(f"SELECT t, step, n, count FROM axes WHERE id {among} ORDER BY first_n", wanted).fetchall()
        t, step = (np.concatenate([chunks.unpack(row[part]) for row in rows]) for part in (0, 1))
        n = np.concatenate([chunks.unpack_places(row[2], row[3]) for row in rows])
        order = np.argsort(n, kind="stable")
        axis = self._keep_axis(origin, n[order], t[order], step[order], tight=True)
        for number in series:
            parts = run(
                f"SELECT value FROM chunks JOIN axes ON axes.id = axis WHERE axis {among} AND series = ?"
                " ORDER BY first_n",
                (*wanted, number),
            )
            value = np.concatenate([chunks.unpack(part) for (part,) in parts])
            self._keep_values(axis, [(number, value[order])], tight=True)
        run(f"DELETE FROM chunks WHERE axis {among}", wanted)
        run(f"DELETE FROM axes WHERE id {among}", wanted)


_UPDATE_SERIES = """
UPDATE series SET count = count + ?1,
  min = min(coalesce(min, ?2), coalesce(?2, min)), max = max(coalesce(max, ?3), coalesce(?3, max)),
  last = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?4 ELSE last END,
  last_step = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?5 ELSE last_step END,
  last_t = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?6 ELSE last_t END
WHERE id = ?7
"""


def to_json(value: Value) -> str:
    """Return JSON that SQLite can query; numbers that JSON has not are text, and what is nested too deep is gone."""
    try:
        return _dump(value)
    except RecursionError:
        return "{}"


def _dump(value: Value) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def _finite(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
