"""Points in a SQLite store: series, their axes (times and steps), and their values as compressed chunks."""

import itertools
import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from vedette.recent import Recent
from vedette.store import Block, Columns, chunks
from vedette.store.points import FULL, MERGED
from vedette.store.sqlite_few import FewRows
from vedette.store.sqlite_json import to_json

_MOST_SERIES, _MOST_SPANS = 5000, 500  # that are remembered: what can be read again need not grow for half an hour
_MANY_NAMES = 50  # in one record
_MERGES_AT_ONCE = 20  # groups of chunks that are merged in one transaction
_WORTH_POINTS, _WORTH_CHUNKS = 512, 8  # fewer points in fewer chunks than these are not worth a merge


class PointWriter:
    """Writes points; all but `tidy` inside the caller's transaction."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        transaction: Callable[[], AbstractContextManager[None]],
        most_series: int,
    ) -> None:
        """Write on this connection; `most_series`: the most series of one span."""
        self._connection = connection
        self._transaction = transaction
        self._most_series = most_series
        self._series: Recent[tuple[str, str, str], int] = Recent(_MOST_SERIES)
        self._series_of: Recent[str, int] = Recent(_MOST_SPANS)  # how many series a span has

    def forget(self) -> None:
        """Empty the caches: a transaction was rolled back."""
        self._series.clear()
        self._series_of.clear()

    def keep(self, origin: int, groups: Iterable[Columns | Block], refusals: Counter[str]) -> None:
        """Keep samples as chunks; refuse and count those of series beyond the limit."""
        few = FewRows(self._connection)
        for group in groups:
            tags = to_json(group.tags)
            many = len(group.names) > _MANY_NAMES
            made = self._make_series(group.span, group.names, tags) if many else {}
            found = [made.get(name) or self.series_number(group.span, name, tags) for name in group.names]
            if None in found:
                refusals["limits.series_per_run"] += len(group.n) * found.count(None)
            if isinstance(group, Columns) and few.fit(group):
                few.add(origin, group, found)
            elif any(number is not None for number in found):
                self._keep_block(origin, group.block(), found)
        self.count(few.write())

    def _keep_block(self, origin: int, block: Block, found: list[int | None]) -> None:
        numbers = [number for number in found if number is not None]
        columns = [value for number, value in zip(found, block.values, strict=True) if number is not None]
        t, step = block.t // 1000, block.step
        for at in range(0, len(t), FULL):
            part = slice(at, at + FULL)
            n = block.n[part]
            axis = self.keep_axis(origin, n, t[part], step[part])
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
        self.count(rows)

    def count(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add points to the rows of series: how many, min, max, and last, last_step and last_t of the newest."""
        self._connection.executemany(_UPDATE_SERIES, rows)

    def keep_axis(self, origin: int, n: Any, t: Any, step: Any, *, tight: bool = False) -> int:
        """Keep offsets, times and steps of some samples."""
        packed = (chunks.pack(t, tight=tight), chunks.pack(step), chunks.pack_offsets(n))
        cursor = self._connection.execute(
            "INSERT INTO axes (origin, first_n, last_n, count, first_t, last_t, t, step, n)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (origin, int(n[0]), int(n[-1]), len(t), int(t[0]), int(t[-1]), *packed),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _keep_values(self, axis: int, columns: Iterable[tuple[int, Any]], *, tight: bool = False) -> None:
        self._connection.executemany(
            "INSERT INTO chunks (series, axis, min, max, sum, value) VALUES (?, ?, ?, ?, ?, ?)",
            [(number, axis, *chunks.extremes(value), chunks.pack(value, tight=tight)) for number, value in columns],
        )

    def series_number(self, span: str, name: str, tags: str) -> int | None:
        """Return the number of a series, creating it if needed; None when its span has the most series already."""
        key = (span, name, tags)
        number = self._series.get(key)
        if number is not None:
            return number
        run = self._connection.execute
        row = run("SELECT id FROM series WHERE span = ? AND name = ? AND tags = ?", key).fetchone()
        if row is None:
            if span not in self._series_of:
                self._series_of[span] = run("SELECT count(*) FROM series WHERE span = ?", (span,)).fetchone()[0]
            if self._series_of[span] >= self._most_series:
                return None
            self._series_of[span] += 1
            row = (run("INSERT INTO series (span, name, tags) VALUES (?, ?, ?)", key).lastrowid,)
        self._series[key] = int(row[0])
        return self._series[key]

    def _make_series(self, span: str, names: Sequence[str], tags: str) -> dict[str, int]:
        """Create the series of a wide record, as many as there may be; return the numbers of those not in the cache.

        SQLite reads the names from one text, sorted: twice as quick as row by row. It would cut a name at a NUL.
        """
        unknown = [name for name in names if (span, name, tags) not in self._series and "\0" not in name]
        if not unknown:
            return {}
        run = self._connection.execute
        count = run("SELECT count(*) FROM series WHERE span = ?", (span,)).fetchone()[0]
        known: dict[str, int] = {}
        if count:
            among = "span = ? AND tags = ? AND name IN (SELECT value FROM json_each(?))"
            rows = run(f"SELECT name, id FROM series WHERE {among}", (span, tags, json.dumps(unknown)))
            known = dict(rows.fetchall())
        room = max(0, self._most_series - count)
        new = sorted([name for name in dict.fromkeys(unknown) if name not in known][:room])
        newest = run("SELECT seq FROM sqlite_sequence WHERE name = 'series'").fetchone() or (0,)
        run(
            "INSERT INTO series (id, span, name, tags) SELECT ? + key, ?, value, ? FROM json_each(?)",
            (first := newest[0] + 1, span, tags, json.dumps(new)),
        )
        known |= zip(new, itertools.count(first), strict=False)
        self._series_of.pop(span, None)
        for name, number in known.items():
            self._series[span, name, tags] = number
        return known

    def tidying(self, origin: str, *, all_of_them: bool) -> Iterator[int]:
        """Merge an origin's short chunks into long ones, some in each transaction; yield how many were merged.

        `all_of_them`: also where it brings little.
        """
        row = self._connection.execute("SELECT id FROM origins WHERE name = ?", (origin,)).fetchone()
        if row is None:
            return
        merges = self._merges(int(row[0]), all_of_them=all_of_them)
        while some := list(itertools.islice(merges, _MERGES_AT_ONCE)):
            with self._transaction():
                merged = sum(self._merge(int(row[0]), series, axes) for series, axes in some)
            yield merged

    def _merges(self, origin: int, *, all_of_them: bool) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the axes that should become one, with the series that they have."""
        short = self._connection.execute(
            "SELECT id, count, (SELECT group_concat(series) FROM (SELECT series FROM chunks WHERE axis = axes.id"
            " ORDER BY series)) FROM axes WHERE origin = ? AND count < ? ORDER BY first_n",
            (origin, MERGED // 2),
        ).fetchall()
        groups: dict[str, list[list[int]]] = defaultdict(lambda: [[]])
        points: dict[str, list[int]] = defaultdict(lambda: [0])
        for axis, count, series in short:
            if points[series][-1] >= MERGED:
                groups[series].append([])
                points[series].append(0)
            groups[series][-1].append(axis)
            points[series][-1] += count
        for series, parts in groups.items():
            numbers = [int(number) for number in (series or "").split(",") if number]
            for axes, count in zip(parts, points[series], strict=True):
                worth = all_of_them or count >= _WORTH_POINTS or len(axes) >= _WORTH_CHUNKS
                if worth and len(axes) > 1:
                    yield numbers, axes

    def _merge(self, origin: int, series: list[int], axes: list[int]) -> int:
        """Merge several axes of the same series into one, one series at a time, to save memory; return how many.

        If some were removed meanwhile, nothing is merged.
        """
        wanted = (json.dumps(axes),)
        among = "IN (SELECT value FROM json_each(?))"
        run = self._connection.execute
        rows = run(f"SELECT t, step, n, count FROM axes WHERE id {among} ORDER BY first_n", wanted).fetchall()
        if len(rows) < len(axes):
            return 0
        t, step = (np.concatenate([chunks.unpack(row[part]) for row in rows]) for part in (0, 1))
        n = np.concatenate([chunks.unpack_offsets(row[2], row[3]) for row in rows])
        order = np.argsort(n, kind="stable")
        axis = self.keep_axis(origin, n[order], t[order], step[order], tight=True)
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
        return len(axes)


_UPDATE_SERIES = """
UPDATE series SET count = count + ?1,
  min = min(coalesce(min, ?2), coalesce(?2, min)), max = max(coalesce(max, ?3), coalesce(?3, max)),
  last = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?4 ELSE last END,
  last_step = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?5 ELSE last_step END,
  last_t = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?6 ELSE last_t END
WHERE id = ?7
"""
