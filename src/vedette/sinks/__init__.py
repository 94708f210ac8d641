"""What repeats: one file for each sink. A sink is handed samples, and knows nobody who measured them.

A module of a sink has a frozen struct `Config`; `parse(text) -> Config`, which reads what stands behind its name in
`--to NAME:TEXT` and raises `SettingError` for what it cannot be; and `open(config, metrics) -> Sink`, which raises
`SettingError` in a sentence when that cannot be done. It is listed in `SINKS`; a package of somebody else's adds one by
an entry point of the group `vedette.sinks`.
"""

import importlib
from typing import Any, Protocol

from vedette.errors import SettingError
from vedette.model import Sample

SINKS: dict[str, str] = {"jsonl": "vedette.sinks.jsonl"}


class Sink(Protocol):
    """Something that samples go to, all those of one moment at a time, until it is closed.

    `put` raises OSError when it could not be done; what it keeps for later in such a case it says in `lost` once it has
    to let go of it. Neither call waits for anything that can be slow, a network say.
    """

    lost: int

    def put(self, samples: list[Sample]) -> None:
        """Take the samples of one moment."""
        ...

    def close(self) -> None:
        """Let what is taken be kept, and let go of what is open."""
        ...


def find(name: str) -> Any:
    """Return the module of a sink; raise SettingError when there is none of that name."""
    if name not in SINKS:
        raise SettingError(f"there is no sink {name!r}: there are {', '.join(SINKS)}")
    return importlib.import_module(SINKS[name])


def parse(text: str) -> tuple[str, Any]:
    """Read `NAME:TEXT`, `NAME`, or a path."""
    name, _, rest = text.partition(":")
    if name in SINKS:
        return name, importlib.import_module(SINKS[name]).parse(rest)
    if text.endswith(".jsonl"):
        return "jsonl", importlib.import_module(SINKS["jsonl"]).parse(text)
    raise SettingError(f"there is no sink {text!r}")
