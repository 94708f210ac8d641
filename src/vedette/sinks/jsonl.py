"""One JSON object a moment, on a line of its own: its time, and each number by its flat name.

What is no number, or is infinite, is null, as JSON has no word for it.
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
    """Where; `pid` is on each line, unless it is 0."""

    path: str
    pid: int = 0


def parse(text: str) -> Config:
    """Read `PATH`."""
    path, _ = options(text, ())
    if not path:
        raise SettingError("jsonl wants a path: jsonl:PATH")
    return Config(path)


class Jsonl:
    """Appends an object a moment."""

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
        self._file.look()
        self._file.append(line(samples, self._pid))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def line(samples: list[Sample], pid: int) -> bytes:
    """Return a moment, which has samples, as a line."""
    t = samples[0].t
    stamps = {"t": datetime.fromtimestamp(t / 1e9, UTC).isoformat(), "t_ns": t, **({"pid": pid} if pid else {})}
    return _encode({**stamps, **flat_values(samples)}) + b"\n"


def open(config: Config, metrics: Mapping[str, Metric]) -> Jsonl:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Jsonl(config)
