"""vedette: one monitor for everything that people run in Python.

import vedette

run = vedette.init(project="cifar", config={"lr": 0.1})
run.log({"loss": 0.5}, step=1)

Everything is imported when it is first used: `import vedette` itself costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from vedette.version import __version__ as __version__

if TYPE_CHECKING:
    from vedette.app import compare, diff, get, runs
    from vedette.client.ask import ask
    from vedette.client.attrs import Attrs
    from vedette.client.current import finish, init, log, mark, metric, save, series, use
    from vedette.client.progress import Progress, track
    from vedette.client.usage import Usage
    from vedette.monitor.around import monitored

    config: Attrs
    summary: Attrs

_HOMES = {
    "vedette.client.ask": ("ask",),
    "vedette.client.current": ("finish", "init", "log", "mark", "metric", "save", "series", "use"),
    "vedette.client.progress": ("Progress", "track"),
    "vedette.client.usage": ("Usage",),
    "vedette.monitor.around": ("monitored",),
    "vedette.app": ("compare", "diff", "get", "runs"),
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Progress",
    "Usage",
    "ask",
    "compare",
    "diff",
    "finish",
    "get",
    "init",
    "log",
    "mark",
    "metric",
    "monitored",
    "runs",
    "save",
    "series",
    "track",
    "use",
]
# `vedette.config` and `vedette.summary` are the current run's; not in __all__, since asking for them begins a run.


def __getattr__(name: str) -> Any:
    if name in ("config", "summary"):  # of whichever run is the current one at this moment
        return getattr(_client("vedette.client.current").current(), name)
    if name not in _WHERE:
        raise AttributeError(f"module 'vedette' has no attribute {name!r}")
    value = getattr(_client(_WHERE[name]), name)
    globals()[name] = value
    return value


def _client(module: str) -> Any:
    """Import a room, and hand the client what it may not know by itself: how a console is opened."""
    found = importlib.import_module(module)
    if module.startswith("vedette.client."):
        vars(importlib.import_module("vedette.client.screen"))["open_console"] = _open_console
    return found


def _open_console(run: Any, settings: Any) -> Any:
    return importlib.import_module("vedette.attached.console").open_console(run, settings)


def __dir__() -> list[str]:
    return sorted({*__all__, "__all__", "__doc__", "__version__", "config", "summary"})
