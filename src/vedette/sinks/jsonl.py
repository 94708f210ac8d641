"""Writes a JSON object per moment, one per line: the time, and each number by its flat name.

NaN and the infinities become null, because JSON does not have them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from vedette.errors import SettingError
from vedette.model import Sample
from vedette.sensing.sensor import Metric, flat_values
from vedette.sinks import options
from vedette.sinks.appender import Appender

_encode = msgspec.json.Encoder().encode  # it writes null for nan and the infinities


class Config(Struct, frozen=True):
    """The path of the file; `pid` is on each line, unless it is 0."""

    path: str
    pid: int = 0


def parse(text: str) -> Config:
    """Read `PATH`."""
    path, _ = options(text, ())
    if not path:
        raise SettingError("jsonl wants a path: jsonl:PATH")
    return Config(path)


class Jsonl:
    """Appends an object per moment."""

    def __init__(self, config: Config) -> None:
        """Open the file."""
        self.lost = 0
        self.trouble = ""
        self._pid = config.pid
        self._file = Appender(config.path)

    def put(self, samples: list[Sample]) -> None:
        """Append the object of a moment."""
        if not samples:
            return
        self._file.reopen_if_replaced()
        self._file.append(line(samples, self._pid))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def line(samples: list[Sample], pid: int) -> bytes:
    """Return the samples of a moment as a line; there must be at least one."""
    t = samples[0].t
    stamps = {"t": datetime.fromtimestamp(t / 1e9, UTC).isoformat(), "t_ns": t, **({"pid": pid} if pid else {})}
    return _encode({**stamps, **flat_values(samples)}) + b"\n"


def open(config: Config, metrics: Mapping[str, Metric]) -> Jsonl:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Jsonl(config)
