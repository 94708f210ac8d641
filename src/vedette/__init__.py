"""vedette: one monitor for everything that people run in Python.

import vedette

run = vedette.init(project="cifar", config={"lr": 0.1})
run.log({"loss": 0.5}, step=1)

Everything is imported when it is first used: `import vedette` itself costs next to nothing.

Rooms, from the top down; imports go one way, and ARCHITECTURE.md has the picture:
- `compat`: other people's names, translated
- `cli`: the command line; `__main__` is `python -m vedette`
- `app`: the public verbs that read a home: `vedette.runs`, `get`, `diff`, `compare`
- `attached`: the console in a run's own process, or the displays in its notebook
- `views`: what people see: console, charts, `vedette top`, `vedette ui`
- `launch`: `vedette run`: a command as a run
- `monitor`: monitors beside a program
- `capture`: records what a run is made of
- `listeners`: other people's protocols in
- `hub`: the program that keeps a home
- `client`: what runs inside the user's process
- `query`: pure functions over a store: what the data mean
- `access`: how another process reads a home
- `store`: keeps facts and points, in SQLite
- `deaths`: why something ended
- `sources`: sensors, and other sources of facts
- `sinks`: where a monitor's samples go
- `sensing`: what sensors are made of

Modules of the core:
- `model`: the three facts and the sample, the kinds of spans and their states, origins; no I/O
- `ids`: the ids of spans: how each form is made and read; no I/O
- `labels`: a series written in one word, with its tags and a statistic; no I/O
- `fold`: the law: records in any order, any number of times, add up to one state; pure
- `wire`: bytes <-> facts, and the messages of the hub's socket; no I/O
- `segment`: one file of a spool
- `spool`: what a process appends its records to
- `tail`: the reader of a spool
- `resync`: finds sound records in damaged bytes
- `voice`: says facts and samples as one origin
- `gauges`: the mapped file with a process's progress bars
- `blobs`: files by the digest of their bytes
- `manifest`: the list of files of a code package, and the names of captured files; no I/O
- `media`: what kind of file bytes are, judged by the bytes
- `command_line`: what a command runs, in a word; no I/O
- `secret_names`: which names mean a secret; no I/O
- `masks`: masks secrets, which it finds by name or form; no I/O
- `guard`: the one check before every HTTP server; no I/O
- `http_port`: the port of every HTTP server
- `gate`: how many connections that port may have, and which one has to go
- `http_server`: uvicorn, with the limits that it lacks
- `asgi`: what the apps of HTTP servers share
- `host_port`: HOST:PORT read and written, and the names of this machine
- `address`: where a hub can be reached, and its connect string
- `certificate`: the certificate of a home, for TLS
- `tokens`: the secrets and the id of a home
- `home`: the paths of a home, whose it is, and how its hub is started
- `hub_lock`: the lock that the hub of a home holds, and who holds it
- `detached`: starts programs that are nobody's child
- `settings`: settings and where they come from
- `fileio`: plain operations on files, and how those of a home are opened
- `own_directory`: directories of our own in public places
- `unix_socket`: how a Unix socket is reached, and who is at its other end
- `socket_owner`: whose program is at the other end of a TCP connection within this machine
- `kernel`: what Linux tells about processes and file systems
- `proc_stat`: /proc/PID/stat, parsed in one place
- `pidfds`: how a process gives the hub a pidfd of itself
- `interrupts`: errors of the user's signal handlers, which are let through
- `errors`: the tree of errors
- `recent`: a cache of bounded size
- `lean_start`: imports msgspec quickly, for programs of our own
- `version`: the version
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
    from vedette.monitor.decorator import monitored

    config: Attrs
    summary: Attrs

_HOMES = {
    "vedette.client.ask": ("ask",),
    "vedette.client.current": ("finish", "init", "log", "mark", "metric", "save", "series", "use"),
    "vedette.client.progress": ("Progress", "track"),
    "vedette.client.usage": ("Usage",),
    "vedette.monitor.decorator": ("monitored",),
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
    """Import a room, and hand the client what it may not know by itself: how consoles and notebooks show a run."""
    importlib.import_module("datetime")  # msgspec crashes later if a signal handler raises while it imports that
    found = importlib.import_module(module)
    if module.startswith("vedette.client."):
        vars(importlib.import_module("vedette.client.screen"))["open_console"] = _open_console
        vars(importlib.import_module("vedette.client.notebook")).update(attach=_attach_notebook, make_input=_make_input)
    return found


def _open_console(run: Any, settings: Any) -> Any:
    return importlib.import_module("vedette.attached.console").open_console(run, settings)


def _attach_notebook(run: Any, settings: Any) -> None:
    importlib.import_module("vedette.attached.notebook").attach(run, settings)


def _make_input(*args: Any) -> Any:
    return importlib.import_module("vedette.attached.input").make_input(*args)


def __dir__() -> list[str]:
    return sorted({*__all__, "__all__", "__doc__", "__version__", "config", "summary"})
