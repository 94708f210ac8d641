"""The points of a run for the charts of a notebook: those of the store, and those that only the hub has yet."""

import contextlib
import time

from vedette.access.home_access import HomeAccess
from vedette.errors import VedetteError
from vedette.query.curves import Curves, Range
from vedette.query.unsealed import UnsealedPoints, with_unsealed
from vedette.store import Reader, SeriesRow
from vedette.views.notebook import MOST_TILES, WIDTH, Tile

_LEAST_S = 1.0  # between two readings


class PointReader:
    """Reads the metrics of one run, for all its charts. It belongs to one thread."""

    def __init__(self, access: HomeAccess, run: str) -> None:
        self._access = access
        self._run = run
        self._curves = Curves()
        self._unsealed = UnsealedPoints()
        self._is_sealed = False
        self._read_s = float("-inf")
        self._found: tuple[list[Tile], int] | None = None

    def read(self) -> tuple[list[Tile], int] | None:
        """Return the metrics, and how many more there are, at most a second old; None while nothing can be read yet."""
        if self._found is None or time.monotonic() - self._read_s >= _LEAST_S:
            self._found = self._read() or self._found
            self._read_s = time.monotonic()
        return self._found

    def _read(self) -> tuple[list[Tile], int] | None:
        try:
            if not self._ask_hub():
                return None
            with contextlib.closing(self._access.reader()) as reader:
                reader.connection.execute("BEGIN")  # one snapshot for the whole read
                return self._tiles(with_unsealed(reader, self._unsealed, self._unsealed.now()))
        except (VedetteError, OSError):
            return None

    def _ask_hub(self) -> bool:
        """Have the hub store all that was logged, the first time; then take what it has not stored yet.

        Return False while a hub is being started that has something to read.
        """
        if not self._access.has_hub():
            return not self._access.needs_hub()
        if not self._is_sealed:
            self._access.seal(self._run)
            self._is_sealed = True
        answers = self._access.unsealed_batches([self._run], self._unsealed.ends())
        if answers is not None:
            self._unsealed.take(*answers)
        return True

    def _tiles(self, store: Reader) -> tuple[list[Tile], int]:
        rows = sorted(store.series([self._run]), key=lambda row: (row.name, sorted(row.tags.items())))
        return [self._tile(store, row) for row in rows[:MOST_TILES]], max(0, len(rows) - MOST_TILES)

    def _tile(self, store: Reader, row: SeriesRow) -> Tile:
        curve = self._curves.draw(store, row, "step", Range(WIDTH))
        return Tile(row.label, curve.x.tolist(), curve.y.tolist(), row.count, row.last, row.min, row.max)
