"""The points of a run for the charts of a notebook: those of the store, and those that only the hub has yet."""

import contextlib
import sqlite3

from vedette.access.home_access import HomeAccess
from vedette.errors import VedetteError
from vedette.query.curves import Curves, Range
from vedette.query.unsealed import UnsealedPoints, with_unsealed
from vedette.store import Reader, SeriesRow
from vedette.views.notebook import MOST_TILES, WIDTH, Tile


class PointReader:
    """Reads the metrics of one run. It belongs to one thread."""

    def __init__(self, access: HomeAccess, run: str) -> None:
        self._access = access
        self._run = run
        self._curves = Curves()
        self._unsealed = UnsealedPoints()
        self._is_first = True

    def read(self) -> tuple[list[Tile], int]:
        """Return the metrics, and how many more there are; none while there is no store or no hub."""
        try:
            self._ask_hub()
            with contextlib.closing(self._access.reader()) as reader:
                reader.connection.execute("BEGIN")  # one snapshot for the whole read
                return self._tiles(with_unsealed(reader, self._unsealed, self._unsealed.now()))
        except (VedetteError, OSError, sqlite3.Error):
            return [], 0

    def _ask_hub(self) -> None:
        """Have the hub store all that was logged, the first time; then take what it has not stored yet."""
        if not self._access.has_hub():
            return
        if self._is_first:
            self._is_first = False
            self._access.seal(self._run)
        answers = self._access.unsealed_batches([self._run], self._unsealed.ends())
        if answers is not None:
            self._unsealed.take(*answers)

    def _tiles(self, store: Reader) -> tuple[list[Tile], int]:
        rows = sorted(store.series([self._run]), key=lambda row: (row.name, sorted(row.tags.items())))
        return [self._tile(store, row) for row in rows[:MOST_TILES]], max(0, len(rows) - MOST_TILES)

    def _tile(self, store: Reader, row: SeriesRow) -> Tile:
        curve = self._curves.draw(store, row, "step", Range(WIDTH))
        return Tile(row.label, curve.x.tolist(), curve.y.tolist(), row.count, row.last, row.min, row.max)
