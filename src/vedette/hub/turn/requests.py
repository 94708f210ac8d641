"""What the hub is asked between two turns, by its sockets and by other hubs. Each is a function of the keeper."""

import itertools
import time

from vedette import wire
from vedette.hub.turn.keeper import Keeper
from vedette.model import Command

_MOST_NEWEST = 50_000


def newest(keeper: Keeper, prefix: str) -> list[wire.Newest]:
    """Return the newest point of each series that waits to be sealed, of the spans that begin so."""
    found = (point for reader in keeper.origin_readers() for point in reader.newest(prefix))
    return list(itertools.islice(found, _MOST_NEWEST))


def order(keeper: Keeper, command: Command, upstream: str | None = None) -> int | None:
    """Do what a command asks of processes here; return of how many, None when it was given before.

    `upstream`: the hub that gives it, which may command only what is meant for it.
    """
    if not keeper.orders.is_new(command, upstream):
        return None
    pairs = [
        (reader.origin, keeper.watcher.watches[name])
        for name, reader in keeper.readers.items()
        if reader.origin and name in keeper.watcher.watches and upstream in (None, reader.upstream)
    ]
    return keeper.orders.obey(command, pairs)


def reach(keeper: Keeper, origins: list[str]) -> dict[str, tuple[int, int]] | None:
    """Return how far origins are safe here, even from a power cut; None while that is not known yet."""
    if keeper.inboxes.unsafe_bytes or keeper.unsynced:
        keeper.flush()
    return keeper.inboxes.reach(origins)


def alive(keeper: Keeper, message: wire.Alive) -> None:
    """Take note of origins that another hub knows alive."""
    now_t = time.time_ns()
    heard = {name: now_t - int(max(0.0, min(age, 1e9)) * 1e9) for name, age in message.ages.items()}
    skews = {}
    if message.skew_s is not None:
        skews = {name: message.skew_s + message.skews.get(name, 0.0) for name in heard}
    if keeper.inboxes.onward:
        keeper.inboxes.alive |= {name: (t, skews.get(name)) for name, t in heard.items()}
    keeper.store.keep([], heard, skews)
    keeper.unsynced = True
