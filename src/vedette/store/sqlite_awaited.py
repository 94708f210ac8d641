"""Ends that wait until all that was said before them is in the store, too: the table `awaited`."""

import sqlite3
from collections.abc import Iterable, Sequence

from vedette.model import ENDS, LANE_FACTS, LANE_SAMPLES, Span

_REACHED = (
    "place <= (SELECT marks.place FROM marks JOIN origins ON origins.id = marks.origin"
    " WHERE origins.name = awaited.origin AND marks.lane = awaited.lane)"
)


class Awaiting:
    """Knows what is awaited. Its methods that write are called inside transactions of the store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def holds(self, span: str) -> bool:
        """Tell whether the end of a span must not be shown yet."""
        return self._connection.execute("SELECT 1 FROM awaited WHERE span = ?", (span,)).fetchone() is not None

    def origins(self) -> set[str]:
        """Return the origins whose records are awaited."""
        return {name for (name,) in self._connection.execute("SELECT DISTINCT origin FROM awaited")}

    def update(self, records: Iterable[Span]) -> set[str]:
        """Note what the ends among these records wait for; return the spans that need not wait any more."""
        self._connection.executemany(
            "INSERT INTO awaited VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET place = max(place, excluded.place)",
            [
                (record.id, place.origin, lane, offset)
                for record in records
                if record.state in ENDS
                for place in record.after
                for lane, offset in ((LANE_FACTS, place.facts), (LANE_SAMPLES, place.samples))
                if offset
            ],
        )
        return self._delete(_REACHED)

    def give_up(self, origin: str) -> set[str]:
        """Await nothing more of an origin; return the spans that waited for it."""
        return self._delete("origin = ?", origin)

    def _delete(self, which: str, *values: str) -> set[str]:
        rows: Sequence[tuple[str]] = self._connection.execute(
            f"DELETE FROM awaited WHERE {which} RETURNING span", values
        ).fetchall()
        return {span for (span,) in rows}
