"""What other hubs have sent, while it lies here: nothing acknowledged is given up, and no shipment hurts another."""

import contextlib
import os

import msgspec
import numpy as np
import pytest

from tests.rooms.conftest import small_disk
from vedette import wire
from vedette.hub.peers import inbox_reader as inboxes
from vedette.hub.peers.inbox import Inbox
from vedette.hub.peers.inbox_reader import InboxReader
from vedette.hub.peers.trust import Trust
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin
from vedette.segment import list_segments
from vedette.settings import Hub, Settings
from vedette.spool import Spool
from vedette.store import UNKNOWN_RELAY, Batch, Block, Mark, parcels
from vedette.store.sqlite import SqliteStore

ROOMY = 1 << 30
RELAY = "a-relay"


def reader_of(root, marks=None, **hub):
    offsets = {} if marks is None else marks
    trust = Trust(SqliteStore(f"{root}.db"), lambda: ())
    return InboxReader(str(root), lambda name: (Mark(), Mark(offsets.get(name, 0))), Settings(hub=Hub(**hub)), trust)


def samples(name, start, offset, values=None, over=False):
    """The samples of an origin at start+1 .. place, in parcels."""
    n = np.arange(start + 1, offset + 1, dtype=np.int64)
    block = Block("r", {}, ("x",), n, n, n, (n.astype(float) if values is None else values,))
    return parcels.pack(Batch(Origin(name, span="r"), LANE_SAMPLES, offset, columns=[block], start=start), over=over)


def ship(seq, *groups):
    return wire.encode(wire.Shipment(seq, [parcel for group in groups for parcel in group]))


def read_all(reader, now=0.0):
    for _ in range(40):
        reader.read(now)


def offsets(reader):
    return {name: remote.offset[LANE_SAMPLES] for name, remote in reader.origins.items()}


def rows(reader, name):
    """Return the places of all samples that wait, and take them as kept."""
    remote = reader.origins[name]
    batch = remote.sealing(0.0, 0.0, all_of_it=True)
    remote.sent(batch, 0.0)
    remote.committed(batch)
    return sorted(n for block in batch.columns for n in block.block().n.tolist()), batch


def flip(root, number, inbox="000000000001"):
    """Flip a byte in the middle of a shipment."""
    path = os.path.join(root, inbox, f"s.{0:016d}")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at = -1
    for _ in range(number):
        at = data.index(b"shipment", at + 1)
    data[at + 30] ^= 0xFF
    with open(path, "r+b") as file:
        file.write(data)


def test_a_segment_without_a_header_holds_nobody_up(tmp_path):
    """What a power cut has left of an inbox is passed over, goes away, and nobody waits for it."""
    directory = tmp_path / "000000000001"
    directory.mkdir()
    (directory / f"s.{0:016d}").write_bytes(bytes(65536))
    reader = reader_of(tmp_path)
    assert reader.offsets(["a"], RELAY) is None

    read_all(reader)
    assert reader.offsets(["a"], RELAY) == {"a": (0, 0)}
    reader.sync()
    reader.free(0.0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_damage_stays_where_it_is(tmp_path, number):
    """Of a damaged shipment the rest is read, for all origins, and each that has a gap has it counted."""
    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("a", 0, 100), samples("b", 0, 10)))
    inbox.append(ship(2, samples("a", 100, 200)))
    inbox.append(ship(3, samples("b", 10, 20), samples("c", 0, 30)))
    inbox.append(ship(4, samples("a", 200, 300), samples("b", 20, 30), samples("c", 30, 40)))
    inbox.close()
    reader.shut()
    flip(tmp_path, number)

    reader = reader_of(tmp_path)
    read_all(reader)
    assert offsets(reader) == {"a": 300, "b": 30, "c": 40}
    whole = {"a": 300, "b": 30, "c": 40}
    hurt = {1: {"a", "b"}, 2: {"a"}, 3: {"b", "c"}}[number]
    for name, count in whole.items():
        found, batch = rows(reader, name)
        assert (len(found) < count, batch.damaged) == (name in hurt, int(name in hurt))


def test_damage_in_one_inbox_stays_out_of_the_next(tmp_path):
    """What fitted on to something damaged in an earlier inbox is taken, its gap counted, and all beside it."""
    reader = reader_of(tmp_path)
    first, second = reader.open(RELAY, ROOMY), reader.open(RELAY, ROOMY)
    first.append(ship(1, samples("a", 0, 100)))
    first.append(ship(2, samples("a", 100, 200)))
    second.append(ship(1, samples("a", 200, 300), samples("b", 0, 10)))
    second.append(ship(2, samples("b", 10, 20)))
    first.close()
    second.close()
    flip(tmp_path, 2)

    reader = reader_of(tmp_path)
    read_all(reader)
    found, batch = rows(reader, "a")
    assert (found, batch.damaged) == ([*range(1, 101), *range(201, 301)], 1)
    found, batch = rows(reader, "b")
    assert (found, batch.damaged) == (list(range(1, 21)), 0)


def test_what_was_acknowledged_to_be_kept_by_a_store_that_is_gone(tmp_path):
    """If the store was begun anew, an inbox of an earlier hub is taken in all the same, its gap counted."""
    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(3, samples("a", 200, 300), samples("b", 0, 10)))
    inbox.close()
    reader.shut()

    reader = reader_of(tmp_path)
    read_all(reader)
    found, batch = rows(reader, "a")
    assert (found, batch.damaged) == (list(range(201, 301)), 1)
    assert rows(reader, "b")[0] == list(range(1, 11))


def test_nothing_is_given_up_on_a_full_disk():
    """When the disk is full a shipment is refused; all that were acknowledged are found by the next hub."""
    with small_disk("24m") as root:
        acknowledged = fill(root, Inbox)
        reader = reader_of(os.path.join(root, "inbox"))
        read_all(reader)
        assert offsets(reader)["a"] >= acknowledged > 0
        assert rows(reader, "a")[0][:acknowledged] == list(range(1, acknowledged + 1))


class Lossy(Inbox):
    """A broken one, that makes room as the spool of a process does."""

    def __init__(self, root, name, relay, cap_bytes):
        super().__init__(root, name, relay, cap_bytes)
        self._spool = Spool(root, lambda: Origin(name), cap_bytes, 1.0)


def test_the_control_gives_up_what_it_has_acknowledged():
    """An inbox that makes room by itself loses what it has acknowledged: the check above would see it."""
    with small_disk("24m") as root:
        acknowledged = fill(root, Lossy)
        reader = reader_of(os.path.join(root, "inbox"))
        read_all(reader)
        assert offsets(reader).get("a", 0) < acknowledged


def fill(root, kind):
    """Send shipments into an inbox until the disk has no room; return the place up to which they were acknowledged."""
    root = os.path.join(root, "inbox")
    os.mkdir(root)
    reader = reader_of(root)
    reader.open(RELAY, ROOMY).close()
    inbox = kind(root, "000000000001", RELAY, ROOMY)
    chance = np.random.default_rng(1)
    seq = acknowledged = 0
    with contextlib.suppress(OSError):
        while seq < 300:
            start = seq * 20_000
            seq += 1
            inbox.append(ship(seq, samples("a", start, start + 20_000, chance.random(20_000))))
            reader.read(0.0)
            acknowledged = max(acknowledged, reader.sync().get(inbox.name, 0) * 20_000)
            reader.free(0.0)
    assert seq > 20
    reader.shut()
    return acknowledged


def test_nothing_is_acknowledged_before_it_is_flushed(tmp_path, flushes):
    """What was read is acknowledged with a flush, once, and not again after a new start without one."""
    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("a", 0, 100)))
    reader.read(0.0)
    assert (reader.unsafe_bytes > 0, flushes) == (True, [])
    assert reader.sync() == {inbox.name: 1}
    assert flushes
    assert reader.sync() == {}

    inbox.append(ship(2, samples("a", 100, 200)))
    reader.read(0.0)
    reader.start_over()
    assert reader.sync() == {}
    flushes.clear()
    reader.read(0.0)
    assert reader.sync() == {inbox.name: 2}
    assert flushes


def test_what_is_passed_on_is_acknowledged_when_it_has_arrived(tmp_path):
    """A hub in the middle acknowledges what the next one has, and no more, also when it is sent a second time."""
    reader = reader_of(tmp_path, onward="there:1")
    inbox, other = reader.open(RELAY, ROOMY), reader.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("a", 0, 100)))
    other.append(ship(1, samples("a", 0, 100)))
    reader.read(0.0)
    assert reader.sync() == {}
    rows(reader, "a")
    assert reader.sync() == {inbox.name: 1, other.name: 1}


def test_a_new_start_reads_what_is_not_kept(tmp_path):
    """After a failed commit what is kept is passed over, and the rest comes again, whole and once."""
    marks = {}
    reader = reader_of(tmp_path, marks)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("a", 0, 100)))
    inbox.append(ship(2, samples("a", 100, 200), samples("b", 0, 5)))
    reader.read(0.0)
    marks["a"] = 150
    reader.start_over()
    inbox.append(ship(3, samples("a", 200, 250)))
    read_all(reader)
    assert rows(reader, "a")[0] == list(range(151, 251))
    assert rows(reader, "b")[0] == list(range(1, 6))


def test_old_inboxes_are_read_in_their_order(tmp_path, monkeypatch):
    """What came over several connections fits together again, however large the first of them is."""
    monkeypatch.setattr(inboxes, "_MOST_WAITING", 32 << 20)  # nothing is sealed here
    reader = reader_of(tmp_path)
    chance = np.random.default_rng(1)
    offset = 0
    for relay in (UNKNOWN_RELAY, RELAY, RELAY):
        inbox = reader.open(relay, ROOMY)
        for seq in range(1, 41):  # 6 MB: more than is read at once
            inbox.append(ship(seq, samples("a", offset, offset + 20_000, chance.random(20_000))))
            offset += 20_000
        reader.disconnected(inbox.name)
        inbox.close()
    reader = reader_of(tmp_path)
    assert reader.offsets(["a"], RELAY) is None
    read_all(reader)
    assert reader.trouble == ""
    assert reader.offsets(["a"], RELAY) == {"a": (0, offset)}
    assert rows(reader, "a")[0] == list(range(1, offset + 1))


def bombs(count):
    """Shipments of few bytes that unpack to 4 MiB each."""
    height = 1 << 17
    zeros = np.zeros(height, dtype=np.int64)
    for seq in range(1, count + 1):
        n = np.arange((seq - 1) * height + 1, seq * height + 1, dtype=np.int64)
        block = Block("r", {}, ("x",), n, zeros, zeros, (zeros.astype(float),))
        yield ship(
            seq,
            parcels.pack(
                Batch(Origin("a", span="r"), LANE_SAMPLES, seq * height, columns=[block], start=int(n[0]) - 1)
            ),
        )


def test_small_shipments_of_many_numbers_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    """However well they compress, only so many numbers are held at once; all come in the end, each once."""
    monkeypatch.setattr(inboxes, "_MOST_WAITING", 1 << 20)
    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    for payload in bombs(12):
        assert len(payload) < 5_000
        inbox.append(payload)
    found = 0
    for _ in range(12):
        reader.read(0.0)
        assert reader.origins["a"].numbers <= (1 << 20) + (4 << 17)
        if reader.backlogged or not reader.read(0.0):
            found += len(rows(reader, "a")[0]) if reader.origins["a"].numbers else 0
    assert found == 12 << 17
    assert reader.sync() == {inbox.name: 12}


def test_a_shipment_of_too_many_numbers_is_refused(tmp_path):
    """One shipment that claims more than fits is never unpacked, and its connection is told why."""
    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    [parcel] = samples("a", 0, 100)
    huge = msgspec.structs.replace(parcel, blocks=[msgspec.structs.replace(parcel.blocks[0], count=1 << 20)] * 9)
    inbox.append(wire.encode(wire.Shipment(1, [huge])))
    reader.read(0.0)
    assert "more than" in reader.broken[inbox.name]
    assert reader.sync() == {}


@pytest.mark.parametrize(
    "payload",
    [
        b"\x81\xa4type\xa8shipment",
        b"\x80",
        wire.encode(wire.Kept(1)),
        wire.encode(wire.Shipment(1, samples("a", 0, 5))).replace(b"\xa1s", b"\xa1x"),
        wire.encode(wire.Shipment(7, samples("a", 5, 9))),
    ],
    ids=["no fields", "nothing", "another message", "unknown lane", "beyond"],
)
def test_what_is_no_sound_shipment_breaks_its_own_connection_alone(tmp_path, payload):
    """Whatever came, the turn goes on: its sender is told, others are read and acknowledged, the next hub starts."""
    reader = reader_of(tmp_path)
    bad, good = reader.open(RELAY, ROOMY), reader.open(RELAY, ROOMY)
    bad.append(payload)
    bad.append(ship(8, samples("a", 0, 5)))  # what follows is not taken, either
    good.append(ship(1, samples("b", 0, 5)))
    reader.read(0.0)
    assert reader.broken.keys() == {bad.name}
    assert reader.sync() == {good.name: 1}
    assert offsets(reader).get("a", 0) == 0

    reader.disconnected(bad.name)
    assert reader.broken == {}
    bad.close()
    good.close()
    reader.shut()
    reader = reader_of(tmp_path)
    read_all(reader)
    assert reader.offsets(["b"], RELAY) == {"b": (0, 5)}
    assert reader.broken == {}


def test_inboxes_of_a_newer_version_are_left_alone(tmp_path):
    """An inbox that only a newer vedette can read is set aside by name; the others are read."""
    for number, head in ((1, b"vedette\xff"), (2, b"")):
        directory = tmp_path / f"{number:012d}"
        directory.mkdir()
        if head:
            (directory / f"s.{0:016d}").write_bytes(head + bytes(65528))
    (tmp_path / "7").touch()
    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("a", 0, 5)))
    read_all(reader)
    reader.sync()
    reader.free(0.0)
    assert reader.set_aside.keys() == {"000000000001"}
    assert reader.offsets(["a"], RELAY) == {"a": (0, 5)}
    assert list_segments(str(tmp_path / "000000000001"), LANE_SAMPLES)


def test_those_who_say_no_more_are_let_go_of(tmp_path):
    """An origin is forgotten when it is over, or quiet for a minute, and all of it is kept; not before."""
    marks = {}
    reader = reader_of(tmp_path, marks)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("over", 0, 5, over=True), samples("quiet", 0, 5), samples("waits", 0, 5)))
    reader.read(0.0)
    assert reader.free(0.0) == []
    rows(reader, "over")
    rows(reader, "quiet")
    assert [remote.name for remote in reader.free(1.0)] == ["over"]
    assert [remote.name for remote in reader.free(100.0)] == ["quiet"]
    assert reader.origins.keys() == {"waits"}

    marks["quiet"] = 5
    inbox.append(ship(2, samples("quiet", 5, 9)))
    reader.read(200.0)
    assert rows(reader, "quiet")[0] == [6, 7, 8, 9]


def test_facts_made_to_cost_memory_are_passed_over(tmp_path, monkeypatch):
    """Facts that hold more values than a shipment may are counted, and what else it brings is kept."""
    monkeypatch.setattr(inboxes, "_MOST_VALUES", 1000)
    monkeypatch.setattr(parcels, "MOST_VALUES", 600)

    def facts(name, *sizes):
        found = [(n, Event("r", 1, "log", 20, "x", {"a": [{}] * size})) for n, size in enumerate(sizes, 1)]
        return parcels.pack(Batch(Origin(name, span="r"), LANE_FACTS, len(found), facts=found))

    reader = reader_of(tmp_path)
    inbox = reader.open(RELAY, ROOMY)
    inbox.append(ship(1, facts("a", 3, 700), facts("b", 500, 550), facts("c", 2)))
    inbox.append(ship(2, facts("d", 500)))
    reader.read(0.0)
    batches = {name: remote.read_facts() for name, remote in reader.origins.items()}
    kept = {name: ([n for n, _ in batch.facts], batch.refused, batch.end) for name, batch in batches.items()}
    assert kept == {"a": ([1], 1, 2), "b": ([], 2, 2), "c": ([], 1, 1), "d": ([1], 0, 1)}
    assert reader.broken == {}


def test_nobody_waits_for_the_old_inboxes_of_others(tmp_path):
    """After a restart a relay is told its marks as soon as its own inboxes are read, whatever others have left."""
    reader = reader_of(tmp_path)
    for relay, name in (("flooding", "a"), (RELAY, "b")):
        inbox = reader.open(relay, ROOMY)
        inbox.append(ship(1, samples(name, 0, 5)))
        inbox.close()
    reader = reader_of(tmp_path)
    assert reader.offsets(["c"], "another") == {"c": (0, 0)}
    assert reader.offsets(["b"], RELAY) is None
    read_all(reader)
    assert reader.offsets(["b"], RELAY) == {"b": (0, 5)}


def test_all_inboxes_of_a_relay_have_one_limit(tmp_path):
    """A relay has not more room by more connections, or new ones, and not less for what others send."""
    reader = reader_of(tmp_path)
    first, second, other = (reader.open(relay, 1 << 20) for relay in (RELAY, RELAY, "another"))
    noise = np.random.default_rng(1).random(20_000)
    for seq in range(1, 11):
        first.append(ship(seq, samples("a", (seq - 1) * 20_000, seq * 20_000, noise)))
    assert [inbox.is_full() for inbox in (first, second, other)] == [True, True, False]
    first.close()
    reader.disconnected(first.name)
    assert reader.open(RELAY, 1 << 20).is_full()
    while reader.read(0.0):
        rows(reader, "a")
    rows(reader, "a")
    read_all(reader)
    reader.free(0.0)
    assert not second.is_full()
