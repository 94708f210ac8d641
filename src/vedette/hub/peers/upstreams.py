"""What is meant for other hubs, as the keeper sees it: who may be read, where batches go, and what is safe there.

`relay` talks to one hub; this knows all of them, and what their news mean to those who speak.
"""

import time
from collections.abc import Callable

from vedette import wire
from vedette.errors import SettingError
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.hub.peers.inbox import InboxReader
from vedette.hub.peers.relay import Connected, IsThisHub, Received, Relay
from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import LANE_FACTS, LANE_SAMPLES
from vedette.settings import Hub as Pace
from vedette.store import Batch, Mark, Store

ALIVE_EVERY_S = 10.0
_ELSEWHERE = {LANE_FACTS: "f>", LANE_SAMPLES: "s>"}  # marks of what another hub has acknowledged

OriginReader = SpoolReader | RemoteOrigin


def marks_of(store: Store, name: str, *, elsewhere: bool = False) -> tuple[Mark, Mark]:
    """Return how far an origin is in this store, or how far it is known to be `elsewhere`."""
    marks, none = store.marks([name]), Mark()
    facts, samples = (_ELSEWHERE[lane] if elsewhere else lane for lane in (LANE_FACTS, LANE_SAMPLES))
    return marks.get((name, facts), none), marks.get((name, samples), none)


class Upstreams:
    """The ways to other hubs."""

    def __init__(
        self,
        readers: dict[str, SpoolReader],
        inboxes: InboxReader,
        store: Store,
        pace: Pace,
        dial: Callable[[str], Relay] | None,
        blob_queue: BlobQueue,
    ) -> None:
        """`dial` makes the way to a hub out of its address; without it, what is meant for others waits."""
        self.relays: dict[str, Relay] = {}
        self.through: set[str] = set()  # the homes of hubs that relay through this one
        self.set_aside: dict[str, str] = {}  # origins whose hub cannot be made out, and why
        self._readers = readers
        self._inboxes = inboxes
        self._store = store
        self._pace = pace
        self._dial = dial
        self._blob_queue = blob_queue
        self._mine: set[str] = set()  # addresses of hubs that turned out to be this one
        self._introduced: set[str] = set()  # of those whom other hubs passed on, to the next one

    def _relay(self, upstream: str) -> Relay | None:
        """Return the way to a hub, made when it is first needed; None when there is none."""
        if upstream not in self.relays and self._dial is not None:
            self.relays[upstream] = self._dial(upstream)
        return self.relays.get(upstream)

    def take_up(self) -> None:
        """Go on with the blobs that a hub before this one did not get sent."""
        for upstream in self._blob_queue.upstreams():
            try:
                self._relay(upstream)
            except SettingError:  # whoever it was for is enrolled, and set aside with a word
                self._blob_queue.refusing.add(upstream)

    def enrol(self, reader: SpoolReader) -> None:
        """Have a reader that is meant for another hub wait until it is known how far it is there."""
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
        """Tell whether there is room for more on the way to a hub; the way to the store here is always free."""
        if not upstream:
            return True
        relay = self._relay(upstream)
        return relay is not None and relay.has_room

    def offer(self, upstream: str, group: list[tuple[OriginReader, Batch]], *, over: bool = False) -> None:
        """Ship batches; `over`: their origins will say no more."""
        for _, batch in group:
            self._blob_queue.note(upstream, batch.facts)  # before anybody can acknowledge that it was heard of
        if (relay := self.relays.get(upstream)) is not None:
            relay.offer([(reader.name, batch) for reader, batch in group], over=over)

    def introduce_remotes(self) -> None:
        """Ask the next hub how far those are there whom others have passed on to this one."""
        new = [
            name for name, remote in self._inboxes.origins.items() if not remote.ready and name not in self._introduced
        ]
        if new and (relay := self.relays.get(self._inboxes.onward)) is not None and relay.session is not None:
            relay.introduce(new)
            self._introduced.update(new)

    def hear(self) -> tuple[set[str], bool]:
        """Take in what other hubs say; return the origins whose marks came, and whether something is safe there."""
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
                        relay.beat({}, {}, self._through(upstream))  # should they go in a circle, it is said at once
                elif item.session is relay.session:
                    self._heed(relay, item, readers, known, safe)
        if safe:  # should the other hub be out of reach at the next start, it is known here where to go on
            self._store.keep([Batch(batch.origin, _ELSEWHERE[batch.lane], batch.end) for batch in safe])
        return known, bool(safe)

    def _heed(
        self, relay: Relay, told: Received, readers: dict[str, SpoolReader], known: set[str], safe: list[Batch]
    ) -> None:
        message = told.message
        if isinstance(message, wire.Marks):
            known.update(message.marks)
            for name, (facts, samples) in message.marks.items():
                if (reader := readers.get(name)) is not None and not reader.ready:
                    reader.rewind(Mark(facts), Mark(samples))
                    reader.ready = True
                elif (remote := self._inboxes.origins.get(name)) is not None and not remote.ready:
                    remote.resume(facts, samples)
        elif isinstance(message, wire.Kept):
            for name, batch in relay.acknowledged(told.session, message.seq):
                origin = readers.get(name) or self._inboxes.origins.get(name)
                if origin is not None:
                    origin.committed(batch)
                safe.append(batch)

    def beat(self, heard: dict[str, int]) -> None:
        """Tell other hubs when those who are meant for them were last known alive."""
        for upstream, relay in self.relays.items():
            onward = upstream == self._inboxes.onward
            below = self._alive_below() if onward else {}
            times = {name: t for name, t in heard.items() if self._readers[name].upstream == upstream}
            times |= {name: t for name, (t, _) in below.items()}
            skews = {name: skew for name, (_, skew) in below.items() if skew is not None}
            relay.beat(times, skews, self._through(upstream))

    def _through(self, upstream: str) -> list[str]:
        return sorted(self.through) if upstream == self._inboxes.onward else []

    def _alive_below(self) -> dict[str, tuple[int, float | None]]:
        """Return those that other hubs have lately said to be alive, to be passed on."""
        since_t = time.time_ns() - int(3 * ALIVE_EVERY_S * 1e9)
        self._inboxes.alive = {name: item for name, item in self._inboxes.alive.items() if item[0] > since_t}
        return self._inboxes.alive
