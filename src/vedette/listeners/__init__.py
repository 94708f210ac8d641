"""Other programs' protocols: one module per listener, which receives what the clients of another program send.

The module of a listener has a frozen struct `Config`; `parse(address) -> Config`, which reads ADDRESS of
`--listen NAME=ADDRESS` and raises `SettingError` if it is not valid; and `open(config, intake) -> Listener`, which
opens the port, and raises OSError if that fails. A listener writes what it receives to the `Intake`, and answers once
it is written. It is listed in `LISTENERS`; another package adds one by an entry point of the group
`vedette.listeners`. No listener knows another one.

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
    """Receives what clients send, from `open` until `close`.

    A client that connects before `serve` is called waits. For HTTP use `listeners.http`, which checks each
    request by the guard.
    """

    where: str  # the address that clients send to

    async def serve(self) -> None:
        """Answer until it is closed. If this raises, the process ends, and the hub starts another one."""
        ...

    async def close(self) -> None:
        """Accept nothing more, close the port, and answer the requests that wait."""
        ...


def find(name: str) -> ModuleType:
    """Return the module of a listener; raise SettingError if there is no listener of that name."""
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
    """Return the module of a listener, and its Config for an address; raise SettingError if one is wrong."""
    module = find(name)
    try:
        return module, module.parse(address)
    except SettingError:
        raise
    except Exception as error:  # raised by a listener of another package
        raise SettingError(f"the listener {name} cannot take {address!r}: {type(error).__name__}: {error}") from None


def check(pairs: Iterable[tuple[str, str]]) -> None:
    """Raise SettingError when one of these names or addresses is wrong."""
    for name, address in pairs:
        parse(name, address)
