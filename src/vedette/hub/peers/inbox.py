"""What other hubs have sent: the shipments of each connection lie in an inbox, a spool of its own, until they are kept.

The connection writes its `Inbox`. `InboxReader` reads all inboxes in the order in which they were begun, because an
origin's later shipments continue its earlier ones.
"""

import itertools
import os
import time
from collections import deque
from collections.abc import Callable

import msgspec

from vedette import wire
from vedette.errors import FormatError
from vedette.fileio import file_size, unlink
from vedette.hub.peers import parcels
from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.turn.quota import Quota
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES, Origin
from vedette.segment import list_segments, segment_name
from vedette.settings import Settings
from vedette.spool import Spool
from vedette.store import Mark
from vedette.tail import SHIPMENT, Tail

_LANE = LANE_SAMPLES
_LOOK_BYTES = 1 << 20
_LATELY_S = 600.0
_MOST_WAITING = 16 << 20  # numbers of 8 bytes
_LIMIT = 4 << 20  # bytes of an inbox that are read at once
_decode = msgspec.msgpack.Decoder(wire.Shipment).decode


class _Shelf(Spool):
    """A spool that gives nothing up: what lies here has been acknowledged, or will be."""

    def make_room(self, wanted: int, least: int, lane: str) -> int:  # noqa: ARG002 - one lane only
        """Return the size of the next segment; if the disk has no room for that, making it will say so."""
        return max(wanted, -(-least // 4096) * 4096)


class Inbox:
    """Where one connection's shipments go before they are acknowledged."""

    def __init__(self, root: str, name: str, cap_bytes: int) -> None:
        """Make it; `cap_bytes`: how much may wait in it before it is full."""
        self.name = name
        self.appended = 0  # bytes, since it was made
        self._cap_bytes = cap_bytes
        self._looked = 0  # `appended` when it was last seen to have room
        self._spool = _Shelf(root, lambda: Origin(name), cap_bytes, 1.0)
        os.makedirs(os.path.join(root, name), mode=0o700, exist_ok=True)

    def append(self, payload: bytes) -> None:
        """Keep a shipment; raise OSError when the disk has no room for it."""
        lane = self._spool.samples
        lost = lane.lost
        lane.append(wire.frame(payload))
        if lane.lost > lost:
            raise OSError(f"the inbox cannot be written to: {self._spool.trouble}")
        self.appended += len(payload)

    def is_full(self) -> bool:
        """Tell whether so much waits here that no more should be taken in for now."""
        if self.appended - self._looked < _LOOK_BYTES:
            return False
        directory = self._spool.directory
        waiting = sum(
            file_size(os.path.join(directory, segment_name(_LANE, offset)))
            for offset in list_segments(directory, _LANE)
        )
        if waiting < self._cap_bytes:
            self._looked = self.appended
        return waiting >= self._cap_bytes

    def close(self) -> None:
        """Say that nothing will follow."""
        self._spool.close()


class InboxReader:
    """Reads the inboxes, and holds what came in until it is kept."""

    def __init__(self, root: str, marks: Callable[[str], tuple[Mark, Mark]], settings: Settings) -> None:
        """Read the inboxes in a directory; those that are there already have nobody who writes to them.

        `marks` tells how far the two lanes of an origin are kept.
        """
        self.onward = settings.hub.onward  # the hub that everything is passed on to
        self._limits = settings.limits
        self.origins: dict[str, RemoteOrigin] = {}
        self.alive: dict[str, tuple[int, float | None]] = {}  # when an origin was last known so, its clock's skew
        self._troubled = ("", 0.0)
        self.unsafe_bytes = 0  # read, and not flushed
        self.broken: dict[str, str] = {}  # live inboxes in which something does not fit on, and why
        self.pressed = False  # so much waits in memory that no more is read until it is sealed
        self._room = _MOST_WAITING  # for numbers, in this reading
        self._root = root
        self._marks = marks
        self._tails: dict[str, Tail] = {}
        self._dry: set[str] = set()  # inboxes that nobody writes to, read to their end
        self._live: set[str] = set()  # inboxes that are being written to
        self._last: dict[str, int] = {}  # by inbox: the last shipment that was read
        self._ends: dict[str, deque[tuple[int, int]]] = {}  # by inbox: where unsafe shipments end, and their seq
        self.set_aside: dict[str, str] = {}  # inboxes that cannot be read, and why
        self._old = set(self._names())  # their senders are gone, and have been told what is here
        self._is_hurt = False  # one of these has lost something, on to which later ones may have fitted
        self._count = max(map(int, self._old), default=0)

    @property
    def trouble(self) -> str:
        """What was last wrong with what others send, if that was lately."""
        text, at = self._troubled
        return text if time.monotonic() - at < _LATELY_S else ""

    @trouble.setter
    def trouble(self, text: str) -> None:
        self._troubled = text[:500], time.monotonic()

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._root) as entries:
                return sorted(e.name for e in entries if e.name.isascii() and e.name.isdigit() and e.is_dir())
        except OSError:
            return []

    def open(self, cap_bytes: int) -> Inbox:
        """Begin an inbox for a connection."""
        self._count += 1
        name = f"{self._count:012d}"
        inbox = Inbox(self._root, name, cap_bytes)
        self._live.add(name)
        return inbox

    def keep_here(self) -> None:
        """Pass nothing on after all: the next hub has turned out to be this one."""
        self.onward = ""
        self.start_over()

    def left(self, name: str) -> None:
        """Take note that a connection has ended: nothing will follow in its inbox."""
        self._live.discard(name)
        self.broken.pop(name, None)

    def read(self, now: float) -> bool:
        """Read on in all inboxes; return whether there may be more."""
        more = False
        for name in self._names():
            if name in self._dry or name in self.set_aside:
                continue
            self._room = _MOST_WAITING - sum(remote.numbers for remote in self.origins.values())
            self.pressed = self._room < 0
            if self.pressed:
                return True
            try:
                moved = self._read_one(name, now)
            except FormatError as error:  # of a newer version: left alone, whole
                self.set_aside[name] = str(error)
                continue
            except OSError as error:
                self.trouble = f"inbox {name}: {error}"
                continue
            more = more or moved >= _LIMIT
            if moved and name not in self._live:
                break  # what lies in later ones may fit only on to what is still to be read here
        return more

    def _read_one(self, name: str, now: float) -> int:
        """Read on in one inbox; return how many bytes."""
        if name not in self._tails:
            directory = os.path.join(self._root, name)
            self._tails[name] = Tail(directory, _LANE, _first(self._root, name), shape=SHIPMENT)
        tail = self._tails[name]
        live = name in self._live
        at = before = tail.offset
        damaged = tail.damaged
        records = tail.read(gone=not live, limit=_LIMIT)
        if tail.damaged > damaged:
            self.trouble = f"inbox {name} is damaged: what is missing is counted where it is noticed"
        for n, payload in records:
            if self._room < 0:  # the rest is read again, once this is sealed
                tail = self._put_back(name, at)
                break
            self._take(name, at, payload, now, live=live)
            if name in self._last:
                self._ends.setdefault(name, deque()).append((n, self._last[name]))
            self.unsafe_bytes += n - at
            at = n
        if tail.offset == before and not live:
            self._dry.add(name)
            self._is_hurt = self._is_hurt or tail.damaged > 0
        return tail.offset - before

    def _put_back(self, name: str, offset: int) -> Tail:
        """Have an inbox read on from an earlier offset, between two shipments."""
        old = self._tails[name]
        old.sync()  # it may be done with segments that were read in part only
        old.shut()
        tail = self._tails[name] = Tail(os.path.join(self._root, name), _LANE, offset, shape=SHIPMENT)
        tail.damaged = old.damaged
        return tail

    def _take(self, inbox: str, at: int, payload: bytes, now: float, *, live: bool) -> None:
        """Take in a shipment. What is wrong with it ends its connection, and is never acknowledged."""
        if inbox in self.broken:
            return
        try:
            shipment = _decode(payload)
            if live and shipment.seq != self._last.get(inbox, shipment.seq - 1) + 1:
                raise FormatError(f"shipment {shipment.seq} is not the next one")
            numbers = sum(parcels.numbers_in(parcel) for parcel in shipment.parcels)
            if numbers > parcels.MOST_NUMBERS:
                raise FormatError(f"a shipment holds more than {parcels.MOST_NUMBERS} numbers")
            self._room -= numbers
            for parcel in shipment.parcels:
                self._take_parcel(parcel, inbox, at, now)
            self._last[inbox] = shipment.seq
        except (*wire.UNREADABLE, FormatError) as error:
            self.trouble = str(error)[:500]
            if live:
                self.broken[inbox] = self.trouble

    def _take_parcel(self, parcel: wire.Parcel, inbox: str, at: int, now: float) -> None:
        remote = self.origins.get(parcel.origin.name)
        if remote is None:
            remote = RemoteOrigin(
                parcel.origin,
                *self._marks(parcel.origin.name),
                Quota(self._limits, by_hub=parcel.origin.voice == HUB),
            )
            remote.upstream = self.onward
            remote.ready = not self.onward
            self.origins[remote.name] = remote
        try:
            batch = parcels.unpack(parcel)
        except FormatError as error:
            self.trouble = f"{remote.name}: {error}"
            batch = parcels.nothing_of(parcel)  # counted, and passed over
        hurt = self._tails[inbox].damaged or (self._is_hurt and inbox in self._old)
        if batch.start > remote.offset[batch.lane] and hurt:
            batch.start = remote.offset[batch.lane]  # what lay between is damaged, and it will not come again
            batch.damaged += 1
        found = batch.damaged - parcel.damaged, batch.refused - parcel.refused
        if not remote.take(batch, now, inbox, at, found):
            offset = remote.offset[batch.lane]
            raise FormatError(f"{remote.name}: a parcel from {batch.start} on lies beyond {offset}")
        remote.over = remote.over or parcel.over

    def reach(self, origins: list[str]) -> dict[str, tuple[int, int]] | None:
        """Return how far origins are here: kept, or safe in an inbox. None while old inboxes are being read."""
        known = self._live | self._dry | self.set_aside.keys()
        if any(inbox not in known for inbox in self._names()):
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
        """Flush what was read; return the last shipment of each live inbox that is safe now.

        Here it is safe as it lies; what is passed on is so when the next hub has it.
        """
        for tail in self._tails.values():
            tail.sync()
        self.unsafe_bytes = 0
        held = self._held() if self.onward else {}
        safe = {}
        for name, ends in self._ends.items():
            while ends and ends[0][0] <= held.get(name, 1 << 62):
                safe[name] = ends.popleft()[1]
        return {name: seq for name, seq in safe.items() if name in self._live}

    def _held(self) -> dict[str, int]:
        """Return from where on each inbox must stay."""
        held: dict[str, int] = {}
        for remote in self.origins.values():
            for (inbox, _), at in remote.held.items():
                held[inbox] = min(held.get(inbox, at), at)
        return held

    def free(self, now: float) -> list[RemoteOrigin]:
        """Unlink what is kept, only after a sync of the store; return those who are let go of."""
        done = [remote for remote in self.origins.values() if remote.is_done(now)]
        for remote in done:
            del self.origins[remote.name]
        held = self._held()
        for name, tail in list(self._tails.items()):
            directory = os.path.join(self._root, name)
            for offset, following in itertools.pairwise(list_segments(directory, _LANE)):
                if following <= held.get(name, tail.offset):
                    unlink(os.path.join(directory, segment_name(_LANE, offset)))
            if name in self._dry and name not in held:
                self._remove(name)
        return done

    def _remove(self, name: str) -> None:
        self._tails.pop(name).shut()
        self._dry.discard(name)
        self._last.pop(name, None)
        self._ends.pop(name, None)
        self.broken.pop(name, None)
        directory = os.path.join(self._root, name)
        try:
            for file in os.listdir(directory):
                unlink(os.path.join(directory, file))
            os.rmdir(directory)
        except OSError as error:
            self.trouble = str(error)

    def start_over(self) -> None:
        """Forget what waits, and read again whatever is not kept."""
        self.shut()
        self.origins.clear()
        self._last.clear()
        self._ends.clear()  # nothing is acknowledged before it has been read, and flushed, again
        self._dry.clear()

    def shut(self) -> None:
        """Let go of the open segments."""
        for tail in self._tails.values():
            tail.shut()
        self._tails.clear()

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nobody writes."""
        return not self._live and not self._names()


def _first(root: str, name: str) -> int:
    offsets = list_segments(os.path.join(root, name), _LANE)
    return offsets[0] if offsets else 0
