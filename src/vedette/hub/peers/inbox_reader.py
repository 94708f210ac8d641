"""Reads what other hubs ship, from the inboxes that their connections have written.

Those of one relay are read in the order in which they were begun, because an origin's later shipments continue its
earlier ones. The relays take turns: what one of them floods this hub with stops its own inboxes only.
"""

import collections
import itertools
import os
import time
from collections.abc import Callable

import msgspec

from vedette import wire
from vedette.errors import FormatError, HubError
from vedette.fileio import unlink
from vedette.hub.peers.inbox import LANE, Inbox
from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.peers.trust import Trust
from vedette.hub.turn.quota import Quota
from vedette.hub.turn.turns import Turns
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES
from vedette.segment import list_segments, read_origin, segment_name
from vedette.settings import Settings
from vedette.store import UNKNOWN_RELAY, Mark, parcels
from vedette.tail import SHIPMENT, Tail

_RECENT_S = 600.0
_MOST_WAITING = 4 << 20  # numbers of 8 bytes that may wait in memory
_MOST_NUMBERS = 2 << 20  # numbers in one shipment that has just come
_MOST_VALUES = 2 << 20  # in the facts of one that has just come; a shipment of them all would be nearly nothing else
_READ_BYTES = 1 << 20  # bytes of an inbox that are read at once
_READ_S = 0.2  # how long inboxes are read in one pass
_MOST_PARCELS = 4200  # in a shipment that has just come; relays that do not know it send 1 MiB / 250 bytes at most
_MOST_ORIGINS = 20_000  # of one relay that are remembered: it is not read until some are committed
_MOST_TELLING = 4  # relays of one holder whose facts may wait in memory at the same time
_MOST_INBOXES = 100  # of one relay: each connection leaves one, until it is read
_AGAIN_S = 5.0  # after that an inbox that could not be read is tried again
_MOST_LEAP = 1 << 40  # bytes of a lane in one parcel; between two records there may be much that was dropped
_decode = msgspec.msgpack.Decoder(wire.Shipment).decode


class InboxReader:
    """Reads the inboxes, and holds what they bring until it is committed."""

    def __init__(self, root: str, marks: Callable[[str], tuple[Mark, Mark]], settings: Settings, trust: Trust) -> None:
        """Read the inboxes in a directory. Those that are there already are left over: nobody writes to them.

        `marks` returns the marks of an origin's two lanes; `trust` knows what a relay may say.
        """
        self._trust = trust
        trust.trouble = lambda text: setattr(self, "trouble", text)
        self._relays: dict[str, str] = {}  # by inbox
        self._refused: dict[str, dict[str, str]] = {}  # by inbox: origins that are not accepted, and why; to be told
        self._unwelcome: dict[str, str] = {}  # origins that the next hub does not accept, and why
        self.onward = settings.hub.onward  # the next hub, which everything is relayed to; "": it is kept here
        self._limits = settings.limits
        self.origins: dict[str, RemoteOrigin] = {}
        self.alive: dict[str, tuple[int, float | None]] = {}  # when an origin was last known alive, its clock's skew
        self._troubled = ("", 0.0)
        self.unsafe_bytes = 0  # read, and not flushed
        self.broken: dict[str, str] = {}  # live inboxes with a shipment that cannot be accepted, and why
        self.backlogged: set[str] = set()  # relays of which so much waits that somebody is not read until it is sealed
        self._waiting: collections.Counter[str] = collections.Counter()  # numbers in memory, by relay
        self._telling: set[str] = set()  # relays whose facts wait to be committed
        self._turns = Turns(trust.holder_of_relay)
        self._until = 0.0  # when this pass has read for long enough
        self._values = 0  # in the facts of the shipment that is being read
        self._room = _MOST_WAITING  # how many more numbers this read may bring
        self._root = root
        self._marks = marks
        self._tails: dict[str, Tail] = {}
        self._at_end: set[str] = set()  # inboxes that nobody writes to, read to their end
        self._live: set[str] = set()  # inboxes that are being written to
        self._again_at: dict[str, float] = {}  # inboxes that could not be read, and when they are tried again
        self._last: dict[str, int] = {}  # by inbox: the last shipment that was read
        self._unsafe: dict[
            str, collections.deque[tuple[int, int]]
        ] = {}  # by inbox: where unsafe shipments end, and their seq
        self.set_aside: dict[str, str] = {}  # inboxes that cannot be read, and why
        self._left_over = set(self._names())  # of an earlier hub: nobody writes to them, or sends again what they hold
        self._count = max(map(int, self._left_over), default=0)

    @property
    def trouble(self) -> str:
        """What went wrong last with what others send, if it was recently."""
        text, at = self._troubled
        return text if time.monotonic() - at < _RECENT_S else ""

    @trouble.setter
    def trouble(self, text: str) -> None:
        self._troubled = text[:500], time.monotonic()

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._root) as entries:
                return sorted(e.name for e in entries if e.name.isascii() and e.name.isdigit() and e.is_dir())
        except OSError:
            return []

    def open(self, relay: str, cap_bytes: int) -> Inbox:
        """Begin an inbox for the connection of a relay; raise HubError if too many of its earlier ones are not read."""
        if list(self._relays.values()).count(relay) >= _MOST_INBOXES:
            raise HubError(
                f"{_MOST_INBOXES} of its connections have sent what is not stored yet: it may come again later"
            )
        self._count += 1
        name = f"{self._count:012d}"
        # The event loop asks for the names; list() of a dict is one operation, whatever this thread does meanwhile.
        inbox = Inbox(
            self._root, name, relay, cap_bytes,
            lambda: [known for known, its in list(self._relays.items()) if its == relay],
        )  # fmt: skip
        self._relays[name] = relay
        self._live.add(name)
        return inbox

    def keep_here(self) -> None:
        """Keep everything here: the next hub has turned out to be this one."""
        self.onward = ""
        self.start_over()

    def disconnected(self, name: str) -> None:
        """Note that a connection has ended: nothing will follow in its inbox."""
        self._live.discard(name)
        self.broken.pop(name, None)
        self._refused.pop(name, None)

    def refuse(self, origin: str, why: str) -> None:
        """Accept nothing more of an origin: the next hub does not. Its relay is told."""
        self._unwelcome[origin] = why
        self.origins.pop(origin, None)
        for inbox in self._live:
            if self._relays.get(inbox) == self._trust.relay_of(origin):
                self._refused.setdefault(inbox, {})[origin] = why

    def refusals(self) -> dict[str, dict[str, str]]:
        """Return the origins that are not accepted, and why, by inbox: their relays must be told."""
        found, self._refused = self._refused, {}
        return found

    def _relay_of(self, inbox: str) -> str:
        """Return the relay that has written an inbox; its header tells a later hub, if it can be read."""
        if inbox not in self._relays:
            origin = read_origin(os.path.join(self._root, inbox))
            self._relays[inbox] = (origin.host if origin is not None else "") or UNKNOWN_RELAY
        return self._relays[inbox]

    def read(self, now: float) -> bool:
        """Read on in the inboxes for a while, beginning with the relay whose turn it is; tell if there may be more.

        Of a relay nothing is read while facts of it wait to be committed, or while as many of its numbers wait to be
        sealed as are left for all others: so there is always some room for the next one.
        """
        self._until = time.monotonic() + _READ_S
        self._waiting = collections.Counter()
        for remote in self.origins.values():
            self._waiting[remote.relay] += remote.numbers
        self._telling = {remote.relay for remote in self.origins.values() if remote.has_facts}
        self.backlogged.clear()
        known = collections.Counter(remote.relay for remote in self.origins.values())
        held = {relay for relay, count in known.items() if count >= _MOST_ORIGINS}  # of whom nothing is read now
        more = False
        for name in self._in_turn():
            relay = self._relay_of(name)
            if relay in held or now < self._again_at.get(name, now):
                held.add(relay)
                continue
            if relay in self._telling or self._is_told_enough(relay) or not self._has_room(relay):
                held.add(relay)
                more = True
                continue
            self._turns.had(relay)
            room = self._room
            try:
                moved = self._read_one(name, now)
                has_more = self._tails[name].has_more
                more = more or has_more
                self._again_at.pop(name, None)
            except FormatError as error:  # a newer version wrote it: leave it as it is
                self.set_aside[name] = str(error)
                continue
            except OSError as error:
                self._fail(name, error, now)
                held.add(relay)  # later inboxes may continue what could not be read
                continue
            finally:
                self._waiting[relay] += room - self._room
            if (moved or has_more) and name not in self._live:
                held.add(relay)  # later inboxes may continue what is still unread in this one
            if time.monotonic() > self._until:
                return True
        return more

    def _in_turn(self) -> list[str]:
        """Return the inboxes that may have something to read; those of one relay are in their order."""
        names: list[str] = []
        for name in self._names():
            if name in self._at_end or name in self.set_aside:
                continue
            try:
                relay = self._relay_of(name)
            except OSError as error:  # any inbox behind it may continue it
                self.trouble = f"inbox {name}: {error}"
                break
            if relay == UNKNOWN_RELAY and names:  # of an older vedette: the same
                break
            names.append(name)
            if relay == UNKNOWN_RELAY:
                break
        return self._turns.sort(names, self._relay_of)

    def _is_told_enough(self, relay: str) -> bool:
        """Tell whether facts of so many relays of this holder wait to be committed that no more are read."""
        holder = self._trust.holder_of_relay(relay)
        return sum(self._trust.holder_of_relay(other) == holder for other in self._telling) >= _MOST_TELLING

    def _fail(self, name: str, error: OSError, now: float) -> None:
        """Have an inbox that could not be read, or flushed, read again from its beginning, in a while."""
        self.trouble = f"inbox {name}: {error}"
        self._again_at[name] = now + _AGAIN_S
        if (tail := self._tails.pop(name, None)) is not None:
            tail.shut()
        self._last.pop(name, None)
        self._unsafe.pop(name, None)  # nothing is acknowledged before it is read and flushed again

    def _has_room(self, relay: str) -> bool:
        """Tell whether numbers of a relay may come, and how many; if not, the one of whom most waits is sealed."""
        self._room = (_MOST_WAITING - self._waiting.total() - self._waiting[relay]) // 2
        if self._room < 0:
            self.backlogged.add(max(self._waiting, key=self._waiting.__getitem__))
        return self._room >= 0

    def _read_one(self, name: str, now: float) -> int:
        """Read on in one inbox; return how many bytes."""
        if name not in self._tails:
            directory = os.path.join(self._root, name)
            self._tails[name] = Tail(directory, LANE, _first(self._root, name), shape=SHIPMENT)
        tail = self._tails[name]
        live = name in self._live
        at = before = tail.offset
        damaged = tail.damaged
        records = tail.read(gone=not live, limit=_READ_BYTES)
        if tail.damaged > damaged:
            self.trouble = f"inbox {name} is damaged: what is missing is counted at the origins that it belongs to"
        for n, payload in records:
            if self._room < 0 or (at > before and time.monotonic() > self._until):
                # The rest is read again when this is sealed, or when others had their turns.
                tail = self._rewind(name, at)
                break
            self._take(name, at, payload, now, live=live)
            if name in self._last:
                self._unsafe.setdefault(name, collections.deque()).append((n, self._last[name]))
            self.unsafe_bytes += n - at
            at = n
        if tail.offset == before and not live and not tail.has_more:
            self._at_end.add(name)
        return tail.offset - before

    def _rewind(self, name: str, offset: int) -> Tail:
        """Read an inbox again from an earlier offset, between two shipments."""
        old = self._tails[name]
        old.sync()  # flush the segments that it has read to their end: the new tail begins behind them
        old.shut()
        tail = self._tails[name] = Tail(os.path.join(self._root, name), LANE, offset, shape=SHIPMENT)
        tail.damaged = old.damaged
        tail.has_more = True
        return tail

    def _take(self, inbox: str, at: int, payload: bytes, now: float, *, live: bool) -> None:
        """Take a shipment. A bad one ends its connection, and is never acknowledged."""
        if inbox in self.broken:
            return
        try:
            shipment = _decode(payload)
            if live and shipment.seq != self._last.get(inbox, shipment.seq - 1) + 1:
                raise FormatError(f"shipment {shipment.seq} is not the next one")
            if live and len(shipment.parcels) > _MOST_PARCELS:
                raise FormatError(f"a shipment holds more than {_MOST_PARCELS} parcels")
            numbers = sum(parcels.numbers_in(parcel) for parcel in shipment.parcels)
            if numbers > (most := _MOST_NUMBERS if live else parcels.MOST_NUMBERS):
                raise FormatError(f"a shipment holds more than {most} numbers")
            self._room -= numbers
            self._values = 0
            for parcel in shipment.parcels:
                self._take_parcel(parcel, inbox, at, now)
            self._last[inbox] = shipment.seq
        except (*wire.UNREADABLE, FormatError) as error:
            self.trouble = str(error)[:500]
            if live:
                self.broken[inbox] = self.trouble

    def _take_parcel(self, parcel: wire.Parcel, inbox: str, at: int, now: float) -> None:
        relay = self._relay_of(inbox)
        if parcel.end - parcel.start > _MOST_LEAP:
            raise FormatError(f"{parcel.origin.name}: a parcel goes from {parcel.start} to {parcel.end}")
        remote = self.origins.get(parcel.origin.name)
        if why := self._unwelcome.get(parcel.origin.name) or self._trust.why_not(parcel.origin, relay):
            self._refused.setdefault(inbox, {})[parcel.origin.name] = why
            return
        if remote is None:
            remote = RemoteOrigin(
                parcel.origin,
                *self._marks(parcel.origin.name),
                Quota(self._limits, by_hub=parcel.origin.voice == HUB),
            )
            remote.upstream = self.onward
            remote.ready = not self.onward
            self.origins[remote.name] = remote
        remote.relay = relay
        try:
            batch = parcels.unpack(parcel)
        except FormatError as error:
            self.trouble = f"{remote.name}: {error}"
            batch = parcels.nothing_of(parcel)  # counted as damaged, and skipped
        self._values += sum(parcels.values_of(fact) for _, fact in batch.facts)
        if self._values > _MOST_VALUES:  # made to cost memory: counted, and passed over
            batch.refused += len(batch.facts)
            batch.facts = []
        batch.refused += self._trust.screen(batch, relay)
        lost = self._tails[inbox].damaged or inbox in self._left_over
        if batch.start > remote.offset[batch.lane] and lost:  # an inbox was damaged, or the store was begun anew
            batch.start = remote.offset[batch.lane]  # nobody sends again what was between
            batch.damaged += 1
        found = batch.damaged - parcel.damaged, batch.refused - parcel.refused
        if not remote.take(batch, now, inbox, at, found):
            offset = remote.offset[batch.lane]
            raise FormatError(
                f"{remote.name}: a parcel begins at {batch.start}, and this hub has it up to {offset} only"
            )
        remote.over = remote.over or parcel.over
        if remote.has_facts:
            self._telling.add(relay)

    def offsets(self, origins: list[str], relay: str) -> dict[str, tuple[int, int]] | None:
        """Return how far origins of a relay are committed or in an inbox here, by lane.

        None while old inboxes of this relay are being read: what those of others hold is not its own.
        """
        known = self._live | self._at_end | self.set_aside.keys()
        unread = [inbox for inbox in self._names() if inbox not in known]
        try:
            if any(self._relay_of(inbox) in (relay, UNKNOWN_RELAY) for inbox in unread):
                return None
        except OSError:
            return None
        reached = {}
        for name in origins:
            if (remote := self.origins.get(name)) is not None:
                reached[name] = remote.offset[LANE_FACTS], remote.offset[LANE_SAMPLES]
            else:
                facts, samples = self._marks(name)
                reached[name] = facts.offset, samples.offset
        return reached

    def sync(self) -> dict[str, int]:
        """Flush what was read; return the last shipment of each live inbox that may be acknowledged now.

        What is kept here is safe as soon as its inbox is flushed, what is relayed when the next hub has it.
        """
        for tail in self._tails.values():
            tail.sync()
        self.unsafe_bytes = 0
        needed = self._needed() if self.onward else {}
        safe = {}
        for name, ends in self._unsafe.items():
            while ends and ends[0][0] <= needed.get(name, 1 << 62):
                safe[name] = ends.popleft()[1]
        return {name: seq for name, seq in safe.items() if name in self._live}

    def _needed(self) -> dict[str, int]:
        """Return the offset from which on each inbox is still needed; an inbox that is not there is not needed."""
        needed: dict[str, int] = {}
        for remote in self.origins.values():
            for (inbox, _), at in remote.needs.items():
                needed[inbox] = min(needed.get(inbox, at), at)
        return needed

    def free(self, now: float) -> list[RemoteOrigin]:
        """Unlink what is committed; return the origins that are done. Call it only after a sync of the store."""
        known = collections.Counter(remote.relay for remote in self.origins.values())
        crowded = {relay for relay, count in known.items() if count >= _MOST_ORIGINS}
        done = [
            remote for remote in self.origins.values()
            if remote.is_done(now) or (remote.relay in crowded and not remote.needs)
        ]  # fmt: skip
        for remote in done:
            del self.origins[remote.name]
        needed = self._needed()
        for name, tail in list(self._tails.items()):
            directory = os.path.join(self._root, name)
            for offset, following in itertools.pairwise(list_segments(directory, LANE)):
                if following <= needed.get(name, tail.offset):
                    unlink(os.path.join(directory, segment_name(LANE, offset)))
            if name in self._at_end and name not in needed:
                self._remove(name)
        return done

    def _remove(self, name: str) -> None:
        self._tails.pop(name).shut()
        self._relays.pop(name, None)
        self._refused.pop(name, None)
        self._at_end.discard(name)
        self._last.pop(name, None)
        self._unsafe.pop(name, None)
        self.broken.pop(name, None)
        directory = os.path.join(self._root, name)
        try:
            for file in os.listdir(directory):
                unlink(os.path.join(directory, file))
            os.rmdir(directory)
        except OSError as error:
            self.trouble = str(error)

    def start_over(self) -> None:
        """Forget what waits, and read again all that is not committed."""
        self.shut()
        self.origins.clear()
        self._last.clear()
        self._unsafe.clear()  # nothing is acknowledged before it is read and flushed again
        self._at_end.clear()
        self._unwelcome.clear()

    def shut(self) -> None:
        """Close the open segments."""
        for tail in self._tails.values():
            tail.shut()
        self._tails.clear()

    @property
    def idle(self) -> bool:
        """Whether there is no inbox."""
        return not self._live and not self._names()


def _first(root: str, name: str) -> int:
    offsets = list_segments(os.path.join(root, name), LANE)
    return offsets[0] if offsets else 0
