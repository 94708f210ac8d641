"""The hubs that this one relays to, as the keeper sees them: where batches go, and what those hubs have acknowledged.

A `Relay` talks to one hub. `Upstreams` knows all relays, and tells the readers what their news mean to them.
"""

import time
from collections.abc import Callable

from vedette import wire
from vedette.errors import SettingError
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.hub.peers.inbox_reader import InboxReader
from vedette.hub.peers.relay import Connected, IsThisHub, Received, Relay
from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import LANE_FACTS, LANE_SAMPLES
from vedette.settings import Hub as Pace
from vedette.store import Batch, Mark, Store

ALIVE_EVERY_S = 10.0
_ACKNOWLEDGED = {LANE_FACTS: "f>", LANE_SAMPLES: "s>"}  # lanes of the marks of what another hub has acknowledged

OriginReader = SpoolReader | RemoteOrigin


def marks_of(store: Store, name: str, *, elsewhere: bool = False) -> tuple[Mark, Mark]:
    """Return the marks of an origin's two lanes in this store; `elsewhere`: those that another hub acknowledged."""
    marks, none = store.marks([name]), Mark()
    facts, samples = (_ACKNOWLEDGED[lane] if elsewhere else lane for lane in (LANE_FACTS, LANE_SAMPLES))
    return marks.get((name, facts), none), marks.get((name, samples), none)


class Upstreams:
    """The relays to other hubs, by their addresses."""

    def __init__(
        self,
        readers: dict[str, SpoolReader],
        inboxes: InboxReader,
        store: Store,
        pace: Pace,
        dial: Callable[[str], Relay] | None,
        blob_queue: BlobQueue,
    ) -> None:
        """`dial` begins a relay to an address; without it, records that are meant for other hubs wait."""
        self.relays: dict[str, Relay] = {}
        self.through: set[str] = set()  # the homes of the hubs that relay through this one
        self.set_aside: dict[str, str] = {}  # origins whose upstream is not a valid address, and why
        self._readers = readers
        self._inboxes = inboxes
        self._store = store
        self._pace = pace
        self._dial = dial
        self._blob_queue = blob_queue
        self._mine: set[str] = set()  # addresses that turned out to be this hub's own
        self._introduced: set[str] = set()  # remote origins that the next hub was asked about

    def _relay(self, upstream: str) -> Relay | None:
        """Return the relay to a hub, begun when it is first needed; None when there is no `dial`."""
        if upstream not in self.relays and self._dial is not None:
            self.relays[upstream] = self._dial(upstream)
        return self.relays.get(upstream)

    def resume_blobs(self) -> None:
        """Begin the relays for blobs that an earlier hub of this home did not finish sending."""
        for upstream in self._blob_queue.upstreams():
            try:
                self._relay(upstream)
            except SettingError:  # its origins are set aside when they are registered, which says why
                self._blob_queue.refusing.add(upstream)

    def register(self, reader: SpoolReader) -> None:
        """Have a reader that is meant for another hub wait until that hub has told its marks."""
        if self._pace.reroute:
            reader.upstream = self._pace.reroute
        if reader.upstream in self._mine:
            reader.upstream = ""
            return
        reader.ready = False
        reader.rewind(*marks_of(self._store, reader.name, elsewhere=True))
        try:
            relay = self._relay(reader.upstream)
        except SettingError as error:
            self.set_aside[reader.name] = str(error)
            return
        if relay is not None:
            relay.introduce([reader.name])

    def may_read(self, upstream: str) -> bool:
        """Tell whether more may be read for a hub: its relay has room. For this hub ("") it always may."""
        if not upstream:
            return True
        relay = self._relay(upstream)
        return relay is not None and relay.has_room

    def ship(self, upstream: str, group: list[tuple[OriginReader, Batch]], *, over: bool = False) -> None:
        """Ship batches to a hub; `over`: their origins have ended."""
        for _, batch in group:
            self._blob_queue.note(upstream, batch.facts)  # before the batch can be acknowledged, and forgotten here
        if (relay := self.relays.get(upstream)) is not None:
            relay.ship([(reader.name, batch) for reader, batch in group], over=over)

    def introduce_remotes(self) -> None:
        """Ask the next hub for its marks of the origins that other hubs have relayed to this one."""
        new = [
            name for name, remote in self._inboxes.origins.items() if not remote.ready and name not in self._introduced
        ]
        if new and (relay := self.relays.get(self._inboxes.onward)) is not None and relay.session is not None:
            relay.introduce(new)
            self._introduced.update(new)

    def poll(self) -> tuple[set[str], bool]:
        """Handle the news of all relays; return the origins whose marks came, and whether batches were acknowledged."""
        known: set[str] = set()
        safe: list[Batch] = []
        for upstream, relay in self.relays.items():
            for item in relay.news():
                readers = {name: one for name, one in self._readers.items() if one.upstream == upstream}
                if isinstance(item, IsThisHub):
                    if upstream == self._inboxes.onward:
                        self._inboxes.keep_here()
                    self._mine.add(upstream)
                    self._blob_queue.forget(upstream)
                    for reader in readers.values():
                        reader.upstream, reader.ready = "", True
                        reader.rewind(*marks_of(self._store, reader.name))
                elif not isinstance(item, Received):
                    for reader in readers.values():
                        reader.ready = False
                    if upstream == self._inboxes.onward:
                        self._inboxes.start_over()
                        self._introduced.clear()
                    if isinstance(item, Connected):
                        relay.introduce(list(readers))
                        relay.beat({}, {}, self._through(upstream))  # so that it can tell if hubs relay in a circle
                elif item.session is relay.session:
                    self._handle(relay, item, readers, known, safe)
        if safe:  # so that the next start knows where to go on, even if the other hub cannot be reached then
            self._store.keep([Batch(batch.origin, _ACKNOWLEDGED[batch.lane], batch.end) for batch in safe])
        return known, bool(safe)

    def _handle(
        self, relay: Relay, news: Received, readers: dict[str, SpoolReader], known: set[str], safe: list[Batch]
    ) -> None:
        message = news.message
        if isinstance(message, wire.Marks):
            known.update(message.marks)
            for name, why in message.refused.items():
                if name in readers:
                    self.set_aside[name] = f"the hub at {relay.address} does not accept it: {why}"
                elif name in self._inboxes.origins:
                    self._inboxes.refuse(name, why)
            for name, (facts, samples) in message.marks.items():
                if (reader := readers.get(name)) is not None and not reader.ready:
                    reader.rewind(Mark(facts), Mark(samples))
                    reader.ready = True
                elif (remote := self._inboxes.origins.get(name)) is not None and not remote.ready:
                    remote.resume(facts, samples)
        elif isinstance(message, wire.Kept):
            for name, batch in relay.acknowledged(news.session, message.seq):
                if name in self.set_aside:
                    continue
                origin = readers.get(name) or self._inboxes.origins.get(name)
                if origin is not None:
                    origin.committed(batch)
                safe.append(batch)

    def beat(self, alive: dict[str, int]) -> None:
        """Tell each hub when the origins that are meant for it were last known alive."""
        for upstream, relay in self.relays.items():
            onward = upstream == self._inboxes.onward
            below = self._alive_below() if onward else {}
            times = {name: t for name, t in alive.items() if self._readers[name].upstream == upstream}
            times |= {name: t for name, (t, _) in below.items()}
            skews = {name: skew for name, (_, skew) in below.items() if skew is not None}
            relay.beat(times, skews, self._through(upstream))

    def next_home(self) -> str | None:
        """Return the id of the home of the hub that everything is relayed to, if there is one and it has told it."""
        relay = self.relays.get(self._inboxes.onward)
        return (relay.other_home or None) if relay is not None else None

    def _through(self, upstream: str) -> list[str]:
        return sorted(self.through) if upstream == self._inboxes.onward else []

    def _alive_below(self) -> dict[str, tuple[int, float | None]]:
        """Return the remote origins that were recently known alive: when, and how far their clocks are ahead."""
        since_t = time.time_ns() - int(3 * ALIVE_EVERY_S * 1e9)
        self._inboxes.alive = {name: item for name, item in self._inboxes.alive.items() if item[0] > since_t}
        return self._inboxes.alive
