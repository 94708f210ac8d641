"""Deleting what was removed for good from a SQLite store: bit by bit, each bit in one short transaction.

`purges` has a row for each tombstone. While its `left` is set, some of its records may still be here; if a hub dies
in the middle, the next one goes on.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import msgspec

from vedette import wire
from vedette.ids import MOST_LENGTH, above, range_below
from vedette.model import PURGED

_PAGE_BYTES = 4096
_MOST_WAL_BYTES = 64 << 20
_MANY_FREE_PAGES = 1000  # if they are also a fifth of the file, they are freed, not left for new points
_TOMBSTONE = ("kind", "parent", "n")  # the attributes that a tombstone keeps


def is_gone(connection: sqlite3.Connection, span: str) -> bool:
    """Tell whether a span, or one above it, was removed for good."""
    ids = _above(span)
    placeholders = ", ".join("?" * len(ids))
    return (
        connection.execute(f"SELECT 1 FROM purges WHERE span IN ({placeholders}) LIMIT 1", ids).fetchone() is not None
    )


def _above(span: str) -> list[str]:
    """Return a span's id and the ids above it; none if it is too long for an id: each slash would cost its length."""
    return above(span) if len(span) <= MOST_LENGTH else []


def lives(connection: sqlite3.Connection, span: str) -> bool:
    """Tell whether a span has begun here, and is not gone; also if only others are here that name it as their parent.

    One of which nothing is known yet but attributes has not begun: they may come first, from another process.
    """
    if is_gone(connection, span):
        return False
    below = "(parent = ?1 OR parent > ?2 AND parent < ?3) AND NOT (id > ?2 AND id < ?3) AND state <> ?4"
    begun = "id = ?1 AND (state <> '' OR kind <> '' OR parent <> '')"
    query = f"SELECT 1 FROM spans WHERE {begun} UNION ALL SELECT 1 FROM spans WHERE {below} LIMIT 1"
    return connection.execute(query, (span, *range_below(span), PURGED)).fetchone() is not None


def note(connection: sqlite3.Connection, span: str, parent: str, *, purged: bool) -> None:
    """Note that a span has new records: it may be purged now, or be below a tombstone that was clean.

    Whose parent is gone is gone at once, so that nobody can be put below it before `reclaim` has come to it.
    """
    own = _above(span)
    ids = [*own, *_above(parent)]
    placeholders = ", ".join("?" * len(ids))
    rows = connection.execute(f"SELECT span FROM purges WHERE span IN ({placeholders})", ids)
    gone = {tombstone for (tombstone,) in rows}
    if purged or (gone and gone.isdisjoint(own)):
        connection.execute(
            "INSERT INTO purges (span) VALUES (?) ON CONFLICT DO UPDATE SET left = 1 WHERE NOT left", (span,)
        )
    if gone:
        connection.execute(f"UPDATE purges SET left = 1 WHERE span IN ({placeholders}) AND NOT left", ids)


class Reclaimer:
    """Deletes what is left of tombstones, and then returns the free pages to the file system."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        wal: str,
        transaction: Callable[[], AbstractContextManager[None]],
        refold: Callable[[str], None],
        settle: Callable[[Iterable[str]], None],
    ) -> None:
        """Work on this connection.

        `refold` writes the state of a span again from its claims and writes; `settle` writes the state of spans
        whose claims or tries have changed.
        """
        self._connection = connection
        self._wal = wal
        self._transaction = transaction
        self._refold = refold
        self._settle = settle
        self._vacuuming = self._number("freelist_count") > _MANY_FREE_PAGES  # an earlier hub may have died over it
        self._events = 0  # deleted since the full-text index was last merged
        self._merging = False

    def reclaim(self, budget: int) -> bool:
        """Do about `budget` pages' worth of work in one transaction; tell whether there is more to do."""
        if self._wal_is_long():  # a reader holds an old snapshot, so every change makes the log longer
            return True
        if self._next() is not None:
            with self._transaction():
                while budget > 0 and (span := self._next()) is not None:
                    budget -= self._delete_some(span, budget)
            self._vacuuming = True
            return True
        return self._merge_words(budget) or self._give_back(budget)

    def _next(self) -> str | None:
        row = self._connection.execute("SELECT span FROM purges WHERE left LIMIT 1").fetchone()
        return None if row is None else str(row[0])

    def _number(self, pragma: str) -> int:
        return int(self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _wal_is_long(self) -> bool:
        try:
            if os.stat(self._wal).st_size < _MOST_WAL_BYTES:
                return False
        except FileNotFoundError:
            return False
        _, frames, done = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return bool((frames - done) * _PAGE_BYTES >= _MOST_WAL_BYTES // 2)

    def _delete_some(self, span: str, budget: int) -> int:
        """Delete within the budget; when all is deleted, strip the tombstone; return the cost."""
        work = (self._purge_below, self._delete_points, self._delete_series, self._delete_events, self._delete_blobs)
        spent = 0
        for step in (*work, self._delete_parts):
            spent += step(span, budget - spent)
            if spent >= budget:
                return spent
        self._strip(span)
        self._connection.execute("DELETE FROM purges WHERE span > ? AND span < ?", range_below(span))
        self._connection.execute("UPDATE purges SET left = 0 WHERE span = ?", (span,))
        return spent + 1

    def _purge_below(self, span: str, budget: int) -> int:
        """Copy the claim `purged` to the spans that have this one as parent but are not its parts (`id/...`)."""
        run = self._connection.execute
        rows = run(
            "SELECT id FROM spans WHERE (parent = ?1 OR parent > ?2 AND parent < ?3)"
            " AND NOT (id = ?1 OR id > ?2 AND id < ?3)"
            " AND EXISTS (SELECT 1 FROM claims AS said WHERE span = ?1 AND state = ?4 AND NOT EXISTS ("
            "  SELECT 1 FROM claims WHERE span = spans.id AND state = ?4 AND t = said.t AND voice = said.voice"
            "  AND origin = said.origin AND cause = said.cause)) LIMIT ?5",
            (span, *range_below(span), PURGED, budget),
        ).fetchall()
        for (below,) in rows:
            run(
                "INSERT OR IGNORE INTO claims SELECT ?, state, t, voice, origin, cause FROM claims"
                " WHERE span = ? AND state = ?",
                (below, span, PURGED),
            )
            note(self._connection, below, "", purged=True)
        self._settle(row[0] for row in rows)
        return len(rows)

    def _delete_points(self, span: str, budget: int) -> int:
        rows = _bounded(
            self._either(
                "SELECT chunks.id, chunks.axis, 1 + length(value) / 4096 FROM series CROSS JOIN chunks"
                " ON chunks.series = series.id WHERE {}",
                span,
            ),
            budget,
        )
        among = "IN (SELECT value FROM json_each(?))"
        self._connection.execute(f"DELETE FROM chunks WHERE id {among}", (json.dumps([row[0] for row in rows]),))
        self._connection.execute(
            f"DELETE FROM axes WHERE id {among} AND NOT EXISTS (SELECT 1 FROM chunks WHERE axis = axes.id)",
            (json.dumps(sorted({row[1] for row in rows})),),
        )
        return sum(row[-1] for row in rows)

    def _delete_series(self, span: str, budget: int) -> int:
        rows = _bounded(self._either("SELECT id, 1 FROM series WHERE {}", span), budget)
        self._connection.executemany("DELETE FROM series WHERE id = ?", [row[:1] for row in rows])
        return len(rows)

    def _delete_events(self, span: str, budget: int) -> int:
        # To take words out of the full-text index costs more than to free pages.
        rows = _bounded(self._either("SELECT id, 1 + length(text) / 500 FROM events WHERE {}", span), budget)
        self._connection.executemany("DELETE FROM events WHERE id = ?", [row[:1] for row in rows])
        self._events += len(rows)
        return sum(row[-1] for row in rows)

    def _delete_blobs(self, span: str, budget: int) -> int:
        rows = _bounded(self._either("SELECT span, name, origin, n, 1 FROM blobs WHERE {}", span), budget)
        self._connection.executemany(
            "DELETE FROM blobs WHERE span = ? AND name = ? AND origin = ? AND n = ?", [row[:-1] for row in rows]
        )
        return len(rows)

    def _delete_parts(self, span: str, budget: int) -> int:
        """Delete the spans that are parts of this one, with all their records."""
        rows = self._connection.execute(
            "SELECT id, kind, parent FROM spans WHERE id > ? AND id < ? LIMIT ?", (*range_below(span), budget)
        ).fetchall()
        spent = 0
        parents = []
        for part, kind, parent in rows:
            for table in ("claims", "writes", "progress", "awaited"):
                spent += self._connection.execute(f"DELETE FROM {table} WHERE span = ?", (part,)).rowcount
            spent += self._connection.execute("DELETE FROM spans WHERE id = ?", (part,)).rowcount
            if kind == "try":
                parents.append(parent)
            if spent >= budget:
                break
        self._settle(parents)
        return spent

    def _strip(self, span: str) -> None:
        """Leave of a tombstone only its claims and the attributes in `_TOMBSTONE`."""
        run = self._connection.execute
        for origin, n, packed in run("SELECT origin, n, attrs FROM writes WHERE span = ?", (span,)).fetchall():
            attrs = msgspec.msgpack.decode(packed)
            left = {key: attrs[key] for key in _TOMBSTONE if key in attrs}
            if not left:
                run("DELETE FROM writes WHERE span = ? AND origin = ? AND n = ?", (span, origin, n))
            elif left != attrs:
                run(
                    "UPDATE writes SET attrs = ? WHERE span = ? AND origin = ? AND n = ?",
                    (wire.encode(left), span, origin, n),
                )
        run("DELETE FROM progress WHERE span = ?", (span,))
        self._refold(span)

    def _either(self, query: str, span: str) -> Iterable[tuple[int, ...]]:
        """Yield the rows of a query for a span, and then those for its parts; each query uses an index."""
        yield from self._connection.execute(query.format("span = ?"), (span,))
        yield from self._connection.execute(query.format("span > ?") + " AND span < ?", range_below(span))

    def _merge_words(self, budget: int) -> bool:
        """Remove deleted words from the full-text index; tell whether there may be more to do."""
        if self._events and not self._merging:
            spread = self._connection.execute("SELECT coalesce(max(id) - min(id), 0) FROM events").fetchone()[0]
            if self._events * 4 < spread:  # they are few: the index drops them by itself as it grows
                self._events = 0
                return False
            self._merging, budget = True, -budget  # for FTS5 a negative number starts a merge of everything
        if not self._merging:
            return False
        before = self._connection.total_changes
        with self._transaction():
            self._connection.execute("INSERT INTO events_text (events_text, rank) VALUES ('merge', ?)", (budget // 4,))
        self._merging = self._connection.total_changes - before >= 2  # as the manual of FTS5 says
        if not self._merging:
            self._events = 0
        return True

    def _give_back(self, budget: int) -> bool:
        """Shorten the file by some of its free pages; tell whether there are more."""
        free = self._number("freelist_count")
        if not self._vacuuming and (free < _MANY_FREE_PAGES or free * 5 < self._number("page_count")):
            return False
        # The pragma yields a row without columns for each page, and `execute` would stop at the first one.
        self._connection.executescript(f"PRAGMA incremental_vacuum({budget:d})")
        self._vacuuming = 0 < self._number("freelist_count") < free
        if not self._vacuuming:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return self._vacuuming


def _bounded(rows: Iterable[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """Take rows while their costs, the last column, are within the budget; at least one."""
    taken = []
    for row in rows:
        taken.append(row)
        budget -= row[-1]
        if budget <= 0:
            break
    return taken
