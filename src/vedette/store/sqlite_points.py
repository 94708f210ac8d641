"""Points in a SQLite store: series, their axes (times and steps), and their values as compressed chunks."""

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from vedette.store import Block, chunks
from vedette.store.points import FULL, MERGED
from vedette.store.sqlite_json import to_json

_MOST_CACHED = 100_000


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
        self._series: dict[tuple[str, str, str], int] = {}
        self._series_of: dict[str, int] = {}  # how many series a span has

    def forget(self) -> None:
        """Empty the caches: a transaction was rolled back."""
        self._series.clear()
        self._series_of.clear()

    def keep(self, origin: int, block: Block, refusals: Counter[str]) -> None:
        """Keep samples as chunks; refuse and count those of series beyond the limit."""
        tags = to_json(block.tags)
        found = [self.series_number(block.span, name, tags) for name in block.names]
        if None in found:
            refusals["limits.series_per_run"] += len(block.n) * found.count(None)
        numbers = [number for number in found if number is not None]
        columns = [value for number, value in zip(found, block.values, strict=True) if number is not None]
        if not numbers:
            return
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
        if len(self._series) > _MOST_CACHED:
            self._series.clear()
        run = self._connection.execute
        row = run("SELECT id FROM series WHERE span = ? AND name = ? AND tags = ?", key).fetchone()
        if row is None:
            if span not in self._series_of:
                if len(self._series_of) > _MOST_CACHED:
                    self._series_of.clear()
                self._series_of[span] = run("SELECT count(*) FROM series WHERE span = ?", (span,)).fetchone()[0]
            if self._series_of[span] >= self._most_series:
                return None
            self._series_of[span] += 1
            row = (run("INSERT INTO series (span, name, tags) VALUES (?, ?, ?)", key).lastrowid,)
        self._series[key] = int(row[0])
        return self._series[key]

    def tidy(self, origin: str) -> int:
        """Merge an origin's short chunks into long ones; return how many were merged."""
        row = self._connection.execute("SELECT id FROM origins WHERE name = ?", (origin,)).fetchone()
        if row is None:
            return 0
        short = self._connection.execute(
            "SELECT id, count, (SELECT group_concat(series) FROM (SELECT series FROM chunks WHERE axis = axes.id"
            " ORDER BY series)) FROM axes WHERE origin = ? AND count < ? ORDER BY first_n",
            (row[0], MERGED // 2),
        ).fetchall()
        groups: dict[str, list[list[int]]] = defaultdict(lambda: [[]])
        held: dict[str, int] = defaultdict(int)
        for axis, count, series in short:
            groups[series][-1].append(axis)
            held[series] += count
            if held[series] >= MERGED:
                groups[series].append([])
                held[series] = 0
        merged = 0
        for series, parts in groups.items():
            for axes in parts:
                if len(axes) > 1:
                    with self._transaction():
                        self._merge(int(row[0]), [int(number) for number in (series or "").split(",") if number], axes)
                    merged += len(axes)
        return merged

    def _merge(self, origin: int, series: list[int], axes: list[int]) -> None:
        """Merge several axes of the same series into one; one series at a time, to save memory."""
        wanted = (json.dumps(axes),)
        among = "IN (SELECT value FROM json_each(?))"
        run = self._connection.execute
        rows = run(f"SELECT t, step, n, count FROM axes WHERE id {among} ORDER BY first_n", wanted).fetchall()
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


_UPDATE_SERIES = """
UPDATE series SET count = count + ?1,
  min = min(coalesce(min, ?2), coalesce(?2, min)), max = max(coalesce(max, ?3), coalesce(?3, max)),
  last = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?4 ELSE last END,
  last_step = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?5 ELSE last_step END,
  last_t = CASE WHEN last_t IS NULL OR (?6, ?5, ?4) > (last_t, last_step, last) THEN ?6 ELSE last_t END
WHERE id = ?7
"""
