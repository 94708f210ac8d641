"""Foreign wires in: one module for each listener. It hears the clients of another program, and knows no other listener.

A module of a listener has a frozen struct `Config`; `parse(address) -> Config`, which reads what stands behind its name
in `--listen NAME=ADDRESS` and raises `SettingError` for what it cannot be; and `open(config, intake) -> Listener`,
which takes the port, and raises OSError when that cannot be done. What it hears goes to the `Intake`, and is answered
when it is kept. It is listed in `LISTENERS`; a package of somebody else's adds one by an entry point of the group
`vedette.listeners`.

The hub starts a process for each listener, and imports none: `program` is that process, `intake` is where a listener
puts what it hears, `http` serves HTTP behind the guard.

- `__main__`: what starts that process
"""

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Protocol

from vedette.errors import SettingError

LISTENERS: dict[str, str] = {
    "heflwr": "vedette.compat.heflwr.listener",
}


class Listener(Protocol):
    """Something that clients send to, from when it is opened until it is closed.

    Who comes before `serve` is called waits. HTTP is served by `listeners.http`, which puts the guard before it.
    """

    where: str  # the address that clients send to

    async def serve(self) -> None:
        """Answer until it is closed; whatever this raises ends the process, and another one is started."""
        ...

    async def close(self) -> None:
        """Keep nothing that comes from now on, let go of the port, and answer those who wait for an answer."""
        ...


def find(name: str) -> ModuleType:
    """Return the module of a listener; raise SettingError when there is none of that name."""
    if name in LISTENERS:
        return importlib.import_module(LISTENERS[name])
    from importlib.metadata import entry_points  # noqa: PLC0415 - only for what is not built in

    points = entry_points(group="vedette.listeners")
    for point in points:
        if point.name == name:
            loaded = point.load()
            if isinstance(loaded, ModuleType):
                return loaded
    known = sorted({*LISTENERS, *points.names})
    nearest = difflib.get_close_matches(name, known, 1, 0.0)[0]
    raise SettingError(f"there is no listener {name!r}; did you mean {nearest!r}? There are {', '.join(known)}")


def parse(name: str, address: str) -> tuple[ModuleType, Any]:
    """Return the module of a listener, and its Config for an address; raise SettingError in a sentence."""
    module = find(name)
    try:
        return module, module.parse(address)
    except SettingError:
        raise
    except Exception as error:  # of somebody else's listener
        raise SettingError(f"the listener {name} cannot take {address!r}: {type(error).__name__}: {error}") from None


def check(pairs: Iterable[tuple[str, str]]) -> None:
    """Raise SettingError when one of these names or addresses is wrong."""
    for name, address in pairs:
        parse(name, address)
