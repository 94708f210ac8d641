"""What repeats: one file for each sink. A sink is handed samples, and knows nobody who measured them.

A module of a sink has a frozen struct `Config`; `parse(text) -> Config`, which reads what stands behind its name in
`--to NAME:TEXT` and raises `SettingError` for what it cannot be; and `open(config, metrics) -> Sink`, which raises
`SettingError` in a sentence when that cannot be done. It is listed in `SINKS`; a package of somebody else's adds one by
an entry point of the group `vedette.sinks`. A Config with a field `pid` is told there which process is watched.

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
    """Something that samples go to, all those of one moment at a time, until it is closed.

    `put` raises OSError when it could not be done; what it keeps for later in such a case it says in `lost` once it has
    to let go of it. Neither call waits for anything that can be slow, a network say. `trouble` is a sentence on what is
    wrong at present, for whoever shows it; empty when all is well. One that counts from moment to moment has a method
    `prime` besides, which is handed the first look: that is no moment yet, but what the first one is counted from. One
    that listens tells its `port`, one that makes a run its id as `run`.
    """

    lost: int
    trouble: str

    def put(self, samples: list[Sample]) -> None:
        """Take the samples of one moment."""
        ...

    def close(self) -> None:
        """Let what is taken be kept, and let go of what is open."""
        ...


def find(name: str) -> ModuleType:
    """Return the module of a sink; raise SettingError when there is none of that name."""
    if name in SINKS:
        return importlib.import_module(SINKS[name])
    from importlib.metadata import entry_points  # noqa: PLC0415 - only for what is not built in

    for point in entry_points(group="vedette.sinks", name=name):
        loaded = point.load()
        if isinstance(loaded, ModuleType):
            return loaded
    raise SettingError(f"there is no sink {name!r}: there are {', '.join(SINKS)}, or a path that ends in {_endings()}")


def parse(text: str) -> tuple[str, Any]:
    """Read where samples are to go: `NAME:TEXT`, `NAME`, or a path whose suffix tells; return the name and its Config.

    Raise SettingError in a sentence when it is none of these.
    """
    name, _, rest = text.partition(":")
    if name in SINKS or (name.isidentifier() and len(name) > 1 and _is_installed(name)):
        return name, _parsed(name, rest)
    path, _, _ = text.partition("?")
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        raise SettingError(
            f"{text!r} is no place to send samples to: give NAME or NAME:TEXT, where NAME is one of"
            f" {', '.join(SINKS)}, or a path that ends in {_endings()}"
        )
    return _SUFFIXES[suffix], _parsed(_SUFFIXES[suffix], text)


def _parsed(name: str, text: str) -> Any:
    try:
        return find(name).parse(text)
    except SettingError:
        raise
    except Exception as error:  # of somebody else's sink
        raise SettingError(f"the sink {name} cannot take {text!r}: {type(error).__name__}: {error}") from None


def _endings() -> str:
    return ", ".join(_SUFFIXES)


def _is_installed(name: str) -> bool:
    from importlib.metadata import entry_points  # noqa: PLC0415 - only for what is not built in

    return bool(entry_points(group="vedette.sinks", name=name))


def options(text: str, known: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Cut `TEXT?key=value&flag` into the text and its options; what is not made of known keys is part of the text."""
    head, mark, tail = text.rpartition("?")
    if not mark:
        return text, {}
    pairs = [part.partition("=") for part in tail.split("&")]
    if not {key for key, _, _ in pairs} <= set(known):
        if "/" not in tail and "=" in tail:
            raise SettingError(f"{text!r} has an option that is not known: there are {', '.join(known)}")
        return text, {}
    return head, {key: value for key, _, value in pairs}


def wanted(chosen: Mapping[str, str], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of cpu, memory, network and power an option `wanted=cpu,memory` asks for."""
    if "wanted" not in chosen:
        return default
    asked = tuple(word.strip() for word in chosen["wanted"].split(",") if word.strip())
    if unknown := set(asked) - {"cpu", "memory", "network", "power"}:
        raise SettingError(f"{min(unknown)!r} is none of cpu, memory, network and power")
    return asked
