"""Reading points from a SQLite store: chunks of series, unpacked.

numpy and the code that unpacks are imported with the first chunk: most readers only ask for spans and events.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from vedette.errors import DamagedError
from vedette.store.points import Part, Points, by_step, disordered, joined
from vedette.store.rows import ChunkRow
from vedette.store.sqlite_connection import damaged

_MOST_RECENT_CHUNKS = 32
_CHUNKS_IN_ORDER = "FROM chunks JOIN axes ON axes.id = chunks.axis WHERE series = ? ORDER BY origin, first_n"


class PointReader:
    """Reads points; the other half of `SqliteReader`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def points(self, series: Sequence[int], within: tuple[int, int] | None = None) -> dict[int, Points]:
        """Return all points of these series, or those from one time to another, by step and then time."""
        found = {
            number: joined([part.points for part in parts]) for number, parts in self._parts(series, within).items()
        }
        if within is None:
            return found
        return {number: _cut(points, *within) for number, points in found.items()}

    def parts(self, series: Sequence[int]) -> dict[int, list[Part]]:
        """Return the same points, by the process that logged them."""
        return self._parts(series)

    def _parts(self, series: Sequence[int], within: tuple[int, int] | None = None) -> dict[int, list[Part]]:
        values: list[Any] = [json.dumps(list(series))]
        overlapping = ""
        if within is not None:  # a clock may have been set back while a chunk was logged
            overlapping = " AND max(first_t, last_t) >= ? AND min(first_t, last_t) <= ?"
            values += [-(-within[0] // 1000), within[1] // 1000]  # the store has microseconds
        rows = self.connection.execute(
            "SELECT series, process, axis, value, t, step FROM chunks JOIN axes ON axes.id = chunks.axis"
            " JOIN origins ON origins.id = axes.origin"
            f" WHERE series IN (SELECT value FROM json_each(?)){overlapping} ORDER BY series, origin, first_n",
            values,
        )
        found: dict[int, dict[str, list[tuple[Any, Any, Any]]]] = {number: {} for number in series}
        axes: dict[int, tuple[Any, Any]] = {}
        for number, process, axis, value, t, step in rows:
            if axis not in axes:
                axes[axis] = _unpack(step), _unpack(t) * 1000
            found[number].setdefault(process, []).append(_alike(*axes[axis], _unpack(value)))
        return {
            number: [Part(process, _points(columns)) for process, columns in processes.items()]
            for number, processes in found.items()
        }

    def recent(self, series: Sequence[int], count: int) -> dict[int, Points]:
        """Return about `count` of the newest points of each of these series, without reading many others."""
        found: dict[int, Points] = {}
        for number in series:
            chosen: list[int] = []
            left = count
            for chunk, points in self.connection.execute(
                "SELECT chunks.id, axes.count FROM chunks JOIN axes ON axes.id = chunks.axis WHERE series = ?"
                " ORDER BY axes.last_t DESC LIMIT ?",
                (number, _MOST_RECENT_CHUNKS),
            ):
                if left > 0:
                    chosen.append(chunk)
                    left -= points
            rows = self.connection.execute(
                "SELECT step, t, value FROM chunks JOIN axes ON axes.id = chunks.axis"
                " WHERE chunks.id IN (SELECT value FROM json_each(?)) ORDER BY origin, first_n",
                (json.dumps(chosen),),
            ).fetchall()
            points = joined([_unpacked(*row) for row in rows])
            found[number] = Points(points.step[-count:], points.t[-count:], points.value[-count:])
        return found

    def outline(self, series: int) -> list[ChunkRow]:
        """Return the chunks of a series, without their points, in the order in which each process logged them."""
        rows = self.connection.execute(
            "SELECT chunks.id, process, count, first_t, last_t, min, max FROM chunks JOIN axes ON axes.id = chunks.axis"
            " JOIN origins ON origins.id = axes.origin WHERE series = ? ORDER BY origin, first_n",
            (series,),
        )
        return [
            ChunkRow(id_, process, count, a * 1000, b * 1000, low, high, series)
            for id_, process, count, a, b, low, high in rows
        ]

    def chunks(self, rows: Sequence[ChunkRow]) -> Iterator[tuple[ChunkRow, Points]]:
        """Yield these chunks with their points, as they were logged."""
        for chunk in rows:
            row = self.connection.execute(
                "SELECT step, t, value FROM chunks JOIN axes ON axes.id = chunks.axis"
                " WHERE chunks.id = ? AND series = ? AND count = ?",
                (chunk.id, chunk.series, chunk.count),
            ).fetchone()
            if row is not None:  # else it was merged into another just now, or removed
                yield chunk, _unpacked(*row)

    def stretches(self, series: int) -> Iterator[Points]:
        """Yield the points of a series, chunk by chunk if they are stored in order; else all at once, sorted."""
        if not self._is_in_order(series):
            yield self.points([series])[series]
            return
        for row in self.connection.execute(f"SELECT step, t, value {_CHUNKS_IN_ORDER}", (series,)):
            yield _unpacked(*row)

    def _is_in_order(self, series: int) -> bool:
        last = (-(1 << 63), -(1 << 63))
        for packed in self.connection.execute(f"SELECT step, t {_CHUNKS_IN_ORDER}", (series,)):
            step, t = (_unpack(column) for column in packed)
            if (step[0], t[0]) < last or disordered(step, t):
                return False
            last = step[-1], t[-1]
        return True


def _unpack(column: bytes) -> Any:
    from vedette.store.chunks import unpack

    return unpack(column)


def _unpacked(step: bytes, t: bytes, value: bytes) -> Points:
    return Points(*_alike(_unpack(step), _unpack(t) * 1000, _unpack(value)))


def _alike(step: Any, t: Any, value: Any) -> tuple[Any, Any, Any]:
    if not len(step) == len(t) == len(value):
        raise DamagedError(damaged("a chunk does not have as many numbers as its axis"))
    return step, t, value


def _points(parts: list[tuple[Any, Any, Any]]) -> Points:
    import numpy as np

    step, t, value = (column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*parts, strict=True))
    return by_step(step, t, value)


def _cut(points: Points, from_t: int, to_t: int) -> Points:
    inside = (points.t >= from_t) & (points.t <= to_t)
    return points if inside.all() else Points(points.step[inside], points.t[inside], points.value[inside])
