"""The relays that have shipped to a store, and what is theirs: `relays`, `shippers`, `beginners`, `delivered`."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from vedette.store.rows import RelayRow

# It is no step of the schema: archives have exactly its tables, and a store of version 3 may be without this one. What
# runs of one holder alone named until then was his, as far as anybody knows.
_DELIVERED = """
BEGIN IMMEDIATE;
CREATE TABLE delivered (    -- the bytes of which files a relay has sent
  digest   TEXT NOT NULL,
  relay    TEXT NOT NULL,
  size     INTEGER NOT NULL,
  PRIMARY KEY (digest, relay)
) WITHOUT ROWID;
INSERT INTO delivered
  SELECT digest, beginners.relay, max(size) FROM blobs
  LEFT JOIN beginners ON beginners.span = substr(blobs.span, 1, instr(blobs.span || '/', '/') - 1)
  LEFT JOIN relays ON relays.id = beginners.relay
  GROUP BY digest HAVING count(DISTINCT coalesce(holder, '')) = 1 AND beginners.relay IS NOT NULL;
COMMIT;
"""


def prepare(connection: sqlite3.Connection) -> None:
    """Make the table `delivered`, if a store that has the others is without it."""
    if _has(connection, "beginners") and not _has(connection, "delivered"):
        connection.executescript(_DELIVERED)


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone() is not None


def relays(connection: sqlite3.Connection) -> list[RelayRow]:
    """Return all relays, those that were heard of last first."""
    if not _has(connection, "relays"):
        return []  # an older hub made this store, and no newer one has opened it yet
    rows = connection.execute(
        "SELECT id, holder, host, since_t, heard_t, facts, points, refused FROM relays ORDER BY heard_t DESC, id"
    )
    return [RelayRow(*row) for row in rows]


def shippers(connection: sqlite3.Connection, origins: Sequence[str]) -> dict[str, str]:
    """Return the relay of each of these origins that is known; "" for one that no relay has shipped."""
    query = (
        "SELECT value, coalesce((SELECT relay FROM shippers WHERE origin = value),"
        " (SELECT '' FROM origins WHERE name = value)) AS found FROM json_each(?) WHERE found IS NOT NULL"
    )
    return dict(connection.execute(query, (json.dumps(list(origins)),)))


def beginners(connection: sqlite3.Connection, spans: Sequence[str]) -> dict[str, str]:
    """Return the relay that has begun each of these runs and hosts that is known; "" if it was begun here."""
    query = (
        "SELECT value, coalesce((SELECT relay FROM beginners WHERE span = value),"
        " (SELECT '' FROM spans WHERE id = value)) AS found FROM json_each(?) WHERE found IS NOT NULL"
    )
    return dict(connection.execute(query, (json.dumps(list(spans)),)))


def bind(
    connection: sqlite3.Connection, relay: str, origins: Iterable[str], spans: Iterable[str], *, anew: bool = False
) -> None:
    """Note what belongs to a relay, unless it belongs to another one already; `anew`: also if spans do."""
    connection.executemany(
        "INSERT INTO shippers VALUES (?, ?) ON CONFLICT DO UPDATE SET relay = excluded.relay WHERE relay = '?'",
        [(origin, relay) for origin in origins],
    )
    connection.executemany(
        f"INSERT OR {'REPLACE' if anew else 'IGNORE'} INTO beginners VALUES (?, ?)", [(span, relay) for span in spans]
    )


def note(connection: sqlite3.Connection, seen: RelayRow) -> None:
    """Note that a relay was heard of; its counts are added to those that are here."""
    connection.execute(
        "INSERT INTO relays VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET holder = excluded.holder,"
        " host = excluded.host, heard_t = max(heard_t, excluded.heard_t), facts = facts + excluded.facts,"
        " points = points + excluded.points, refused = refused + excluded.refused",
        (seen.id, seen.holder, seen.host, seen.since_t, seen.heard_t, seen.facts, seen.points, seen.refused),
    )


def holders(connection: sqlite3.Connection, runs: Sequence[str]) -> dict[str, str]:
    """Return whose each of these runs is; those of the owner are left out."""
    if not _has(connection, "beginners"):
        return {}  # a store from before there were others
    query = (
        "SELECT span, holder FROM beginners JOIN relays ON relays.id = relay"
        " WHERE holder <> '' AND span IN (SELECT value FROM json_each(?))"
    )
    return dict(connection.execute(query, (json.dumps(list(runs)),)))


def delivered(connection: sqlite3.Connection, digests: Sequence[str], holder: str) -> set[str]:
    """Return those of these files whose bytes some relay of a holder has sent."""
    if not _has(connection, "delivered"):
        return set()
    query = (
        "SELECT digest FROM delivered JOIN relays ON relays.id = relay"
        " WHERE holder = ? AND digest IN (SELECT value FROM json_each(?))"
    )
    return {digest for (digest,) in connection.execute(query, (holder, json.dumps(list(digests))))}


def delivered_bytes(connection: sqlite3.Connection, holder: str) -> int:
    """Return how large all files are together that relays of a holder have sent."""
    query = "SELECT DISTINCT digest, size FROM delivered JOIN relays ON relays.id = relay WHERE holder = ?"
    return int(connection.execute(f"SELECT coalesce(sum(size), 0) FROM ({query})", (holder,)).fetchone()[0])


def note_delivered(connection: sqlite3.Connection, sizes: Mapping[str, int], relay: str) -> None:
    """Note that a relay has sent the bytes of these files."""
    rows = [(digest, relay, size) for digest, size in sizes.items()]
    connection.executemany("INSERT OR REPLACE INTO delivered VALUES (?, ?, ?)", rows)


def forget_delivered(connection: sqlite3.Connection, digest: str) -> None:
    """Forget who has sent the bytes of a file."""
    connection.execute("DELETE FROM delivered WHERE digest = ?", (digest,))
