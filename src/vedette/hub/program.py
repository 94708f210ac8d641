"""The hub as a program: how it begins. It takes the home's lock, the limits that it may have, and the store."""

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Callable

from vedette import address as addresses
from vedette import kernel, pidfds, tokens
from vedette.blobs import Blobs
from vedette.errors import HubError, VedetteError
from vedette.fileio import file_size
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
    awaited: bool | None = None,
    tls: bool = True,
    pids: int | None = None,
    reload: Callable[[], Settings] | None = None,
) -> int:
    """Be the hub of a home until nobody needs one; return the exit code.

    `quiet`: it prints nothing. `awaited`: a user has asked for it, so it ends with an error where it cannot listen;
    else it tries again, and `vedette doctor` says why. `pids`: the socket for pidfds, if the process which started it
    has made it. `reload` reads the settings again.
    """
    awaited = not quiet if awaited is None else awaited
    if not awaited and not os.path.isdir(home.root):  # it was removed after somebody had started us
        return 0
    os.umask(0o077)
    kernel.give_memory_back()
    home.prepare()
    # Settings are checked before anything is locked or opened.
    endpoint = endpoint_of(home, settings, tls=tls)
    wanted = settings.hub.listeners()
    if wanted and awaited:
        listeners.check(wanted)
    for upstream in (settings.hub.onward, settings.hub.reroute):
        if upstream:
            addresses.parse(upstream)
    lock = home.take_lock()
    if lock is None:
        if awaited and (endpoint is not None or wanted):
            raise HubError(
                f"another hub, pid {home.hub()}, has just begun to keep {home.root}, so this one does not listen:"
                " give the command again"
            )
        if not quiet:
            print(f"a hub keeps {home.root} already, pid {home.hub()}")  # noqa: T201 - the user asked
        return 0
    try:
        return _keep(home, settings, lock, endpoint, pids, reload, quiet=quiet, awaited=awaited)
    finally:
        os.close(lock)


def _keep(
    home: Home,
    settings: Settings,
    lock: int,
    endpoint: Endpoint | None,
    pids: int | None,
    reload: Callable[[], Settings] | None,
    *,
    quiet: bool,
    awaited: bool,
) -> int:
    log = Log(home.log)
    log.trim()
    _raise_limits()
    if pids is None:
        pids = pidfds.listen(home.pids)
    try:
        if not file_size(home.store) and tokens.was_kept(home):  # the store was removed, or moved away
            Blobs(home).spare()
        store = SqliteStore(home.store, most_series=settings.limits.series_per_run)
        sweeper = Sweeper(home, store, log, settings.keep, reload)
        service = Service(home, store, settings, lock, sweeper, log, endpoint, pids)
    except (OSError, VedetteError) as error:
        sys.stderr.write(f"vedette hub: {home.root} cannot be kept: {error}\n")
        with contextlib.suppress(OSError):
            home.rest()
        return 1
    asyncio.run(service.serve(quiet=quiet, awaited=awaited))
    return 0


def _raise_limits() -> None:
    """Raise the soft limits to the hard ones: a hub inherits the limits of the process that started it."""
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
