"""Reading a SQLite store: spans, events, origins, files and series."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vedette.errors import DamagedError
from vedette.ids import range_below
from vedette.labels import label
from vedette.model import Origin
from vedette.store import sqlite_relays
from vedette.store.queries import EventQuery, SpanQuery, Where
from vedette.store.rows import BlobRow, EventRow, Mark, OriginRow, RelayRow, SeriesRow, SpanRow
from vedette.store.sqlite_connection import damaged
from vedette.store.sqlite_read_points import PointReader
from vedette.store.sqlite_where import to_order, to_sql

_STEPS = 10_000  # steps of SQLite's virtual machine between two calls of `enough`: about a millisecond


class SqliteReader(PointReader):
    """The reading half of a SQLite store."""

    file: tuple[int, int] | None = None  # which file it reads, if it was opened to read

    def heed(self, enough: Callable[[], bool]) -> None:
        """Interrupt a read with sqlite3.OperationalError as soon as `enough` returns True; it is called often."""
        self.connection.set_progress_handler(lambda: int(enough()), _STEPS)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def marks(self, origins: Sequence[str] | None = None) -> dict[tuple[str, str], Mark]:
        """Return the mark of each (origin, lane), of these origins or of all."""
        among = "" if origins is None else " WHERE name IN (SELECT value FROM json_each(?))"
        rows = self.connection.execute(
            "SELECT name, lane, place, damaged, refused FROM marks JOIN origins ON origins.id = marks.origin" + among,
            () if origins is None else (json.dumps(list(origins)),),
        )
        return {(row[0], row[1]): Mark(*row[2:]) for row in rows}

    def count_samples(self, origin: str, after: int, until: int) -> int:
        """Return how many samples of an origin are here between two offsets."""
        from vedette.store import chunks

        rows = self.connection.execute(
            "SELECT first_n, last_n, count, n FROM axes WHERE origin = (SELECT id FROM origins WHERE name = ?)"
            " AND first_n <= ? AND last_n > ?",
            (origin, until, after),
        )
        found = 0
        for first, last, count, packed in rows:
            whole = after < first and last <= until
            n = None if whole else chunks.unpack_offsets(packed, count)
            found += count if n is None else int(((n > after) & (n <= until)).sum())
        return found

    def relays(self) -> list[RelayRow]:
        """Return the hubs that have relayed to this one."""
        return sqlite_relays.relays(self.connection)

    def holders(self, runs: Sequence[str]) -> dict[str, str]:
        """Return whose each of these runs is; those of the owner are left out."""
        return sqlite_relays.holders(self.connection, runs)

    def delivered(self, digests: Sequence[str], holder: str) -> set[str]:
        """Return those of these files whose bytes some relay of a holder has sent."""
        return sqlite_relays.delivered(self.connection, digests, holder)

    def delivered_bytes(self, holder: str) -> int:
        """Return how large all files are together that relays of a holder have sent."""
        return sqlite_relays.delivered_bytes(self.connection, holder)

    def origins(self, spans: Sequence[str] | None = None, since: int = 0) -> list[OriginRow]:
        """Return the origins of these runs (None: of all runs) that were known alive at `since` or later."""
        among = "" if spans is None else " AND span IN (SELECT value FROM json_each(?))"
        rows = self.connection.execute(
            "SELECT name, host, boot, pid, started, span, process, heard_t,"
            " (SELECT coalesce(sum(most), 0) FROM (SELECT max(damaged) AS most FROM marks"
            "  WHERE marks.origin = origins.id GROUP BY substr(lane, 1, 1))),"
            " (SELECT coalesce(sum(most), 0) FROM (SELECT max(refused) AS most FROM marks"
            "  WHERE marks.origin = origins.id GROUP BY substr(lane, 1, 1))), skew_s"
            f" FROM origins WHERE heard_t >= ?{among} ORDER BY id",
            (since,) if spans is None else (since, json.dumps(list(spans))),
        )
        return [OriginRow(Origin(*row[:7]), *row[7:]) for row in rows]

    def origin(self, name: str) -> Origin | None:
        """Return an origin by its name, as it was first seen; None if it is unknown."""
        row = self.connection.execute(
            "SELECT name, host, boot, pid, started, span, process, main, voice FROM origins WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            return None
        _, host, boot, pid, started, span, process, main, voice = row
        return Origin(name, host, boot, pid, started, span, process, main=bool(main), voice=voice)

    def refusals(self, span: str = "") -> dict[str, int]:
        """Return how many points each limit has refused, by its name: of a run's processes, or of all."""
        among = "WHERE origin IN (SELECT id FROM origins WHERE span = ?)" if span else ""
        query = f"SELECT what, sum(count) FROM refusals {among} GROUP BY what ORDER BY what"
        return dict(self.connection.execute(query, (span,) if span else ()))

    def spans(self, query: SpanQuery) -> list[SpanRow]:
        """Return spans, the newest first."""
        return list(self.each_span(query))

    def each_span(self, query: SpanQuery) -> Iterator[SpanRow]:
        """Yield spans, the newest first."""
        terms: list[str] = []
        values: list[Any] = []
        for column in ("kind", "parent", "name"):
            if wanted := getattr(query, column):
                # The other terms match few spans; + keeps SQLite from using the index by kind, which matches many.
                near = column == "kind" and (query.prefix or query.parent or query.parents or query.ids)
                terms.append(f"{'+' if near else ''}{column} = ?")
                values.append(wanted)
        if query.parents:
            terms.append("parent IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(query.parents))
        if query.ids is not None:
            terms.append("id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(query.ids))
        if query.prefix:
            terms.append("id >= ? AND id < ?")
            values += [query.prefix, query.prefix + "\U0010ffff"]
        if query.where is not None:
            sql, bound = to_sql(query.where)
            terms.append(sql)
            values += bound
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        limit = f" LIMIT {int(query.limit)}" if query.limit is not None else ""
        attrs = "attrs"
        if query.only is not None:
            attrs = f"json_object({', '.join(['?, json_extract(attrs, ?)'] * len(query.only))})"
            values = [word for key in query.only for word in (key, "$." + json.dumps(key))] + values
        order, ordering = to_order(query.order)
        rows = self.connection.execute(
            f"SELECT id, kind, name, parent, state, cause, start_t, end_t, done, {attrs} FROM spans"
            f"{where} ORDER BY {order}{limit}",
            [*values, *ordering],
        )
        return map(_span, rows)

    def events(self, query: EventQuery) -> list[EventRow]:
        """Return events, the oldest first."""
        terms = ["events.id > ?", "level >= ?"]
        values: list[Any] = [query.after, query.level]
        for term, value in (("events.id < ?", query.before), ("t >= ?", query.from_t), ("t <= ?", query.to_t)):
            if value is not None:
                terms.append(term)
                values.append(value)
        if query.contains:
            terms.append("instr(lower(text), lower(?)) > 0")
            values.append(query.contains)
        if query.process:
            terms.append("events.origin IN (SELECT id FROM origins WHERE process = ?)")
            values.append(query.process)
        if query.kinds:
            terms.append(f"kind IN ({', '.join('?' * len(query.kinds))})")
            values += query.kinds
        if query.search:
            terms.append("events.id IN (SELECT rowid FROM events_text WHERE events_text MATCH ?)")
            values.append(" ".join('"' + word.replace('"', '""') + '"' for word in query.search.split()))
        if query.span:
            of, parts = "events.span = ?", "events.span > ? AND events.span < ?"
            bound: list[Any] = [query.span, *range_below(query.span)]
            if query.last is None:
                terms.append(f"({of} OR ({parts}))")
            else:  # use the index for the newest of the span itself: a run may have millions
                newest = f"SELECT id FROM events WHERE {' AND '.join([*terms, of])} ORDER BY id DESC LIMIT ?"
                terms.append(f"events.id IN (SELECT id FROM ({newest}) UNION ALL SELECT id FROM events WHERE {parts})")
                bound = [*values, bound[0], int(query.last), *bound[1:]]
            values += bound
        order = f"DESC LIMIT {int(query.last)}" if query.last is not None else "ASC"
        if query.last is None and query.first is not None:
            order += f" LIMIT {int(query.first)}"
        rows = self.connection.execute(
            "SELECT events.id, events.span, t, kind, level, text, attrs, coalesce(host, ''), coalesce(pid, 0)"
            " FROM events LEFT JOIN origins ON origins.id = events.origin"
            f" WHERE {' AND '.join(terms)} ORDER BY events.id {order}",
            values,
        )
        found = [_event(row) for row in rows]
        return found[::-1] if query.last is not None else found

    def blobs(
        self, span: str = "", after: tuple[str, str, str, int] | None = None, limit: int | None = None
    ) -> list[BlobRow]:
        """Return the files of a span and of the spans below it, or of all, sorted by key; `after`: from that key on."""
        terms: list[str] = []
        values: list[Any] = []
        if span:
            terms.append("(span = ? OR (span > ? AND span < ?))")
            values += [span, *range_below(span)]
        if after is not None:
            terms.append("(span, name, origin, n) > (?, ?, ?, ?)")
            values += after
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        rows = self.connection.execute(
            f"SELECT span, name, digest, size, media, t, origin, n FROM blobs{where}"
            f" ORDER BY span, name, origin, n{f' LIMIT {int(limit)}' if limit is not None else ''}",
            values,
        )
        return [BlobRow(*row) for row in rows]

    def series(self, spans: Sequence[str] | None = None, name: str | None = None) -> list[SeriesRow]:
        """Return the series of these spans, with this name if one is given."""
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
        """Return the newest sealed value of each series, by span and label, those without tags first."""
        among = "" if spans is None else " WHERE span IN (SELECT value FROM json_each(?))"
        rows = self.connection.execute(
            f"SELECT span, name, tags, last FROM series{among} ORDER BY span, tags <> '{{}}', name, tags",
            () if spans is None else (json.dumps(list(spans)),),
        )
        values: dict[str, dict[str, float | int]] = defaultdict(dict)
        for span, name, tags, last in rows:
            values[span][label(name, _object(tags))] = math.nan if last == "nan" else last
        return dict(values)

    def written(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when attributes of these spans were last written."""
        return dict(
            self.connection.execute(
                "SELECT span, max(t) FROM writes WHERE span IN (SELECT value FROM json_each(?)) GROUP BY span",
                (json.dumps(list(spans)),),
            )
        )

    def advanced(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when the progress of these spans was last written."""
        return dict(
            self.connection.execute(
                "SELECT span, max(t) FROM progress WHERE span IN (SELECT value FROM json_each(?)) GROUP BY span",
                (json.dumps(list(spans)),),
            )
        )

    def weigh(self, spans: Sequence[str] | None = None) -> int:
        """Return about how many bytes these spans and their parts take (None: exactly how many the store uses)."""
        if spans is None:
            pages, free, size = (
                self.connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            return int((pages - free) * size)
        total = 0
        for span in spans:
            for query in _WEIGHTS:
                of, parts = query.format("span = ?"), query.format("span > ? AND span < ?")
                total += self.connection.execute(of, (span,)).fetchone()[0]
                total += self.connection.execute(parts, range_below(span)).fetchone()[0]
        return total

    def columns(self, where: Where, newest: int) -> list[tuple[str, int]]:
        """Return the attributes and series of the `newest` newest runs that match, and how many runs have each."""
        sql, bound = to_sql(where)
        runs = f"SELECT id, attrs FROM spans WHERE kind = 'run' AND {sql} ORDER BY start_t DESC LIMIT {int(newest)}"
        rows = self.connection.execute(
            f"WITH newest AS MATERIALIZED ({runs})"
            " SELECT key, '{}', count(*) FROM newest, json_each(newest.attrs) GROUP BY key UNION ALL"
            " SELECT 'metric.' || name, tags, count(*) FROM newest JOIN series ON series.span = newest.id"
            " GROUP BY name, tags ORDER BY 3 DESC, 1, 2",
            bound,
        )
        return [(label(str(name), _object(tags)), int(count)) for name, tags, count in rows]

    def projects(self) -> list[str]:
        """Return the projects of all runs, by name."""
        rows = self.connection.execute(
            "SELECT DISTINCT json_extract(attrs, '$.project') FROM spans WHERE kind = 'run' AND state <> 'purged'"
            " AND NOT coalesce(json_extract(attrs, '$.removed'), 0)"
        )
        return sorted(str(name) for (name,) in rows if name)

    def density(self, span: str, from_t: int, to_t: int, buckets: int) -> list[tuple[int, int, int]]:
        """Count the events of a span and its parts as (bucket, level, count); buckets divide the time equally."""
        width = max(1, -(-(to_t - from_t + 1) // buckets))
        counts = "SELECT (t - ?1) / ?2, level, count(*) FROM events WHERE {} AND t >= ?1 AND t <= ?3 GROUP BY 1, 2"
        of, parts = counts.format("span = ?4"), counts.format("span > ?5 AND span < ?6")
        values = from_t, width, to_t, span, *range_below(span)
        return self.connection.execute(f"{of} UNION ALL {parts}", values).fetchall()


_ROW_BYTES = 40  # bytes of a row beside its text: its header, its numbers, its index entries
_CHUNKS = "FROM series CROSS JOIN chunks ON chunks.series = series.id WHERE {0}"
_WEIGHTS = (
    f"SELECT coalesce(sum(length(value) + {_ROW_BYTES}), 0) {_CHUNKS}",
    f"SELECT coalesce(sum(length(t) + length(step) + {_ROW_BYTES}), 0) FROM axes WHERE id IN (SELECT axis {_CHUNKS})",
    f"SELECT coalesce(sum(2 * length(text) + length(attrs) + {_ROW_BYTES}), 0) FROM events WHERE {{0}}",
    f"SELECT coalesce(sum(length(attrs) + {_ROW_BYTES}), 0) FROM writes WHERE {{0}}",
)


def _object(text: str) -> dict[str, Any]:
    if text == "{}":  # most are empty, and a page may read 10,000 series at once
        return {}
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DamagedError(damaged("it has attributes that are not a JSON object"))
    return value


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
