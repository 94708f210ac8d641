"""Writes a CSV table: a column for the time, one for each number by its flat name, and a row per moment.

The columns are those of the first moment, or those of an existing file. A number that first appears later has no
column: it is counted as lost, and reported.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from vedette.errors import SettingError
from vedette.model import Sample
from vedette.sensing.sensor import Metric, flat_values
from vedette.sinks import options
from vedette.sinks.appender import Appender

_TIME = "t"


class Config(Struct, frozen=True):
    """The path of the file."""

    path: str


def parse(text: str) -> Config:
    """Read `PATH`."""
    path, _ = options(text, ())
    if not path:
        raise SettingError("csv wants a path: csv:PATH")
    return Config(path)


class Csv:
    """Appends a row per moment."""

    def __init__(self, config: Config) -> None:
        """Open the file. Its columns come with the first moment, unless the file has some already."""
        self.lost = 0
        self.lost_what = "value"
        self.trouble = ""
        self._file = Appender(config.path)
        self._columns: list[str] = []
        if not self._file.is_new and _columns(self._file)[:1] != [_TIME]:
            self._file.close()
            raise SettingError(
                f"{config.path} exists, and is not a table with {_TIME!r} as its first column: give another path"
            )

    def put(self, samples: list[Sample]) -> None:
        """Append the row of a moment."""
        if not samples:
            return
        numbers = flat_values(samples)
        if self._file.reopen_if_replaced() or not self._columns or self._file.is_new:
            self._begin([_TIME, *numbers])
        if without_column := numbers.keys() - set(self._columns):
            self.lost += len(without_column)
            self.trouble = (
                f"{min(without_column)} was first measured after the header of {self._file.path} was written, so the"
                " file has no column for it; a new file has one"
            )
        row = [datetime.fromtimestamp(samples[0].t / 1e9, UTC).isoformat()]
        row += ["" if (value := numbers.get(name)) is None else repr(value) for name in self._columns[1:]]
        self._file.append(_row(row))

    def _begin(self, columns: list[str]) -> None:
        """Write the header if the file has none; of several processes that begin at once, only one writes it."""
        with self._file.locked():
            self._file.reopen_if_replaced()
            if self._file.is_new:
                self._file.append(_row(columns))
                self._columns = columns
            else:
                self._columns = _columns(self._file)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open(config: Config, metrics: Mapping[str, Metric]) -> Csv:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Csv(config)


def _columns(file: Appender) -> list[str]:
    return next(csv.reader(io.StringIO(file.beginning(), newline="")), [])


def _row(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)  # ends in \r\n, as RFC 4180 has it
    return text.getvalue().encode()
