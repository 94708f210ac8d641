"""Blobs in pieces: what another hub sends, put together; and what is still to be sent."""

import asyncio
import collections
import hashlib
import itertools
import os
import resource
import threading

import pytest

from vedette import wire
from vedette.address import Address
from vedette.blobs import Blobs
from vedette.home import Home
from vedette.hub.peers import blob_sender
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.hub.peers.blob_receiver import BlobReceiver, Sender
from vedette.hub.peers.blob_sender import BlobSender
from vedette.hub.peers.relay import Relay
from vedette.hub.turn.blob_collector import BlobCollector
from vedette.model import Blob
from vedette.settings import Limits
from vedette.store import RelayRow
from vedette.store.sqlite import SqliteStore

DATA = bytes(range(256)) * 20
DIGEST = hashlib.sha256(DATA).hexdigest()
LOOK_S = 0.1


@pytest.fixture(autouse=True)
def _brisk(monkeypatch):
    """Let a sender look for what is to be sent ten times as often as usual."""
    monkeypatch.setattr(blob_sender, "_LOOK_S", LOOK_S)


def names(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


class There:
    """The hub that takes blobs, and how to talk to it."""

    def __init__(self, root, **limits):
        os.makedirs(root, exist_ok=True)
        self.blobs = Blobs(str(root), Limits(**limits))
        self.store = SqliteStore(os.path.join(root, "store.db"))
        self.refused = collections.Counter()
        self.sent = []
        self._receiver = None

    def receiver(self):
        return BlobReceiver(self.blobs, self.refused, self._in_store)

    async def _in_store(self, act, _relay):
        return act(self.store)

    async def tell(self, message, sender="far"):
        self._receiver = self._receiver or self.receiver()
        self.store.note_relay(RelayRow(sender, "", "", 1, 1))
        self.sent.append(message)
        message = wire.unpack_message(wire.encode(message))
        act = self._receiver.receive if isinstance(message, wire.Piece) else self._receiver.offsets_of
        return await act(message, Sender("", sender))

    def say(self, *messages, sender="far"):
        async def talk():
            self._receiver = None
            return [await self.tell(message, sender) for message in messages]

        return asyncio.run(talk())


def piece(offset, stop, data=DATA, size=None, digest=DIGEST):
    return wire.Piece(digest, len(DATA) if size is None else size, offset, data[offset:stop])


def test_pieces_become_a_blob_when_the_last_one_is_there(tmp_path):
    """A blob is seen once it is whole; a piece that comes twice or too early changes nothing."""
    there = There(tmp_path)
    end = len(DATA)
    answers = there.say(
        wire.AskBlobs({DIGEST: end}), piece(100, 200), piece(0, 1000), piece(0, 1000), piece(1000, 2000)
    )
    assert [answer.offsets[DIGEST] for answer in answers] == [0, 0, 1000, 1000, 2000]
    assert there.blobs.size(DIGEST) is None
    assert list(there.blobs.all()) == []
    [asked, last, again] = there.say(wire.AskBlobs({DIGEST: end}), piece(2000, end), wire.AskBlobs({DIGEST: end}))
    assert [answer.offsets[DIGEST] for answer in (asked, last, again)] == [2000, end, end]
    assert there.blobs.verify(DIGEST)
    assert names(os.path.join(there.blobs.root, "parts")) == []


def test_bytes_that_are_not_those_of_the_digest_are_never_seen(tmp_path):
    """Wrong bytes are asked for again, too many and a wrong size refused; they are counted, and leave nothing."""
    there = There(tmp_path)
    wrong = bytes(len(DATA))
    [answer] = there.say(piece(0, len(DATA), wrong))
    assert (answer.offsets, answer.refused) == ({DIGEST: 0}, {})
    [answer] = there.say(piece(0, len(DATA), DATA, size=10))
    assert answer.refused[DIGEST]
    [answer] = there.say(wire.AskBlobs({DIGEST: 0}))
    assert answer.refused[DIGEST]
    assert there.refused["blob"] == 2
    assert there.blobs.size(DIGEST) is None
    assert names(os.path.join(there.blobs.root, "parts")) == []


def test_who_stops_waiting_lets_nobody_in_before_the_disk_is_done(tmp_path, monkeypatch):
    """A piece that is being written when its link is cut is written to the end before another is looked at."""
    there = There(tmp_path)
    goes_on, write = threading.Event(), os.write

    def slow(fd, data):
        if data == DATA[:100]:  # the disk takes its time
            goes_on.wait(60)
        return write(fd, data)

    monkeypatch.setattr(os, "write", slow)

    async def talk():
        receiver = there.receiver()
        cut = asyncio.ensure_future(receiver.receive(piece(0, 100), Sender("", "far")))
        while not receiver._lock.locked():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        cut.cancel()
        await asyncio.gather(cut, return_exceptions=True)
        other = asyncio.ensure_future(receiver.offsets_of(wire.AskBlobs({"a" * 64: 10}), Sender("", "far")))
        await asyncio.wait([other], timeout=0.5)
        waited = not other.done()
        goes_on.set()
        await other
        return waited

    assert asyncio.run(asyncio.wait_for(talk(), 60))
    with open(there.blobs.part(DIGEST, "", "far"), "rb") as file:
        assert file.read() == DATA[:100]


def test_the_limits_hold_for_what_others_send(tmp_path):
    """Neither one blob nor all together get larger than the limits, also those that are not whole yet."""
    there = There(tmp_path, blob_bytes=6000, blobs_bytes=8000)
    [one, other] = there.say(wire.AskBlobs({DIGEST: 7000}), wire.AskBlobs({DIGEST: len(DATA)}))
    assert one.refused
    assert other.offsets == {DIGEST: 0}
    there.say(piece(0, 5000))
    [answer] = there.say(piece(0, 5000), sender="another")
    assert answer.refused
    assert there.refused == {"limits.blob_bytes": 1, "limits.blobs_bytes": 1}
    [answer] = there.say(wire.Piece(DIGEST, 1 << 50, 5000, b"x" * 1000))
    assert answer.refused


@pytest.mark.parametrize("bad", ["../" + "a" * 61, "A" * 64, "a" * 63, "a" * 64 + "\n", "a" * 32 + "\0" + "a" * 31])
def test_no_digest_of_a_message_becomes_another_path(bad):
    """A message with a malformed digest is refused when it is read."""
    for message in (wire.Piece(bad, 1, 0, b"x"), wire.AskBlobs({bad: 1}), wire.HasBlobs({bad: 1})):
        with pytest.raises(wire.FormatError):
            wire.unpack_message(wire.encode(message))


def send(queue, blobs, there, upstream="up", until=lambda: True):
    """Have a BlobSender send until a condition holds."""

    async def run():
        there._pieces = None
        sender = BlobSender(queue, blobs, upstream)
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(sender.run(lambda message: loop.create_task(there.tell(message))))
        while not until():  # noqa: ASYNC110 - it is a file that appears
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return sender

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_only_what_is_lacking_is_sent_and_a_new_hub_goes_on(tmp_path):
    """What waits is found again by a new hub; what is there already is not sent, a manifest brings what it lists."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    big = os.urandom(3 << 20)
    facts = []
    for name, data in (("known", b"known"), ("big", big), ("empty", b"")):
        digest, size = here.keep(data)
        facts.append((len(facts), Blob("r", 1, name, digest, size)))
    listed, _ = here.keep(b"print(1)")
    digest, size = here.keep(f'[{{"path": "../../x", "digest": "{listed}", "size": 8, "mode": 0}}]'.encode())
    facts += [(9, Blob("r", 1, "code.manifest", digest, size)), (10, Blob("r", 1, "bad", "../../x", 1))]
    there.say(wire.Piece(there.blobs.keep(b"known")[0], 5, 0, b"known"))
    there.sent.clear()
    BlobQueue(here).note("vedette://token@up:1", facts)

    queue = BlobQueue(here)
    assert queue.upstreams() == ["vedette://token@up:1"]
    assert not queue.idle
    send(queue, here, there, "vedette://token@up:1", lambda: not queue.all())
    assert {found.digest for found in there.blobs.all()} == {found.digest for found in here.all()}
    sent = [message for message in there.sent if isinstance(message, wire.Piece)]
    assert sum(len(message.data) for message in sent) == len(big) + size + 8
    assert BlobQueue(here).idle
    assert BlobQueue(here).upstreams() == []


def test_bytes_that_have_not_come_here_yet_are_waited_for(tmp_path):
    """A hub in the middle knows of a blob before it has it, and sends it on when it has come."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    queue = BlobQueue(here)
    queue.note("up", [(1, Blob("r", 1, "later", DIGEST, len(DATA)))])
    assert queue.idle
    send(queue, here, there)
    assert queue.of("up") == [(DIGEST, False)]
    here.keep(DATA)
    send(queue, here, there, until=lambda: not queue.all())
    assert there.blobs.verify(DIGEST)


class Counting(Blobs):
    """Counts how often it is asked for a blob."""

    asked = 0

    def size(self, digest):
        self.asked += 1
        return super().size(digest)


def test_many_blobs_that_never_come_cost_little(tmp_path, monkeypatch):
    """Some of them are looked at each time; what has come is sent, wherever it stands among them."""
    monkeypatch.setattr(blob_sender, "_MOST_LOOKED_AT", 5)
    here, there = Counting(str(tmp_path / "here")), There(tmp_path / "there")
    queue = BlobQueue(here)
    here.keep(DATA)
    absent = [f"{number:064x}" for number in range(99)]
    queue.note(
        "up", [(n, Blob("r", 1, "x", digest, 1)) for n, digest in enumerate([*absent[:90], DIGEST, *absent[90:]])]
    )
    looks = []

    async def sleep(_seconds, rest=asyncio.sleep):
        looks.append(here.asked)
        await rest(0.001)

    monkeypatch.setattr(blob_sender.asyncio, "sleep", sleep)
    send(queue, here, there, until=lambda: len(queue.all()) == 99 and len(looks) > 30)
    assert there.blobs.verify(DIGEST)
    assert max(after - before for before, after in itertools.pairwise([0, *looks])) <= 2 * 5


def test_a_relay_leaves_little_unfinished(tmp_path):
    """What a relay has begun and not gone on with makes way for what it begins: few files, and little of the room."""
    there = There(tmp_path, blobs_bytes=100_000)
    begun = [wire.Piece(f"{number:064x}", 90_000, 0, bytes(100)) for number in range(9)]
    there.say(*begun)
    assert sorted(part.size for part in there.blobs.parts()) == [100] * 4
    there.say(wire.Piece(f"{9:064x}", 60_000, 0, bytes(30_000)), sender="large")
    there.say(wire.Piece(f"{10:064x}", 60_000, 0, bytes(100)), sender="large")
    assert [part.size for part in there.blobs.parts("", "large")] == [100]
    assert len(there.blobs.parts("", "far")) == 4
    assert there.refused == {}


def test_what_is_refused_is_not_sent_again(tmp_path):
    """A blob that the other hub does not take is given up, with a word."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there", blob_bytes=10)
    queue = BlobQueue(here)
    queue.note("up", [(1, Blob("r", 1, "big", here.keep(DATA)[0], len(DATA)))])
    sender = send(queue, here, there, until=lambda: not queue.all())
    assert "over the limit of 10" in sender.refused
    assert [type(message) for message in there.sent] == [wire.AskBlobs]


def test_a_part_that_was_damaged_is_sent_again(tmp_path):
    """When the first half of a blob was lost there by a power cut, all of it is sent once more, and it is whole."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    data = os.urandom(200_000)
    digest, size = here.keep(data)
    with open(there.blobs.part(digest, "", "far"), "wb") as file:
        file.write(bytes(100_000))
    queue = BlobQueue(here)
    queue.note("up", [(1, Blob("r", 1, "big", digest, size))])
    sender = send(queue, here, there, until=lambda: not queue.all())
    assert there.blobs.verify(digest)
    assert sender.refused == ""
    assert there.refused == {"blob": 1}


def test_what_is_damaged_here_is_given_up(tmp_path):
    """A blob whose bytes are no longer its own is not sent for ever."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    digest, size = here.keep(DATA)
    with open(here.path(digest), "r+b") as file:
        file.write(b"damaged")
    queue = BlobQueue(here)
    queue.note("up", [(1, Blob("r", 1, "big", digest, size))])
    sender = send(queue, here, there, until=lambda: not queue.all())
    assert "do not match their digest" in sender.refused
    assert there.refused == {"blob": 1}
    assert list(there.blobs.all()) == []


def test_a_hub_that_never_takes_it_right_is_given_up(tmp_path):
    """A hub on whose disk the bytes are wrong each time is not sent them for ever, though they are right here."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    digest, size = here.keep(DATA)
    take = there.tell

    async def damage(message, sender="far"):
        if isinstance(message, wire.Piece):
            message = wire.Piece(message.digest, message.size, message.offset, bytes(len(message.data)))
        return await take(message, sender)

    there.tell = damage
    queue = BlobQueue(here)
    queue.note("up", [(1, Blob("r", 1, "big", digest, size))])
    send(queue, here, there, until=lambda: not queue.all())
    assert there.refused == {"blob": 2}


def lacking(here, *missing):
    """Keep a manifest that names a file that is here and others that are not; return their digests."""
    listed, _ = here.keep(b"print(1)")
    rows = ", ".join(f'{{"digest": "{digest}"}}' for digest in (listed, *missing))
    digest, _ = here.keep(f"[{rows}]".encode())
    return digest, listed


def test_a_manifest_that_lacks_a_file_is_not_asked_for_every_second(tmp_path):
    """What is here of a manifest is sent once, the hub may go then, and what was missing is sent when it comes."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    manifest, listed = lacking(here, DIGEST)
    queue = BlobQueue(here)
    queue.note("up", [(1, Blob("r", 1, "code.manifest", manifest, 1))])
    assert not queue.idle

    async def until_idle():
        there._pieces = None
        loop = asyncio.get_running_loop()
        sender = BlobSender(queue, here, "up")
        task = asyncio.ensure_future(sender.run(lambda message: loop.create_task(there.tell(message))))
        while not queue.idle:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert there.blobs.verify(listed)
        assert queue.of("up") == [(manifest, True)]
        asked = len(there.sent)
        await asyncio.sleep(2.5 * LOOK_S)  # two looks, at which nothing has changed
        assert len(there.sent) == asked
        here.keep(DATA)
        assert not queue.idle
        while queue.all():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(until_idle(), 60))
    assert there.blobs.verify(DIGEST)


def test_a_manifest_that_lacks_a_file_is_given_up_after_a_week(tmp_path):
    """Its note goes when it is old, not before; what only waits for the other hub is never given up for its age."""
    here, there = Blobs(str(tmp_path / "here")), There(tmp_path / "there")
    manifest, listed = lacking(here, DIGEST)
    whole, _ = here.keep(b"whole")
    queue = BlobQueue(here)
    facts = [(1, Blob("r", 1, "code.manifest", manifest, 1)), (2, Blob("r", 1, "whole", whole, 5))]
    queue.note("up", facts)
    send(queue, here, there, until=lambda: queue.idle)
    queue.give_up_old("up", (manifest, whole))
    assert queue.of("up") == [(manifest, True)]
    queue.note("up", facts)
    for digest in (manifest, whole):
        os.utime(os.path.join(queue._folder("up"), digest), (0, 0))
    queue.give_up_old("up", (manifest, whole))
    assert queue.of("up") == [(whole, False)]
    assert queue.idle is False
    assert there.blobs.verify(listed)


def swept(blobs, store, queue, *, all_read=True):
    """Sweep to the end; return what is left."""
    collector = BlobCollector(blobs, store, queue)
    collector.ask()
    collector.step(lambda: all_read)
    while collector.busy:
        collector.step(lambda: all_read)
    return {found.digest for found in blobs.all()}


def test_a_sweep_leaves_what_is_named_on_its_way_or_young(tmp_path, store, make):
    """Only old blobs go that neither the store, nor a manifest, nor the list of what goes out names."""
    blobs = Blobs(str(tmp_path))
    queue = BlobQueue(blobs)
    kept = {name: blobs.keep(name.encode())[0] for name in ("named", "listed", "leaving", "listed there", "orphan")}
    for name, lists in (("mine", "listed"), ("theirs", "listed there")):
        kept[name] = blobs.keep(f'[{{"digest": "{kept[lists]}", "path": "{name}"}}]'.encode())[0]
    make.run("r1")
    make.facts("r1", Blob("r1", 1, "a", kept["named"], 5), Blob("r1", 1, "code.manifest", kept["mine"], 1))
    make.facts("r1", Blob("r1", 1, "bad", "../../etc/passwd", 5))
    queue.note(
        "up", [(1, Blob("r", 1, "a", kept["leaving"], 5)), (2, Blob("r", 1, "code.manifest", kept["theirs"], 1))]
    )
    assert swept(blobs, store, queue) == set(kept.values())  # all are young
    for digest in kept.values():
        os.utime(blobs.path(digest), (0, 0))
        store.note_delivered({digest: 1}, "far")
    store.note_relay(RelayRow("far", "", "", 1, 1))
    assert swept(blobs, store, queue, all_read=False) == set(kept.values())
    assert swept(blobs, store, queue) == set(kept.values()) - {kept["orphan"]}
    assert store.delivered(list(kept.values()), "") == set(kept.values()) - {kept["orphan"]}
    assert blobs.total() == sum(found.size for found in blobs.all())
    queue.forget("up")
    assert swept(blobs, store, queue) == {kept[name] for name in ("named", "listed", "mine")}


class Starved:
    """A store, and a process that has no descriptor left once it was asked."""

    def __init__(self, store):
        self._store = store

    def blobs(self, **asked):
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return self._store.blobs(**asked)


@pytest.mark.parametrize("leaving", [False, True])
def test_a_sweep_that_cannot_read_a_manifest_removes_nothing(tmp_path, store, make, leaving):
    """Where it cannot be known what a manifest names, nothing goes, and it is tried again."""
    blobs = Blobs(str(tmp_path))
    queue = BlobQueue(blobs)
    listed = blobs.keep(b"listed")[0]
    manifest = blobs.keep(f'[{{"digest": "{listed}"}}]'.encode())[0]
    make.run("r1")
    if leaving:
        queue.note("up", [(1, Blob("r1", 1, "code.manifest", manifest, 1))])
    else:
        make.facts("r1", Blob("r1", 1, "code.manifest", manifest, 1))
    orphan = blobs.keep(b"orphan")[0]
    for digest in (listed, manifest, orphan):
        os.utime(blobs.path(digest), (0, 0))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        swept(blobs, Starved(store), queue)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert {found.digest for found in blobs.all()} == {listed, manifest, orphan}
    assert swept(blobs, store, queue) == {listed, manifest}


def test_nothing_of_blobs_goes_before_the_link_is_known(tmp_path):
    """A hub takes no blobs from who has not introduced itself: what waits from before is asked for after that."""
    blobs = Blobs(str(tmp_path / "here"))
    digest, size = blobs.keep(DATA)
    path = str(tmp_path / "socket")
    queue = BlobQueue(blobs)
    queue.note(path, [(1, Blob("r", 1, "known", digest, size))])
    heard = []

    async def other_hub(reader, writer):
        unframer = wire.Unframer()
        while data := await reader.read(1 << 16):
            for payload in unframer.feed(data):
                message = wire.unpack_message(payload)
                heard.append(type(message))
                if isinstance(message, wire.Hello):
                    writer.write(wire.pack_message(wire.Hello(home="there", takes=[wire.BLOBS])))
                elif isinstance(message, wire.Introduce):
                    writer.write(wire.pack_message(wire.Marks({})))

    async def talk():
        relay = Relay(Address(path=path), Home(str(tmp_path)), "far", sender=BlobSender(queue, blobs, path))
        async with await asyncio.start_unix_server(other_hub, path):
            task = asyncio.ensure_future(relay.run(lambda: None))
            while not relay.news():  # noqa: ASYNC110 - the keeper looks in its own time
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # and takes it
            relay.introduce([])
            while wire.AskBlobs not in heard:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(talk(), 30))
    assert heard == [wire.Hello, wire.Introduce, wire.AskBlobs]
