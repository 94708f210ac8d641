"""The hub as a program: how it begins. It takes the home's lock, the limits that it may have, and the store."""

import asyncio
import contextlib
import os
import resource
import sqlite3
import sys
from collections.abc import Callable

from vedette import address as addresses
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.hub import listeners
from vedette.hub.log import Log
from vedette.hub.service import Service
from vedette.hub.sockets.port import Endpoint, endpoint_of
from vedette.hub.turn.sweeper import Sweeper
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore


def run(
    home: Home,
    settings: Settings,
    *,
    quiet: bool,
    tls: bool = True,
    handed: dict[tuple[int, int], int] | None = None,
    reload: Callable[[], Settings] | None = None,
) -> int:
    """Be the hub of a home until nobody needs one; return the exit code.

    `quiet`: a process started it, no user waits for its output. `handed`: pidfds by (pid, start time) that the process
    which started it has passed on. `reload` reads the settings again.
    """
    if quiet and not os.path.isdir(home.root):  # it was removed after somebody had started us
        return 0
    os.umask(0o077)
    home.prepare()
    # Settings are checked before anything is locked or opened.
    endpoint = endpoint_of(home, settings, tls=tls)
    wanted = settings.hub.listeners()
    if (
        wanted and not quiet
    ):  # a hub that a process started runs without a wrong listener, and `vedette doctor` names it
        listeners.check(wanted)
    for upstream in (settings.hub.onward, settings.hub.reroute):
        if upstream:
            addresses.parse(upstream)
    lock = home.take_lock()
    if lock is None:
        if not quiet:
            print(f"a hub keeps {home.root} already, pid {home.hub_pid()}")  # noqa: T201 - the user asked
        return 0
    try:
        return _keep(home, settings, lock, endpoint, handed, reload, quiet=quiet)
    finally:
        os.close(lock)


def _keep(
    home: Home,
    settings: Settings,
    lock: int,
    endpoint: Endpoint | None,
    handed: dict[tuple[int, int], int] | None,
    reload: Callable[[], Settings] | None,
    *,
    quiet: bool,
) -> int:
    log = Log(home.log)
    log.trim()
    _raise_limits()
    try:
        store = SqliteStore(home.store, most_series=settings.limits.series_per_run)
    except (sqlite3.Error, OSError, VedetteError) as error:
        sys.stderr.write(f"vedette hub: the store {home.store} cannot be opened: {error}\n")
        return 1
    sweeper = Sweeper(home, store, log, settings.keep, reload)
    service = Service(home, store, settings, lock, sweeper, log, endpoint, handed)
    asyncio.run(service.serve(quiet=quiet))
    return 0


def _raise_limits() -> None:
    """Raise the soft limits to the hard ones: a hub inherits the limits of the process that started it."""
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
