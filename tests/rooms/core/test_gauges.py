"""The mapped file in which a process keeps how far its bars are, and the hub's look into it."""

import math
import os
import resource
import struct
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vedette.gauges import FILE, Gauges, GaugesFile, _Mapped, read
from vedette.hub.processes import progress as hub_progress
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import HUB, Fact, Origin, Span
from vedette.spool import Spool
from vedette.store import Mark
from vedette.store.parcels import read_fact
from vedette.wire import encode, frame


@pytest.fixture(params=[True, False], ids=["mapped", "plain"])
def gauges(request):
    """A writer, by either way."""
    return Gauges(mapped=request.param)


def told(directory) -> dict:
    return dict(read(str(directory), GaugesFile()).gauges)


def test_what_was_stored_is_read(gauges, tmp_path):
    """Each bar's numbers are found under its id, `at` only where there is one."""
    one, two = gauges.take(str(tmp_path), "r/p-1"), gauges.take(str(tmp_path), "r/p-2")
    one.numbers[one.position + 1] = 5.5
    two.numbers[two.position] = 7.0

    assert told(tmp_path) == {"r/p-1": (None, 5.5), "r/p-2": (7.0, 0.0)}


def test_a_slot_is_used_again_from_nothing(gauges, tmp_path):
    """What is given back is nobody's, and the next one in it begins at nothing."""
    slot = gauges.take(str(tmp_path), "r/p-a-long-name")
    slot.numbers[slot.position + 1] = 5.0
    gauges.give_back(slot)
    assert told(tmp_path) == {}

    gauges.take(str(tmp_path), "r/p-2")
    assert told(tmp_path) == {"r/p-2": (None, 0.0)}


def test_the_file_grows(gauges, tmp_path):
    """More bars than one page holds are all there, and beyond the most there can be is an error, not a crash."""
    for number in range(1000):
        slot = gauges.take(str(tmp_path), f"p{number}")
        slot.numbers[slot.position + 1] = float(number)
    assert told(tmp_path) == {f"p{number}": (None, float(number)) for number in range(1000)}

    def take_for_ever():
        for number in range(1000, 10**6):
            gauges.take(str(tmp_path), f"p{number}")

    with pytest.raises(OSError, match="too many"):
        take_for_ever()
    assert len(told(tmp_path)) > 3000


def test_no_room_is_an_error_and_no_signal(gauges, tmp_path):
    """Where the file cannot be made as long as it must be, that is an OSError at once."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError):
            gauges.take(str(tmp_path), "r/p-1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert gauges.take(str(tmp_path), "r/p-1")  # and once there is room it goes on


def test_an_id_that_is_too_long_is_an_error(gauges, tmp_path):
    """An id that does not fit into a slot is turned away."""
    with pytest.raises(OSError, match="too long"):
        gauges.take(str(tmp_path), "x" * 129)


def test_unchanged_is_seen_at_a_glance(tmp_path):
    """What has not changed is not read a second time."""
    gauges = Gauges(mapped=True)
    slot = gauges.take(str(tmp_path), "p")
    first = read(str(tmp_path), GaugesFile())
    assert read(str(tmp_path), first) is first

    slot.numbers[slot.position + 1] = 1.0
    assert dict(read(str(tmp_path), first).gauges) == {"p": (None, 1.0)}


def _sound(tmp_path) -> bytes:
    gauges = Gauges(mapped=True)
    for number in range(3):
        slot = gauges.take(str(tmp_path), f"p{number}")
        slot.numbers[slot.position + 1] = 1.0
    return (tmp_path / FILE).read_bytes()


@given(data=st.binary(max_size=1200))
def test_any_bytes_are_read_without_harm(data, tmp_path_factory):
    """Whatever stands in the file, behind its first words too, nothing raises and only finite numbers come out."""
    directory = tmp_path_factory.mktemp("garbage")
    for start in (b"", b"vedette progress 1\n".ljust(256, b"\0")):
        (directory / FILE).write_bytes(start + data)
        for at, add in told(directory).values():
            assert all(number is None or math.isfinite(number) for number in (at, add))


@given(position=st.integers(0, 1023), value=st.integers(0, 255))
def test_one_bad_byte_harms_one_slot_at_most(position, value, tmp_path_factory):
    """A byte that is another costs at most the slot that it stands in."""
    directory = tmp_path_factory.mktemp("byte")
    data = bytearray(_sound(directory))
    data[position] = value
    (directory / FILE).write_bytes(data)

    others = [f"p{number}" for number in range(3) if position // 256 != number + 1]
    assert position < 256 or all(told(directory)[name] == (None, 1.0) for name in others)


@pytest.mark.parametrize("length", [0, 1, 18, 256, 300, 511, 512, 600, 1023])
def test_a_file_that_was_cut_short(length, tmp_path):
    """Of a file that ends too early, the whole slots are read."""
    data = _sound(tmp_path)
    (tmp_path / FILE).write_bytes(data[:length])

    assert len(told(tmp_path)) == max(0, length // 256 - 1)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_say_nothing(number, tmp_path):
    """NaN and infinities are no progress."""
    gauges = Gauges(mapped=True)
    slot = gauges.take(str(tmp_path), "p")
    slot.numbers[slot.position] = slot.numbers[slot.position + 1] = number

    assert told(tmp_path) == {"p": (None, None)}


def test_what_is_no_file_of_ours(tmp_path):
    """A pipe, a link, a directory or a vast file of zeros in its place hurts nobody, and holds nobody up."""
    path = tmp_path / FILE
    os.mkfifo(path)
    assert told(tmp_path) == {}
    path.unlink()
    path.symlink_to("/dev/zero")
    assert told(tmp_path) == {}
    path.unlink()
    path.mkdir()
    assert told(tmp_path) == {}
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert told(tmp_path) == {}


class Listener:
    """A reader with gauges, and a hub that looks at them."""

    def __init__(self, root) -> None:
        origin = Origin("one", "h", "b", 1, 1, "r", "r/1/one")
        self.spool = Spool(str(root), lambda: origin, 1 << 20, 1.0)
        self.spool.facts.append(frame(encode(Span("r/p", 1, kind="progress", add=0.0))))
        self.reader = SpoolReader(self.spool.directory, Mark(), Mark())
        self.reader.read_facts()
        self.said: list[Fact] = []
        self.fails = False
        self.hub = hub_progress.ProgressRecorder(self.say)
        self.writer = Gauges(mapped=True)

    def say(self, facts, _upstream):
        if self.fails:
            raise OSError("no room")
        self.said += facts

    def look(self, now, **how):
        self.said.clear()
        self.hub.look({"one": self.reader}, now, **how)
        return [(fact.id, fact.add) for fact in self.said]


@pytest.fixture
def listener(tmp_path):
    made = Listener(tmp_path)
    with closing(made.spool):
        yield made
    made.reader.shut()


def test_the_hub_says_what_has_changed(listener):
    """It says how far each is, in its own voice, for the origin that it is about; and nothing where nothing changed."""
    slot = listener.writer.take(listener.spool.directory, "r/p")
    slot.numbers[slot.position + 1] = 3.0

    assert listener.look(10.0) == [("r/p", 3.0)]
    [span] = listener.said
    assert (span.by, span.of, span.at, span.state, span.attrs) == (HUB, "one", None, "", {})
    assert abs(span.t - time.time_ns()) < 60 * 10**9
    assert listener.look(11.0) == []
    slot.numbers[slot.position + 1] = 4.0
    assert listener.look(12.0) == [("r/p", 4.0)]


def test_it_is_said_at_a_pace(listener):
    """Not more often than a few times a second, unless all is wanted; the last word always comes."""
    slot = listener.writer.take(listener.spool.directory, "r/p")
    words = 0
    for turn in range(100):  # ten seconds
        slot.numbers[slot.position + 1] = float(turn)
        words += len(listener.look(10 + turn / 10))
    assert 30 <= words <= 51
    slot.numbers[slot.position + 1] = 1000.0
    assert listener.look(20.0, everything=True) == [("r/p", 1000.0)]
    slot.numbers[slot.position + 1] = 1001.0
    assert listener.look(20.1) == []
    assert listener.look(20.3) == [("r/p", 1001.0)]


def test_many_share_what_may_be_said(listener):
    """A thousand that advance at once get their turn each, and together no more words than a hub can bear."""
    slots = [listener.writer.take(listener.spool.directory, f"r/p{number}") for number in range(1000)]
    heard: dict[str, int] = {}
    for turn in range(300):  # half a minute
        for slot in slots:
            slot.numbers[slot.position + 1] = turn + 1.0
        for id_, _ in listener.look(10 + turn / 10):
            heard[id_] = heard.get(id_, 0) + 1

    assert len(heard) == 1000
    assert max(heard.values()) - min(heard.values()) <= 1
    assert 2000 <= sum(heard.values()) <= 3100
    slots[7].numbers[slots[7].position + 1] = 10_000.0
    last = {}
    for turn in range(300):
        last |= dict(listener.look(50 + turn / 10))
    assert last["r/p7"] == 10_000.0


def test_the_dead_are_heard_out_before_they_are_buried(listener):
    """One that has died is gauged only once the last of it is said; where that fails, its spool must stay."""
    slot = listener.writer.take(listener.spool.directory, "r/p")
    slot.numbers[slot.position + 1] = 3.0
    assert listener.look(10.0) == [("r/p", 3.0)]
    slot.numbers[slot.position + 1] = 4.0
    listener.reader.gone = True
    listener.fails = True
    assert listener.look(10.1) == []
    assert not listener.reader.progress_recorded

    listener.fails = False
    assert listener.look(10.15) == [("r/p", 4.0)]
    assert listener.reader.progress_recorded


def test_only_a_hub_speaks_of_the_progress_of_others():
    """From the spool of a process `of` is taken away, as its `by` is."""
    payload = encode(Span("r/p", 1, by=HUB, add=1e9, of="another"))

    assert read_fact(payload, Origin("one", process="r/1/one")) == Span("r/p", 1, add=1e9)
    assert read_fact(payload, Origin("h", voice=HUB)) == Span("r/p", 1, by=HUB, add=1e9, of="another")


def test_a_number_that_is_half_stored_says_too_little(tmp_path, monkeypatch):
    """Of two looks the lower numbers count: a slot that changes hands between them never gives one's to the other."""
    gauges = Gauges(mapped=True)
    slot = gauges.take(str(tmp_path), "new")
    assert isinstance(slot.sheet, _Mapped)
    pread = os.pread
    torn = [(256 + 8, struct.pack("<d", 1e300))]

    def half(fd, size, position):
        data = bytearray(pread(fd, size, position))
        for at, number in torn:
            data[at : at + 8] = number
        torn.clear()  # the second look is right
        return bytes(data)

    monkeypatch.setattr(os, "pread", half)
    slot.numbers[slot.position + 1] = 2.0
    first = read(str(tmp_path), GaugesFile())
    assert dict(first.gauges) == {"new": (None, 2.0)}
    assert dict(read(str(tmp_path), first).gauges) == {"new": (None, 2.0)}
