"""Where the samples of a monitor go: one module per sink. A sink takes samples, and does not know who measured them.

The module of a sink has a frozen struct `Config`; `parse(text) -> Config`, which reads TEXT of `--to NAME:TEXT` and
raises `SettingError` if it is not valid; and `open(config, metrics) -> Sink`, which raises `SettingError` with a
sentence if it fails. The module is listed in `SINKS`; another package adds a sink by an entry point of the group
`vedette.sinks`. If a Config has a field `pid`, it is set to the process that the monitor watches.

- `text`: lines that people read
- `jsonl`: one JSON object per moment
- `csv`: a table, one row per moment
- `prometheus`: a page that Prometheus reads
- `hub`: a run of vedette's own
- `appender`: the file that whole lines are appended to
- `plain`: the seven plain numbers of a resource monitor
"""

import importlib
import os
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Protocol

from vedette.errors import SettingError
from vedette.model import Sample

SINKS: dict[str, str] = {
    "text": "vedette.sinks.text",
    "jsonl": "vedette.sinks.jsonl",
    "csv": "vedette.sinks.csv",
    "prometheus": "vedette.sinks.prometheus",
    "hub": "vedette.sinks.hub",
    "form": "vedette.compat.heflwr.form",
}
_SUFFIXES = {".txt": "text", ".log": "text", ".jsonl": "jsonl", ".csv": "csv"}


class Sink(Protocol):
    """Takes samples, those of one moment at a time, until it is closed.

    `put` raises OSError if the samples could not be written. A sink may keep such samples for later; if it drops them,
    it counts them in `lost`; `lost_what`, if it has it, says what is counted instead of moments. Neither `put` nor
    `close` waits for anything slow, such as a network. `trouble` is a sentence about what is wrong now; it is empty
    when all is well.
    A sink that shows differences also has a method `prime`: it gets the first reading, from which the first difference
    is counted. A sink that listens has its `port`; a sink that makes a run has the run's id as `run`.
    """

    lost: int
    trouble: str

    def put(self, samples: list[Sample]) -> None:
        """Take the samples of one moment."""
        ...

    def close(self) -> None:
        """Write what is left, and close what is open."""
        ...


def find(name: str) -> ModuleType:
    """Return the module of a sink; raise SettingError if there is no sink of that name."""
    if name in SINKS:
        return importlib.import_module(SINKS[name])
    from importlib.metadata import entry_points  # noqa: PLC0415 - only for what is not built in

    for point in entry_points(group="vedette.sinks", name=name):
        loaded = point.load()
        if isinstance(loaded, ModuleType):
            return loaded
    raise SettingError(f"there is no sink {name!r}: there are {', '.join(SINKS)}, or a path that ends in {_endings()}")


def parse(text: str) -> tuple[str, Any]:
    """Read where samples go: `NAME:TEXT`, `NAME`, or a path with a known suffix; return the sink's name and Config.

    Raise SettingError, with a sentence, for anything else.
    """
    name, _, rest = text.partition(":")
    if name in SINKS or (name.isidentifier() and len(name) > 1 and _is_installed(name)):
        return name, _parsed(name, rest)
    path, _, _ = text.partition("?")
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        raise SettingError(
            f"samples cannot be sent to {text!r}: give NAME or NAME:TEXT, where NAME is one of"
            f" {', '.join(SINKS)}, or a path that ends in {_endings()}"
        )
    return _SUFFIXES[suffix], _parsed(_SUFFIXES[suffix], text)


def _parsed(name: str, text: str) -> Any:
    try:
        return find(name).parse(text)
    except SettingError:
        raise
    except Exception as error:  # raised by a sink of another package
        raise SettingError(f"the sink {name} cannot take {text!r}: {type(error).__name__}: {error}") from None


def _endings() -> str:
    return ", ".join(_SUFFIXES)


def _is_installed(name: str) -> bool:
    from importlib.metadata import entry_points  # noqa: PLC0415 - only for what is not built in

    return bool(entry_points(group="vedette.sinks", name=name))


def options(text: str, known: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Split `TEXT?key=value&flag` into the text and its options; a part with unknown keys belongs to the text."""
    head, question_mark, tail = text.rpartition("?")
    if not question_mark:
        return text, {}
    pairs = [part.partition("=") for part in tail.split("&")]
    if not {key for key, _, _ in pairs} <= set(known):
        if "/" not in tail and "=" in tail:
            raise SettingError(f"{text!r} has an unknown option: there are {', '.join(known)}")
        return text, {}
    return head, {key: value for key, _, value in pairs}


def wanted(chosen: Mapping[str, str], default: tuple[str, ...]) -> tuple[str, ...]:
    """Read the option `wanted=cpu,memory`: some of cpu, memory, network and power."""
    if "wanted" not in chosen:
        return default
    asked = tuple(word.strip() for word in chosen["wanted"].split(",") if word.strip())
    if unknown := set(asked) - {"cpu", "memory", "network", "power"}:
        raise SettingError(f"{min(unknown)!r} is unknown: wanted takes cpu, memory, network and power")
    return asked
