"""The store in one SQLite file: plain tables, and points as compressed chunks."""

import collections
import contextlib
import functools
import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec

from vedette import wire
from vedette.fileio import check_private, open_private
from vedette.fold import Claim, Folded, OriginProgress, SpanState, Write, settle
from vedette.model import LEAVING, PURGED, Blob, Event, Fact, Origin, Span
from vedette.recent import Recent
from vedette.store import AHEAD, UNKNOWN_RELAY, Batch, Block, Columns, Reader, RelayRow, Taken, sqlite_relays
from vedette.store.sqlite_awaited import Awaiting
from vedette.store.sqlite_bounds import bound
from vedette.store.sqlite_connection import connect, unopened
from vedette.store.sqlite_file import STEPS, add_schema, check_version
from vedette.store.sqlite_json import to_json
from vedette.store.sqlite_purge import Reclaimer, is_gone, lives, note
from vedette.store.sqlite_read import SqliteReader

if TYPE_CHECKING:
    from vedette.store.sqlite_points import PointWriter

_WAL_BYTES = 16 << 20  # a longer write-ahead log is cut back to this
_MOST_ORIGINS = 2000  # whose numbers are remembered
_MOST_LEVELS = 8  # up which one change goes: spans may be each other's parents, or a chain without end


class SqliteStore(SqliteReader):
    """The one writer of a store; see the Store protocol for what each method promises."""

    def __init__(self, path: str, steps: Sequence[str] = STEPS, most_series: int = 1 << 40) -> None:
        """Open a store; create it or bring its schema up to date if needed. Tests of that pass other `steps`.

        `most_series`: the most series of one span; points of further series are refused, and counted.
        """
        try:
            made = open_private(path, os.O_RDWR | os.O_CREAT)
            os.fchmod(made, 0o600)  # SQLite gives its log the same mode
            os.close(made)
            for beside in ("-wal", "-shm", "-journal"):  # SQLite opens them itself, and would follow a link
                check_private(path + beside)
        except OSError as error:
            raise unopened(error) from error
        connection = connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        super().__init__(connection)
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute("PRAGMA secure_delete = FAST")  # some builds overwrite every page that they free
        self._migrate(steps)
        self._wal = path + "-wal"
        self._wal_fd: int | None = None
        self._origins: Recent[str, int] = Recent(_MOST_ORIGINS)
        self._most_series = most_series
        self._awaiting = Awaiting(connection)
        self._reclaimer = Reclaimer(connection, self._wal, self._transaction, self._refold, self._settle_again)

    @functools.cached_property
    def writer(self) -> "PointWriter":
        """The writer of points; it imports numpy, so it is made with the first points."""
        from vedette.store.sqlite_points import PointWriter

        return PointWriter(self.connection, self._transaction, self._most_series)

    def _migrate(self, steps: Sequence[str]) -> None:
        check_version(self.connection.execute("PRAGMA user_version").fetchone()[0], len(steps))
        add_schema(self.connection, steps)
        sqlite_relays.prepare(self.connection)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            self._origins.clear()
            if "writer" in vars(self):
                self.writer.forget()
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self._awaiting.read_again()
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
        moved = set()
        with self._transaction():
            for batch in batches:
                moved.add(batch.origin.name)
                number = self._origin(batch.origin)
                refusals = collections.Counter(batch.refusals)
                self._keep_facts(batch.origin.name, number, batch.facts, spans, gone)
                if groups := [columns for columns in self._new(number, batch) if not gone(columns.span)]:
                    self.writer.keep(number, groups, refusals)
                self.move_mark(number, batch.lane, batch.end, batch.damaged, batch.refused)
                self.connection.executemany(
                    "INSERT INTO refusals VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    [(number, limit, count) for limit, count in refusals.items()],
                )
            complete = self._awaiting.update((record for records in spans.values() for _, _, record in records), moved)
            self._keep_spans(spans)
            self._settle_again(complete - spans.keys())
            self.connection.executemany(
                "UPDATE origins SET heard_t = max(heard_t, ?) WHERE name = ?",
                [(t, name) for name, t in (heard or {}).items()],
            )
            self.connection.executemany(
                "UPDATE origins SET skew_s = ? WHERE name = ?", [(skew, name) for name, skew in (skews or {}).items()]
            )

    def move_mark(self, origin: int, lane: str, offset: int, damaged: int = 0, refused: int = 0) -> None:
        """Move a mark forward, inside the caller's transaction."""
        self.connection.execute(
            "INSERT INTO marks (origin, lane, place, damaged, refused) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET place = max(place, excluded.place),"
            " damaged = max(damaged, excluded.damaged), refused = max(refused, excluded.refused)",
            (origin, lane, offset, damaged, refused),
        )

    def shippers(self, origins: Sequence[str]) -> dict[str, str]:
        """Return the relay that each of these origins comes from."""
        return sqlite_relays.shippers(self.connection, origins)

    def beginners(self, spans: Sequence[str]) -> dict[str, str]:
        """Return the relay that has begun each of these runs and hosts."""
        return sqlite_relays.beginners(self.connection, spans)

    def bind(self, relay: str, origins: Sequence[str], spans: Sequence[str], *, anew: bool = False) -> None:
        """Note what belongs to a relay."""
        with self._transaction():
            sqlite_relays.bind(self.connection, relay, origins, spans, anew=anew)

    def note_relay(self, relay: RelayRow) -> None:
        """Note that a relay was heard of."""
        with self._transaction():
            sqlite_relays.note(self.connection, relay)

    def note_delivered(self, sizes: Mapping[str, int], relay: str) -> None:
        """Note that a relay has sent the bytes of these files."""
        with self._transaction():
            sqlite_relays.note_delivered(self.connection, sizes, relay)

    def forget_delivered(self, digest: str) -> None:
        """Forget who has sent the bytes of a file."""
        with self._transaction():
            sqlite_relays.forget_delivered(self.connection, digest)

    def awaited(self) -> AbstractSet[str]:
        """Return the origins whose records must still come before some span is shown as ended."""
        return self._awaiting.origins()

    def stop_awaiting(self, origins: Container[str]) -> None:
        """Show the ends that wait for these origins."""
        for name in [name for name in self._awaiting.origins() if name in origins]:
            with self._transaction():
                self._settle_again(self._awaiting.give_up(name))

    def prepare(self) -> None:
        """Make the writer of points, which takes as long as a small commit."""
        _ = self.writer

    def sync(self) -> None:
        """Flush the write-ahead log: a commit under synchronous=NORMAL is not on disk by itself.

        Its descriptor is kept, so that this works when there are no more; SQLite keeps the file until the store closes.
        """
        if self._wal_fd is None:
            try:
                self._wal_fd = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
        os.fdatasync(self._wal_fd)

    def close(self) -> None:
        """Close the store."""
        super().close()
        if self._wal_fd is not None:
            os.close(self._wal_fd)
            self._wal_fd = None

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

    def _foreign_origin(self, origin: Origin) -> int:
        """Return the number of an origin of an archive or a copied spool. A relay may bring the rest of it later."""
        if origin.name not in self._origins and self.origin(origin.name) is None:
            sqlite_relays.bind(self.connection, UNKNOWN_RELAY, [origin.name], [])
        return self._origin(origin)

    def _new(self, origin: int, batch: Batch) -> list[Columns | Block]:
        """Return the samples after the mark; those before it are here already."""
        if not batch.columns:
            return []
        among = "SELECT lane, place FROM marks WHERE origin = ? AND lane IN (?, ?)"
        marks = dict(self.connection.execute(among, (origin, batch.lane, AHEAD)))
        mark = marks.get(batch.lane, 0)
        found = [part for columns in batch.columns if len((part := columns.after(mark)).n)]
        if marks.get(AHEAD, 0) > mark:  # an archive has brought some of them already
            from vedette.store.sqlite_held import not_held

            return not_held(self.connection, origin, [part.block() for part in found])
        return found

    def take(self, batch: Batch) -> Taken:
        """Take in what a copy of a spool says, and is not here."""
        from vedette.store import sqlite_copy

        return sqlite_copy.take(self, batch)

    def absorb(
        self,
        source: Reader,
        comes: Callable[[str], int | None] = lambda _: None,
        mask: Callable[[Fact], Fact] | None = None,
        *,
        lenient: bool = False,
    ) -> Iterator[Taken]:
        """Import all that another store has, in steps of one transaction each."""
        from vedette.store import sqlite_merge

        assert isinstance(source, SqliteReader)
        return sqlite_merge.absorb(self, source, comes, mask, lenient=lenient)

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
                spans[fact.id].append((origin, n, fact))  # also if it is purged: `reclaim` deletes it again
            elif gone(fact.span):
                continue
            elif isinstance(fact, Event):
                events.append((fact.span, fact.t, fact.kind, fact.level, fact.text, to_json(fact.attrs), number, n))
            elif isinstance(fact, Blob):
                self.connection.execute(
                    "INSERT OR IGNORE INTO blobs (span, name, digest, size, media, t, origin, n)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (fact.span, fact.name, fact.digest, fact.size, fact.media, fact.t, origin, n),
                )
        self.connection.executemany(
            "INSERT OR IGNORE INTO events (span, t, kind, level, text, attrs, origin, n)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            events,
        )

    def _keep_spans(self, spans: Mapping[str, list[tuple[str, int, Span]] | Folded]) -> None:
        """Fold records into their spans; the state of a try is also written to its parent."""
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
        """Write the state of spans whose claims or tries have changed, and then that of their parents, if needed."""
        found = dict.fromkeys(spans)
        for _ in range(_MOST_LEVELS):
            above: dict[str, None] = {}
            for span in found:
                row = self.connection.execute("SELECT kind, parent FROM spans WHERE id = ?", (span,)).fetchone()
                changed = row is not None and self._settle(span, Folded(self._claims(span)).span_state(row[0]))
                if changed and row[0] == "try":  # a try may have tries of its own, so it goes on upwards
                    above[row[1]] = None
            found = above

    def _claims(self, span: str) -> Iterator[Claim]:
        query = "SELECT state, t, voice, origin, cause FROM claims WHERE span = ?"
        return (Claim(*row) for row in self.connection.execute(query, (span,)))

    def _load(self, span: str) -> Folded:
        run = self.connection.execute
        return Folded(
            self._claims(span),
            (
                Write(t, origin, n, msgspec.msgpack.decode(attrs))
                for t, origin, n, attrs in run("SELECT t, origin, n, attrs FROM writes WHERE span = ?", (span,))
            ),
            {
                row[0]: OriginProgress(*row[1:])
                for row in run("SELECT origin, n, t, at, added FROM progress WHERE span = ?", (span,))
            },
        )

    def _fold(self, span: str, records: list[tuple[str, int, Span]] | Folded) -> tuple[str, str, SpanState]:
        """Fold records into a span's tables; return its kind, its parent, and its state by its own claims."""
        state = self._load(span)
        claims, writes, progress = set(state.claims), set(state.writes), dict(state.progress)
        if isinstance(records, Folded):
            state.unite(records)
        else:
            for origin, n, record in records:
                state.fold(record, origin, n)
        bound(state, writes, progress)
        self._leave_out_gone_parents(span, state, writes)
        attrs = state.attrs()
        many = self.connection.executemany
        many(
            "DELETE FROM claims WHERE span = ? AND state = ? AND t = ? AND voice = ? AND origin = ? AND cause = ?",
            [(span, *c) for c in claims - state.claims],
        )
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
            [(span, origin, *p) for origin, p in state.progress.items() if p != progress.get(origin)],
        )
        kind, name, parent = (str(attrs.pop(key, "")) for key in ("kind", "name", "parent"))
        self.connection.execute(
            "INSERT INTO spans (id, kind, name, parent, done, attrs) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET kind = excluded.kind, name = excluded.name, parent = excluded.parent,"
            " done = excluded.done, attrs = excluded.attrs",
            (span, kind, name, parent, state.done(), to_json(attrs)),
        )
        return kind, parent, state.span_state(kind)

    def _leave_out_gone_parents(self, span: str, state: Folded, known: set[tuple[str, int]]) -> None:
        """Leave a parent that was removed for good out of the writes that are not `known`, if the span lives here.

        Who begins below a tombstone goes with it. What is here does not: else anybody who can write a parent could
        remove it for good.
        """
        named = {
            key: str(w.attrs["parent"]) for key, w in state.writes.items() if key not in known and "parent" in w.attrs
        }
        gone = {parent for parent in set(named.values()) if is_gone(self.connection, parent)}
        if not gone or not lives(self.connection, span) or any(claim.state == PURGED for claim in state.claims):
            return
        for key, parent in named.items():
            if parent in gone:
                write = state.writes[key]
                left = {name: value for name, value in write.attrs.items() if name != "parent"}
                state.writes[key] = write._replace(attrs=left)

    def _refold(self, span: str) -> None:
        self._settle(span, self._fold(span, [])[2])

    def reclaim(self, budget: int = 1000) -> bool:
        """Delete about `budget` pages' worth; tell whether there is more to do."""
        return self._reclaimer.reclaim(budget)

    def tidy(self, origin: str) -> int:
        """Merge an origin's short chunks into long ones; return how many were merged."""
        return sum(self.writer.tidying(origin, all_of_them=True))

    def tidying(self, origin: str) -> Iterator[int]:
        """Do the same in steps, where it is worth it."""
        return self.writer.tidying(origin, all_of_them=False)

    def _settle(self, span: str, own: SpanState) -> bool:
        """Write the state of a span: its own, or that of its highest try; tell whether it has changed."""
        tries = self.connection.execute(
            "SELECT coalesce(json_extract(attrs, '$.n'), 0), id, state, cause, start_t, end_t FROM spans"
            " WHERE parent = ? AND kind = 'try'",
            (span,),
        )
        if own.end_t is not None and own.state != PURGED and self._awaiting.holds(span):
            own = SpanState(LEAVING, "", own.start_t, None)
        settled = settle(own, [(n if isinstance(n, int) else 0, id, SpanState(*rest)) for n, id, *rest in tries])  # noqa: A001
        cursor = self.connection.execute(
            "UPDATE spans SET state = ?1, cause = ?2, start_t = ?3, end_t = ?4 WHERE id = ?5"
            " AND (state, cause, start_t, end_t) IS NOT (?1, ?2, ?3, ?4)",
            (*settled, span),
        )
        return cursor.rowcount > 0
