"""What the hub is asked between two turns, by its sockets and by other hubs. Each is a function of the keeper."""

import itertools
import time

from vedette import wire
from vedette.hub.turn.keeper import Keeper
from vedette.model import Command
from vedette.store.parcels import pack, packed_bytes

_MOST_NEWEST = 50_000
_NOT_ITS_OWN = "another relay ships it, or it is a process of that machine itself"
_MOST_UNSEALED_BYTES = 4 << 20  # bytes in one answer; one parcel is sent however large it is


def newest(keeper: Keeper, prefix: str) -> list[wire.Newest]:
    """Return the newest point of each series that waits to be sealed, of the spans whose ids begin with `prefix`."""
    found = (point for reader in keeper.origin_readers() for point in reader.newest(prefix))
    return list(itertools.islice(found, _MOST_NEWEST))


def unsealed(keeper: Keeper, asked: wire.AskUnsealed) -> wire.Unsealed:
    """Return the points that wait to be sealed and that the asker does not have yet."""
    parcels: list[wire.Parcel] = []
    sealed: dict[str, int] = {}
    left_bytes = _MOST_UNSEALED_BYTES
    for reader in keeper.origin_readers():
        if reader.upstream:  # another hub keeps it
            continue
        batch = reader.unsealed(tuple(asked.prefixes), asked.after.get(reader.name, 0))
        if batch is not None or reader.name in asked.after:
            sealed[reader.name] = reader.sealed
        for parcel in pack(batch) if batch is not None else ():
            left_bytes -= packed_bytes(parcel)
            if left_bytes < 0 and parcels:
                return wire.Unsealed(parcels, sealed, more=True)
            parcels.append(parcel)
    return wire.Unsealed(parcels, sealed)


def order(keeper: Keeper, command: Command, upstream: str | None = None) -> int | None:
    """Carry out a command for processes here; return for how many, None when it was given before.

    `upstream`: the hub that gives it. It may command only processes whose records are meant for it.
    """
    if not keeper.orders.is_new(command, upstream):
        return None
    pairs = [
        (reader.origin, keeper.watcher.watches[name])
        for name, reader in keeper.readers.items()
        if reader.origin and name in keeper.watcher.watches and upstream in (None, reader.upstream)
    ]
    return keeper.orders.obey(command, pairs, upstream)


def introduce(keeper: Keeper, origins: list[str], relay: str) -> wire.Marks | None:
    """Return how far origins of a relay are safe here from a power cut; None while old inboxes are being read."""
    if keeper.inboxes.unsafe_bytes or keeper.unsynced:
        keeper.flush()
    others = keeper.trust.others(origins, relay)
    own = [name for name in origins if name not in others]
    if (offsets := keeper.inboxes.offsets(own, relay)) is None:
        return None
    keeper.trust.introduced(own, relay)
    return wire.Marks(offsets, dict.fromkeys(others, _NOT_ITS_OWN))


def note_alive(keeper: Keeper, message: wire.Alive, relay: str) -> None:
    """Note the origins that a relay knows alive, and how their clocks differ."""
    keeper.trust.heard(relay)
    now_t = time.time_ns()
    ages = {name: message.ages[name] for name in keeper.trust.of_relay(message.ages, relay)}
    heard = {name: now_t - int(max(0.0, min(age, 1e9)) * 1e9) for name, age in ages.items()}
    skews = {}
    if message.skew_s is not None:
        skews = {name: message.skew_s + message.skews.get(name, 0.0) for name in heard}
    if keeper.inboxes.onward:
        keeper.inboxes.alive |= {name: (t, skews.get(name)) for name, t in heard.items()}
    keeper.store.keep([], heard, skews)
    keeper.unsynced = True
