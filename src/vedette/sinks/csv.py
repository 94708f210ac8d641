"""A table: a column for the time and one for each number by its flat name, a row a moment.

The columns are those of the first moment, or those that the file has already. What a later moment has besides has no
place in the table: it is counted as lost, and said.
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
    """Where."""

    path: str


def parse(text: str) -> Config:
    """Read `PATH`."""
    path, _ = options(text, ())
    if not path:
        raise SettingError("csv wants a path: csv:PATH")
    return Config(path)


class Csv:
    """Appends a row a moment."""

    def __init__(self, config: Config) -> None:
        """Open the file; its columns are known with the first moment, or are there already."""
        self.lost = 0  # numbers without a column
        self.trouble = ""
        self._file = Appender(config.path)
        self._columns: list[str] = []
        if not self._file.is_new and _columns(self._file)[:1] != [_TIME]:
            self._file.close()
            raise SettingError(f"{config.path} is there, and is no table with a column {_TIME!r} first: give another")

    def put(self, samples: list[Sample]) -> None:
        """Append the row of a moment."""
        if not samples:
            return
        numbers = flat_values(samples)
        if self._file.look() or not self._columns or self._file.is_new:
            self._begin([_TIME, *numbers])
        if homeless := numbers.keys() - set(self._columns):
            self.lost += len(homeless)
            self.trouble = f"{min(homeless)} came later than the header of {self._file.path}: it has no column there"
        row = [datetime.fromtimestamp(samples[0].t / 1e9, UTC).isoformat()]
        row += ["" if (value := numbers.get(name)) is None else repr(value) for name in self._columns[1:]]
        self._file.append(_row(row))

    def _begin(self, columns: list[str]) -> None:
        """Write the header, unless the file has one; of several who begin it at once, one alone writes."""
        with self._file.held():
            self._file.look()
            if self._file.is_new:
                self._file.append(_row(columns))
                self._columns = columns
            else:
                self._columns = _columns(self._file)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def open(config: Config, metrics: Mapping[str, Metric]) -> Csv:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Csv(config)


def _columns(file: Appender) -> list[str]:
    return next(csv.reader(io.StringIO(file.head(), newline="")), [])


def _row(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)  # ends in \r\n, as RFC 4180 has it
    return text.getvalue().encode()
