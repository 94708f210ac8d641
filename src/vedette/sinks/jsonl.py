"""A line of JSON for each moment, appended to a file."""

import datetime as dt
import os
from collections.abc import Mapping

import msgspec

from vedette.errors import SettingError
from vedette.model import Sample
from vedette.sensor import Metric, flat_name


class Config(msgspec.Struct, frozen=True):
    """Where the lines go."""

    path: str


def parse(text: str) -> Config:
    """Read a path."""
    if not text:
        raise SettingError("jsonl takes a path, as in jsonl:usage.jsonl")
    return Config(text)


def open(config: Config, metrics: Mapping[str, Metric]) -> "Jsonl":  # noqa: A001, ARG001
    """Open the file."""
    try:
        return Jsonl(os.open(config.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666))
    except OSError as error:
        raise SettingError(f"{config.path} cannot be written: {error.strerror}") from None


class Jsonl:
    """One file."""

    lost = 0

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def put(self, samples: list[Sample]) -> None:
        """Write a line."""
        if not samples:
            return
        at = dt.datetime.fromtimestamp(samples[0].t / 1e9, dt.UTC)
        line: dict[str, object] = {"t": at.isoformat(), "t_ns": samples[0].t}
        for sample in samples:
            for name, value in sample.values.items():
                line[flat_name(name, sample.span, sample.tags)] = value
        os.write(self._fd, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        """Close it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
