"""Groups of very few samples, on their way into a store: without numpy, which costs more than they do.

A run may have tens of thousands of series of one point each. The bytes are the same as those that `chunks` makes.
"""

import itertools
import math
import sqlite3
import struct
from array import array
from typing import Any

from vedette.store.points import Columns

MOST_ROWS = 8  # of these, columns are stored as plain numbers, as `chunks.pack` does

_Number = float | int | bool
_double = struct.Struct("=d").pack


class FewRows:
    """Gathers small groups, and writes them all together, inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._axes: list[tuple[Any, ...]] = []
        self._chunks: list[tuple[Any, ...]] = []
        self._counts: list[tuple[Any, ...]] = []

    @staticmethod
    def fit(group: Columns) -> bool:
        """Tell whether a group is small enough."""
        return 0 < len(group.n) <= MOST_ROWS

    def add(self, origin: int, group: Columns, series: list[int | None]) -> None:
        """Add a group; `series`: the numbers of its series, None for those that are refused."""
        if all(number is None for number in series):
            return
        n, t = group.n, [one // 1000 for one in group.t]
        axis = len(self._axes)  # its place among these; `write` makes an id of it
        self._axes.append((origin, n[0], n[-1], len(n), t[0], t[-1], _plain(t), _plain(group.step), _offsets(n)))
        chunk, count = self._chunks.append, self._counts.append
        rows, step, last_t = len(n), group.step[-1], group.t[-1]
        for number, column in zip(series, zip(*group.rows, strict=True), strict=True):
            if number is None:
                continue
            if rows == 1 and type(value := column[0]) is float and value == value:  # noqa: PLR0124 - NaN
                chunk((number, axis, value, value, value, b"f" + _double(value)))
                count((1, value, value, value, step, last_t, number))
            else:
                data, values = _packed(column)
                low, high, total = _extremes(values)
                chunk((number, axis, low, high, total, data))
                last = values[-1]
                count((rows, low, high, last if last == last else "nan", step, last_t, number))  # noqa: PLR0124 - NaN

    def write(self) -> list[tuple[Any, ...]]:
        """Write them; return what to add to the rows of series."""
        if self._axes:
            first = self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM axes").fetchone()[0]
            self._connection.executemany(
                "INSERT INTO axes (id, origin, first_n, last_n, count, first_t, last_t, t, step, n)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((first + place, *row) for place, row in enumerate(self._axes)),
            )
            self._connection.executemany(
                "INSERT INTO chunks (series, axis, min, max, sum, value) VALUES (?, ?, ?, ?, ?, ?)",
                ((number, first + place, *rest) for number, place, *rest in self._chunks),
            )
        return self._counts


def _plain(numbers: list[int]) -> bytes:
    return b"i" + struct.pack(f"={len(numbers)}q", *numbers)


def _offsets(n: list[int]) -> bytes:
    """Return offsets as `chunks.pack_offsets` does: the first, then runs of equal distances, if that is shorter."""
    distances: list[int] = []
    lengths: list[int] = []
    for before, after in itertools.pairwise(n):
        if distances and distances[-1] == after - before:
            lengths[-1] += 1
        else:
            distances.append(after - before)
            lengths.append(1)
    runs = [n[0], *distances, *lengths]
    if 8 * len(runs) >= 64 and len(runs) > len(n):
        return _plain(n)
    return b"r" + struct.pack(f"<{len(runs)}q", *runs)


def _packed(column: tuple[_Number, ...]) -> tuple[bytes, tuple[_Number, ...]]:
    """Return a column as bytes, and its values as these have them: all of one type, as in an array of numpy."""
    kinds = set(map(type, column))
    if kinds == {bool}:
        return b"b" + bytes(map(int, column)), column
    if kinds <= {int, bool}:
        try:
            return b"i" + struct.pack(f"={len(column)}q", *column), tuple(map(int, column))
        except struct.error:  # larger than 64 bits
            pass
    values = tuple(map(float, column))
    return b"f" + array("d", values).tobytes(), values


def _extremes(values: tuple[_Number, ...]) -> tuple[float | None, float | None, float]:
    """Return min, max and sum, without NaNs."""
    numbers = [float(value) for value in values if not (isinstance(value, float) and math.isnan(value))]
    if not numbers:
        return None, None, 0.0
    return min(numbers), max(numbers), sum(numbers)
