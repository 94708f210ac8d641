"""Writes lines for people: the plain numbers of each moment, `CPU Usage: 37.2%, Memory Usage: 0.108%, ...`."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct

from vedette.errors import SettingError
from vedette.model import Sample
from vedette.sensing.sensor import Metric
from vedette.sinks import options, wanted
from vedette.sinks.appender import Appender
from vedette.sinks.plain import KEYS, Plain, line

_LABELS = dict(  # as heflwr spells them in its files; in what it sends it spells them otherwise (compat/heflwr/wire.py)
    zip(
        KEYS,
        ("CPU Usage", "Memory Usage", "Bytes Sent", "Bytes Recv", "VDD In", "VDD Cpu_Gpu_Cv", "VDD Soc"),
        strict=True,
    )
)


class Config(Struct, frozen=True):
    """The path of the file, and which numbers; `stamps` puts the time before each line."""

    path: str
    stamps: bool = False
    wanted: tuple[str, ...] = ("cpu", "memory", "network")


def parse(text: str) -> Config:
    """Read `PATH[?stamps&wanted=cpu,power]`."""
    path, chosen = options(text, ("stamps", "wanted"))
    if not path:
        raise SettingError("text wants a path: text:PATH")
    return Config(path, chosen.get("stamps", "no") in ("", "yes", "true", "1"), wanted(chosen, Config("").wanted))


class Text:
    """Appends a line per moment, below a line with the time at which the sink was opened."""

    def __init__(self, config: Config) -> None:
        """Open the file, and write the time."""
        self.lost = 0
        self.trouble = ""
        self._stamps = config.stamps
        self._plain = Plain(config.wanted)
        self._file = Appender(config.path)
        try:
            self._file.append(_opened())
        except OSError as error:
            self._file.close()
            raise SettingError(f"{config.path} cannot be written to: {error.strerror}") from None

    def prime(self, samples: list[Sample]) -> None:
        """Take the first reading, from which the first counts are computed."""
        self._plain.of(samples)

    def put(self, samples: list[Sample]) -> None:
        """Append the line of a moment; a moment without numbers has no line."""
        numbers = self._plain.of(samples)
        if not numbers:
            return
        stamp = f"{_stamp(samples[0].t)} " if self._stamps else ""
        self._file.reopen_if_replaced()
        head = _opened() if self._file.is_new else b""
        self._file.append(head + f"{stamp}{line(numbers, _LABELS)}\n".encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open(config: Config, metrics: Mapping[str, Metric]) -> Text:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Text(config)


def _opened() -> bytes:
    return time.strftime("%Y-%m-%d %H:%M:%S\n").encode()


def _stamp(t: int) -> str:
    return datetime.fromtimestamp(t / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
