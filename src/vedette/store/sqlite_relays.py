"""The relays that have shipped to a store, and what each of them may go on with: `relays`, `shippers`, `beginners`."""

import json
import sqlite3
from collections.abc import Iterable, Sequence

from vedette.store.rows import RelayRow


def relays(connection: sqlite3.Connection) -> list[RelayRow]:
    """Return all relays, those that were heard of last first."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'relays'").fetchone() is None:
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
