"""Ends that wait until all that was said before them is in the store, too: the table `awaited`.

Whoever relays can make any number of its rows. So there is a most, and what is awaited is in memory, too, sorted by
place: a commit costs as much as it completes, however many wait.
"""

import heapq
import math
import sqlite3
import time
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from vedette.model import ENDS, LANE_FACTS, LANE_SAMPLES, Span

_MOST = 100_000  # places in all; those beyond them are not waited for
_AGAIN_S = 5.0  # so often at most the table is read again to find room; that takes some tenths of a second


class Awaiting:
    """Knows what is awaited. Its methods that write are called inside transactions of the store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        # By origin and lane: places and who waits for them, the nearest first. What is no more in the table stays
        # until its origin has come so far; so these are as many as there are rows, or more.
        self._waiting: dict[str, dict[str, list[tuple[int, str]]]] = {}
        self._count = 0
        self._is_stale = True
        self._looked_s = -math.inf

    def read_again(self) -> None:
        """Have the table read again before it is needed: a transaction has failed."""
        self._is_stale = True

    def holds(self, span: str) -> bool:
        """Tell whether the end of a span must not be shown yet."""
        return self._connection.execute("SELECT 1 FROM awaited WHERE span = ?", (span,)).fetchone() is not None

    def origins(self) -> AbstractSet[str]:
        """Return the origins whose records are awaited."""
        self._refresh()
        return self._waiting.keys()

    def update(self, records: Iterable[Span], moved: Iterable[str]) -> set[str]:
        """Note what the ends among these records wait for; return the spans that need not wait any more.

        `moved`: the origins of which something has come.
        """
        self._refresh()
        rows = [
            (record.id, place.origin, lane, offset)
            for record in records
            if record.state in ENDS
            for place in record.after
            for lane, offset in ((LANE_FACTS, place.facts), (LANE_SAMPLES, place.samples))
            if offset
        ]
        rows = rows[: self._room(len(rows))]
        for row in rows:
            changed = self._connection.execute(
                "INSERT INTO awaited VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET place = excluded.place WHERE excluded.place > place",
                row,
            )
            if changed.rowcount:
                self._note(*row)
        return self._reach({*moved, *(row[1] for row in rows)})

    def give_up(self, origin: str) -> set[str]:
        """Await nothing more of an origin; return the spans that waited for it."""
        self._refresh()
        waiting = [span for heap in self._waiting.pop(origin, {}).values() for _, span in heap]
        self._count -= len(waiting)
        found = set()
        for span in set(waiting):
            gone = self._connection.execute("DELETE FROM awaited WHERE span = ? AND origin = ?", (span, origin))
            if gone.rowcount:
                found.add(span)
        return found

    def _refresh(self) -> None:
        """Read the table, if it may have other rows than are known here."""
        if not self._is_stale:
            return
        self._waiting.clear()
        self._count = 0
        for row in self._connection.execute("SELECT span, origin, lane, place FROM awaited"):
            self._note(*row)
        self._is_stale = False

    def _note(self, span: str, origin: str, lane: str, place: int) -> None:
        heapq.heappush(self._waiting.setdefault(origin, {}).setdefault(lane, []), (place, span))
        self._count += 1

    def _room(self, wanted: int) -> int:
        """Return how many places more may be awaited."""
        now = time.monotonic()
        if self._count + wanted > _MOST and now - self._looked_s > _AGAIN_S:
            self._looked_s = now
            rows = self._connection.execute("SELECT count(*) FROM awaited").fetchone()[0]
            if rows < self._count:  # some were given up, or purged
                self._is_stale = True
                self._refresh()
        return max(0, _MOST - self._count)

    def _reach(self, origins: Iterable[str]) -> set[str]:
        """Delete what these origins have reached; return the spans that waited for it."""
        found = set()
        for origin in self._waiting.keys() & set(origins):
            marks = dict(
                self._connection.execute(
                    "SELECT lane, place FROM marks WHERE origin = (SELECT id FROM origins WHERE name = ?)", (origin,)
                )
            )
            heaps = self._waiting[origin]
            for lane, heap in list(heaps.items()):
                while heap and heap[0][0] <= marks.get(lane, 0):
                    _, span = heapq.heappop(heap)
                    self._count -= 1
                    self._connection.execute(
                        "DELETE FROM awaited WHERE span = ? AND origin = ? AND lane = ? AND place <= ?",
                        (span, origin, lane, marks[lane]),
                    )
                    found.add(span)
                if not heap:
                    del heaps[lane]
            if not heaps:
                del self._waiting[origin]
        return found
