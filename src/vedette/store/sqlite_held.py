"""Which samples of an origin a store has, offset by offset, independent of its marks."""

import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedette.store import Block, Columns, chunks


class Held:
    """The samples of one origin that a store had when this object was made."""

    def __init__(self, connection: sqlite3.Connection, origin: int) -> None:
        self._connection = connection
        rows = connection.execute(
            "SELECT id, first_n, last_n, count FROM axes WHERE origin = ? ORDER BY first_n", (origin,)
        ).fetchall()
        self._axes = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self._numbers = {tuple(row[1:]): row[0] for row in rows}

    def has_same(self, first_n: int, last_n: int, count: int, packed: bytes) -> bool:
        """Tell whether exactly these samples are here as one axis; an offset belongs to only one record."""
        number = self._numbers.get((first_n, last_n, count))
        return number is not None and self._offsets(number)[0] == packed

    def new(self, n: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of these offsets are not here."""
        return ~np.isin(n, self.offsets(int(n[0]), int(n[-1])))

    def offsets(self, first_n: int, last_n: int) -> NDArray[np.int64]:
        """Return the offsets of the samples that are here, in a range."""
        if not len(self._axes):
            return np.empty(0, dtype=np.int64)
        among = (self._axes[:, 1] <= last_n) & (self._axes[:, 2] >= first_n)
        found = [chunks.unpack_offsets(*self._offsets(number)) for number in self._axes[among, 0].tolist()]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def _offsets(self, number: int) -> tuple[bytes, int]:
        row = self._connection.execute("SELECT n, count FROM axes WHERE id = ?", (number,)).fetchone()
        return row[0], row[1]


def not_held(connection: sqlite3.Connection, origin: int, found: list[Block]) -> list[Columns | Block]:
    """Return the samples that are not in the store yet, whatever its marks are."""
    here = Held(connection, origin)
    new: list[Columns | Block] = []
    for block in found:
        keep = here.new(block.n)
        if keep.any():
            n, t, step, *values = (column[keep] for column in (block.n, block.t, block.step, *block.values))
            new.append(Block(block.span, block.tags, block.names, n, t, step, tuple(values)))
    return new
