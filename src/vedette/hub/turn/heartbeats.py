"""Heartbeats: the hub notes when each process was last known alive, so that a silent one can be called lost."""

from collections.abc import Mapping

from vedette.hub.peers.upstreams import ALIVE_EVERY_S, Upstreams
from vedette.hub.processes.watcher import Watcher
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.store import Store


class Heartbeats:
    """Tells the store, and the hubs upstream, who lives."""

    def __init__(
        self, store: Store, upstreams: Upstreams, watcher: Watcher, readers: Mapping[str, SpoolReader], now: float
    ) -> None:
        self._store = store
        self._upstreams = upstreams
        self._watcher = watcher
        self._readers = readers
        self._beaten = now
        self._told: set[str] = set()  # origins that were said to live at least once

    def beat(self, now: float) -> None:
        """Say who lives: each one as soon as it is watched, then all of them every few seconds."""
        watched = self._watcher.watches
        names = [name for name in watched if name not in self._told and not self._readers[name].gone]
        due = now - self._beaten >= ALIVE_EVERY_S
        if due:
            self._beaten = now
            names = [name for name, reader in self._readers.items() if not reader.gone]
        if names or due:
            alive = {name: self._watcher.heard_t(self._readers[name]) for name in names}
            self._store.keep([], {name: t for name, t in alive.items() if not self._readers[name].upstream})
            self._upstreams.beat(alive)
        self._told.update(names)

    def repeat(self, names: set[str]) -> None:
        """Say at once again that these live: another hub has just met them."""
        self._told -= names

    def forget(self, name: str) -> None:
        """Forget an origin."""
        self._told.discard(name)
