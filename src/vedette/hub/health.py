"""How the hub is, as `vedette doctor` shows it.

The event loop reads it while the keeper's thread changes it: each dict is copied before it is walked through.
"""

import os
from collections import Counter

from vedette import wire
from vedette.hub.sockets.server import Server
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.sweeper import Sweeper
from vedette.version import __version__


def report(
    keeper: Keeper,
    sweeper: Sweeper,
    server: Server,
    *,
    up_s: float,
    listens: str,
    not_listening: str,
    refused: Counter[str],
) -> wire.Health:
    """Return the hub's health.

    `listens` is the address that other hubs connect to; `not_listening` says why an address that was asked for cannot
    be listened on; `refused` is what the listeners have refused.
    """
    return wire.Health(
        pid=os.getpid(),
        version=__version__,
        up_s=up_s,
        living=len(keeper.living()),
        waiting_bytes=sum(reader.waiting_bytes for reader in list(keeper.readers.values())),
        set_aside=keeper.set_aside | {f"inbox/{name}": why for name, why in dict(keeper.inboxes.set_aside).items()},
        trouble=keeper.trouble or keeper.watcher.trouble or keeper.progress.trouble,
        listens=listens,
        deaf=not_listening,
        links=[(downstream.host, downstream.skew_s) for downstream in server.downstreams.open.values()],
        relays=[
            (str(relay.address), relay.trouble or relay.blob_refused)
            for relay in list(keeper.upstreams.relays.values())
        ],
        refused=dict(server.refused + refused),
        keep=sweeper.keep,
        sweeping=sweeper.busy or keeper.blob_collector.busy,
        sweep_trouble=sweeper.trouble,
        helpers=keeper.helper_troubles,
        relaying=sorted({downstream.relay for downstream in server.downstreams.open.values()}),
        longest_turn_s=keeper.longest_turn_s,
        sent_trouble=keeper.inboxes.trouble,
    )
