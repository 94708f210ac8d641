"""One relay that sends more than this hub can keep up with, beside others: they are kept all the same."""

import errno
import os

import numpy as np
import pytest

from vedette import wire
from vedette.errors import HubError
from vedette.hub.peers import inbox_reader as inboxes
from vedette.hub.turn import keeper as keepers
from vedette.hub.turn.keeper import Keeper
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin
from vedette.settings import Settings
from vedette.store import Batch, Block, EventQuery, parcels
from vedette.store.sqlite import SqliteStore

ROOMY = 1 << 30
FEW = 5  # what an honest relay sends in a pass


class Sender:
    """A relay with an inbox: all that it sends goes on from where it was."""

    def __init__(self, keeper, name):
        self.name = name
        self.inbox = keeper.inboxes.open(f"relay {name}", ROOMY)
        self.seq = self.facts = self.samples = 0

    def send(self, *batches):
        self.seq += 1
        shipped = [parcel for batch in batches for parcel in parcels.pack(batch)]
        self.inbox.append(wire.encode(wire.Shipment(self.seq, shipped)))

    def tell(self, count):
        """Send some facts."""
        start, self.facts = self.facts, self.facts + count
        said = [(n, Event(self.name, 1, "log", 20, "a line")) for n in range(start + 1, self.facts + 1)]
        self.send(Batch(Origin(self.name, span=self.name), LANE_FACTS, self.facts, facts=said, start=start))

    def measure(self, count, groups=1):
        """Send some points of each of some series."""
        blocks, first = [], self.samples
        for number in range(groups):
            start, self.samples = self.samples, self.samples + count
            n = np.arange(start + 1, self.samples + 1, dtype=np.int64)
            blocks.append(Block(self.name, {}, (f"x{number}",), n, n, n, (n.astype(float),)))
        self.send(Batch(Origin(self.name, span=self.name), LANE_SAMPLES, self.samples, columns=blocks, start=first))


FLOODS = {
    "facts": lambda sender, many: sender.tell(200 if many else FEW),
    "points": lambda sender, many: [sender.measure(2000) for _ in range(3)] if many else sender.measure(FEW),
    "series": lambda sender, many: sender.measure(1, 100) if many else sender.measure(FEW),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_stops_nobody_else(keeper, monkeypatch, flood):
    """Facts, points or series: whatever one relay floods this hub with, what the others say is in the store soon."""
    monkeypatch.setattr(keepers, "_MOST_FACTS", 100)
    monkeypatch.setattr(keepers, "MOST_GROUPS", 40)
    monkeypatch.setattr(inboxes, "_MOST_WAITING", 8192)
    keeper.pace = type(keeper.pace)(sync_s=0, seal_s=0.0)
    evil, *honest = (Sender(keeper, name) for name in ("evil", "one", "two"))
    send = FLOODS[flood]
    for number in range(30):
        send(evil, many=True)
        for sender in honest if number < 10 else ():
            send(sender, many=False)
        keeper.step()
    series = {row.span: row.count for row in keeper.store.series(["evil", "one", "two"])}
    told = {name: len(keeper.store.events(EventQuery(span=name))) for name in ("evil", "one", "two")}
    kept = told if flood == "facts" else series
    assert [kept[sender.name] for sender in honest] == [10 * FEW, 10 * FEW]
    assert kept["evil"] < (evil.facts if flood == "facts" else evil.samples)  # it is more than is kept in that time


def test_one_turn_goes_to_each_when_time_is_short(keeper, monkeypatch):
    """Where a pass has time for one inbox only, the next pass goes on with that of another relay."""
    monkeypatch.setattr(inboxes, "_READ_S", -1.0)
    senders = [Sender(keeper, name) for name in ("a", "b", "c")]
    for sender in senders:
        sender.measure(1)
        sender.measure(1)
    found = []
    for _ in range(3):
        keeper.inboxes.read(0.0)
        found.append(sorted(keeper.inboxes.origins))
    assert found == [["a"], ["a", "b"], ["a", "b", "c"]]
    places = [remote.offset[LANE_SAMPLES] for remote in keeper.inboxes.origins.values()]
    assert places == [1, 1, 1]  # one shipment of each, although it has sent two
    for _ in range(3):
        keeper.inboxes.read(0.0)
    places = [remote.offset[LANE_SAMPLES] for remote in keeper.inboxes.origins.values()]
    assert places == [2, 2, 2]


def empty(count):
    """Parcels of origins that are new, without content."""
    return [wire.Parcel(Origin(f"new{number}"), "f", 0, 1) for number in range(count)]


def test_a_shipment_of_too_many_parcels_is_refused(keeper):
    """No relay sends so many; as many as an older one may put into 1 MiB are taken."""
    evil, older = Sender(keeper, "evil"), Sender(keeper, "older")
    evil.inbox.append(wire.encode(wire.Shipment(1, empty(1) * 5000)))
    older.inbox.append(wire.encode(wire.Shipment(1, empty(1) * ((1 << 20) // 250 + 1))))
    for _ in range(2):  # a pass may have no time for both
        keeper.inboxes.read(0.0)
    assert keeper.inboxes.broken.keys() == {evil.inbox.name}
    assert keeper.inboxes.sync() == {older.inbox.name: 1}


def test_a_relay_of_too_many_origins_waits_until_some_are_forgotten(keeper, monkeypatch):
    """Origins that are made up without end fill no memory, and stop nobody else's; nothing is lost by the wait.

    What is committed of one is forgotten when there is no room for the next: a hub in the middle has very many.
    """
    monkeypatch.setattr(inboxes, "_MOST_ORIGINS", 10)
    keeper.pace = type(keeper.pace)(sync_s=60.0, seal_s=60.0)
    evil, honest = Sender(keeper, "evil"), Sender(keeper, "honest")
    evil.inbox.append(wire.encode(wire.Shipment(1, empty(12))))
    keeper.step()
    evil.inbox.append(wire.encode(wire.Shipment(2, [wire.Parcel(Origin("the-next"), "f", 0, 1)])))
    honest.tell(1)
    keeper.step()
    assert not keeper.step()[1]  # it does not spin meanwhile
    assert "the-next" not in keeper.inboxes.origins
    assert "honest" in keeper.inboxes.origins
    keeper.flush()
    assert keeper.inboxes.origins.keys() == {"honest"}
    keeper.step()
    assert "the-next" in keeper.inboxes.origins


def test_one_holder_of_many_keys_has_one_turn(keeper, monkeypatch):
    """Keys are free: who comes with many of them holds up the relay of somebody else no longer than with one."""
    monkeypatch.setattr(keepers, "_MOST_FACTS", 100)
    mallory = [Sender(keeper, f"evil{number}") for number in range(8)]
    for sender in mallory:
        keeper.trust.connected(f"relay {sender.name}", "mallory", "there")
        sender.tell(400)
    honest = Sender(keeper, "honest")
    keeper.trust.connected("relay honest", "alice", "here")
    for _ in range(3):
        honest.tell(FEW)
        keeper.step()
    assert len(keeper.store.events(EventQuery(span="honest"))) >= 2 * FEW


def test_a_relay_of_too_many_unread_connections_waits(keeper, monkeypatch):
    """Each connection leaves an inbox until it is read: who comes and goes without end gets no further one."""
    monkeypatch.setattr(inboxes, "_MOST_INBOXES", 3)
    evil = [Sender(keeper, "evil") for _ in range(3)]
    with pytest.raises(HubError, match="not stored yet"):
        Sender(keeper, "evil")
    Sender(keeper, "honest")
    evil[0].inbox.close()
    keeper.inboxes.disconnected(evil[0].inbox.name)
    for _ in range(3):
        keeper.step()
    keeper.flush()
    Sender(keeper, "evil")


class Disk:
    """Fails once, or as often as told."""

    def __init__(self, call, concerns=lambda *_: True):
        self.call, self.concerns, self.fails = call, concerns, 1

    def __call__(self, *args, **kwargs):
        if self.fails and self.concerns(*args):
            self.fails -= 1
            raise OSError(errno.EIO, "Input/output error")
        return self.call(*args, **kwargs)


@pytest.mark.parametrize("fails", ["to be flushed", "to be opened"])
def test_what_was_left_over_is_not_lost_by_an_error(home, monkeypatch, fails):
    """One error of the disk, in the middle of what an earlier hub has left: all of it comes, in order."""
    before = Keeper(home, SqliteStore(home.store), Settings())
    at = 0
    for _ in range(2):
        sender = Sender(before, "a")
        sender.facts = at
        for _ in range(3):
            sender.tell(2)
        at = sender.facts
        sender.inbox.close()
    before.store.bind("relay a", ["a"], [])
    before.let_go()  # as if it was killed
    keeper = Keeper(home, SqliteStore(home.store), Settings())
    monkeypatch.setattr(inboxes, "_READ_S", -1.0)
    if fails == "to be flushed":
        monkeypatch.setattr(os, "fdatasync", Disk(os.fdatasync))
    else:
        disk = Disk(os.open, lambda path, *_: "/000000000001/s." in str(path))
        disk.fails = 3  # to ask whose it is, and to read it
        monkeypatch.setattr(os, "open", disk)
    for number in range(40):
        keeper.inboxes.read(10.0 * number)
        keeper.step()
        keeper.flush()
    assert len(keeper.store.events(EventQuery(span="a"))) == at
    assert keeper.store.marks(["a"])["a", LANE_FACTS].damaged == 0
    assert keeper.inboxes.idle
    keeper.let_go()
