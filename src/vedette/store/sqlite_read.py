"""How a SQLite store answers."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vedette.model import Origin
from vedette.store import EventQuery, EventRow, Mark, OriginRow, Points, SeriesRow, SpanQuery, SpanRow, chunks
from vedette.store.sqlite_where import to_sql


class SqliteReader:
    """The reading half of a SQLite store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def marks(self) -> dict[tuple[str, str], Mark]:
        """Return how far each (origin, lane) is."""
        rows = self.connection.execute(
            "SELECT name, lane, place, damaged, refused FROM marks JOIN origins ON origins.id = marks.origin"
        )
        return {(row[0], row[1]): Mark(*row[2:]) for row in rows}

    def origins(self) -> list[OriginRow]:
        """Return who has spoken."""
        rows = self.connection.execute(
            "SELECT name, host, boot, pid, started, span, process, heard_t,"
            " (SELECT coalesce(sum(damaged), 0) FROM marks WHERE marks.origin = origins.id),"
            " (SELECT coalesce(sum(refused), 0) FROM marks WHERE marks.origin = origins.id) FROM origins ORDER BY id"
        )
        return [OriginRow(Origin(*row[:7]), *row[7:]) for row in rows]

    def spans(self, query: SpanQuery) -> list[SpanRow]:
        """Return spans, the newest first."""
        terms: list[str] = []
        values: list[Any] = []
        for column in ("kind", "parent", "name"):
            if wanted := getattr(query, column):
                terms.append(f"{column} = ?")
                values.append(wanted)
        if query.prefix:
            terms.append("id >= ? AND id < ?")
            values += [query.prefix, query.prefix + "\U0010ffff"]
        if query.where is not None:
            sql, bound = to_sql(query.where)
            terms.append(sql)
            values += bound
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        limit = f" LIMIT {int(query.limit)}" if query.limit is not None else ""
        rows = self.connection.execute(
            "SELECT id, kind, name, parent, state, cause, start_t, end_t, done, attrs FROM spans"
            f"{where} ORDER BY start_t DESC, id DESC{limit}",
            values,
        )
        return [_span(row) for row in rows]

    def events(self, query: EventQuery) -> list[EventRow]:
        """Return events, the oldest first."""
        terms = ["events.id > ?", "level >= ?"]
        values: list[Any] = [query.after, query.level]
        if query.span:
            terms.append("(events.span = ? OR (events.span > ? AND events.span < ?))")
            values += [query.span, query.span + "/", query.span + "0"]  # '0' follows '/'
        if query.kinds:
            terms.append(f"kind IN ({', '.join('?' * len(query.kinds))})")
            values += query.kinds
        if query.search:
            terms.append("events.id IN (SELECT rowid FROM events_text WHERE events_text MATCH ?)")
            values.append(" ".join('"' + word.replace('"', '""') + '"' for word in query.search.split()))
        order = f"DESC LIMIT {int(query.last)}" if query.last is not None else "ASC"
        rows = self.connection.execute(
            "SELECT events.id, events.span, t, kind, level, text, attrs, coalesce(host, ''), coalesce(pid, 0)"
            " FROM events LEFT JOIN origins ON origins.id = events.origin"
            f" WHERE {' AND '.join(terms)} ORDER BY events.id {order}",
            values,
        )
        found = [_event(row) for row in rows]
        return found[::-1] if query.last is not None else found

    def series(self, spans: Sequence[str] | None = None, name: str | None = None) -> list[SeriesRow]:
        """Return the series of these spans, of this name if one is given."""
        terms, values = ["1"], []
        if spans is not None:
            terms.append("span IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(list(spans)))
        if name is not None:
            terms.append("name = ?")
            values.append(name)
        rows = self.connection.execute(
            "SELECT id, span, name, tags, count, min, max, last, last_step, last_t FROM series"
            f" WHERE {' AND '.join(terms)} ORDER BY span, name, tags",
            values,
        )
        return [_series(row) for row in rows]

    def last_values(self, spans: Sequence[str] | None = None) -> dict[str, dict[str, float | int]]:
        """Return the newest sealed value of each series without tags, by span and name."""
        among = "" if spans is None else " AND span IN (SELECT value FROM json_each(?))"
        rows = self.connection.execute(
            f"SELECT span, name, last FROM series WHERE tags = '{{}}'{among} ORDER BY span, name",
            () if spans is None else (json.dumps(list(spans)),),
        )
        values: dict[str, dict[str, float | int]] = defaultdict(dict)
        for span, name, last in rows:
            values[span][name] = math.nan if last == "nan" else last
        return dict(values)

    def points(self, series: Sequence[int]) -> dict[int, Points]:
        """Return all points of these series, by step and then time."""
        rows = self.connection.execute(
            "SELECT series, axis, value, t, step FROM chunks JOIN axes ON axes.id = chunks.axis"
            " WHERE series IN (SELECT value FROM json_each(?)) ORDER BY series, origin, first_n",
            (json.dumps(list(series)),),
        )
        parts: dict[int, list[tuple[Any, Any, Any]]] = defaultdict(list)
        axes: dict[int, tuple[Any, Any]] = {}
        for number, axis, value, t, step in rows:
            if axis not in axes:
                axes[axis] = chunks.unpack(t), chunks.unpack(step)
            parts[number].append((*axes[axis], chunks.unpack(value)))
        return {number: _join(parts.get(number, [])) for number in series}

    def pieces(self, series: int) -> Iterator[Points]:
        """Yield the points of a series, a chunk at a time where they lie in order; else all at once, sorted."""
        if not self._lies_in_order(series):
            yield self.points([series])[series]
            return
        rows = self.connection.execute(f"SELECT t, step, value {_CHUNKS_IN_ORDER}", (series,))
        for t, step, value in rows:
            yield Points(chunks.unpack(step), chunks.unpack(t) * 1000, chunks.unpack(value))

    def _lies_in_order(self, series: int) -> bool:
        last = (-(1 << 63), -(1 << 63))
        for packed in self.connection.execute(f"SELECT t, step {_CHUNKS_IN_ORDER}", (series,)):
            t, step = (chunks.unpack(column) for column in packed)
            if (step[0], t[0]) < last or _disordered(t, step):
                return False
            last = step[-1], t[-1]
        return True


_CHUNKS_IN_ORDER = "FROM chunks JOIN axes ON axes.id = chunks.axis WHERE series = ? ORDER BY origin, first_n"


def _disordered(t: Any, step: Any) -> bool:
    return bool(np.any((step[1:] < step[:-1]) | ((step[1:] == step[:-1]) & (t[1:] < t[:-1]))))


def _join(parts: list[tuple[Any, Any, Any]]) -> Points:
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return Points(empty, empty, np.empty(0))
    t, step, value = (column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*parts, strict=True))
    if _disordered(t, step):
        order = np.lexsort((t, step))
        t, step, value = t[order], step[order], value[order]
    return Points(step, t * 1000, value)


def _object(text: str) -> dict[str, Any]:
    return {} if text == "{}" else json.loads(text)  # most are empty, and 10,000 series are read at once


def _span(row: tuple[Any, ...]) -> SpanRow:
    id_, kind, name, parent, state, cause, start_t, end_t, done, attrs = row
    return SpanRow(id_, kind, name, parent, state, cause, start_t, end_t, done, _object(attrs))


def _event(row: tuple[Any, ...]) -> EventRow:
    id_, span, t, kind, level, text, attrs, host, pid = row
    return EventRow(id_, span, t, kind, level, text, _object(attrs), host, pid)


def _series(row: tuple[Any, ...]) -> SeriesRow:
    id_, span, name, tags, count, low, high, last, last_step, last_t = row
    last = math.nan if last == "nan" else last
    return SeriesRow(id_, span, name, _object(tags), count, low, high, last, last_step, last_t)
