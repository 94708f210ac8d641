"""A voice: what is said under one origin is found again, its time never falls, and a hub is kept awake beside it."""

import os
import time

import pytest

from tests.journeys.conftest import eventually
from tests.rooms.conftest import small_disk
from vedette import kernel, voice, wire
from vedette.home import Home
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES, OWNER, Blob, Event, Sample, Span
from vedette.segment import origin_of
from vedette.tail import Tail
from vedette.voice import SteadyClock, Voice, origin_here


@pytest.fixture
def speaker(home):
    """A voice in a home of its own."""
    home.prepare()
    origin = origin_here("o", span="r", process="r/1/o", upstream="up:1", main=True)
    return Voice(home, lambda: origin)


def facts(speaker):
    """Return the facts that a voice has said."""
    payloads = [payload for _, payload in Tail(speaker.spool.directory, LANE_FACTS).read()]
    assert all(len(payload) <= wire.MAX_PAYLOAD for payload in payloads)
    return [wire.decode_fact(payload) for payload in payloads]


@pytest.fixture
def at(monkeypatch):
    """Set the system's time."""

    def set_time(t):
        monkeypatch.setattr(time, "time_ns", lambda: t)

    return set_time


def test_what_is_said_is_found_again(speaker):
    """Facts and numbers stand in the spool, in their order, under an origin that names this very process."""
    words = [Span("r", 1, "created"), Event("r", 2, "log", 20, "hello"), Blob("r", 3, "a.txt", "d", 1)]
    for word in words:
        speaker.say(word)
    speaker.sample(Sample(4, 0, {"x": 1.0}))

    assert facts(speaker) == words
    [(_, payload)] = Tail(speaker.spool.directory, LANE_SAMPLES).read()
    assert wire.decode_sample(payload) == Sample(4, 0, {"x": 1.0})
    origin = origin_of(speaker.spool.directory)
    assert origin == speaker.origin
    assert (origin.pid, origin.started) == (os.getpid(), kernel.start_ticks(os.getpid()))
    assert (origin.host, origin.boot, origin.voice) == (kernel.host(), kernel.boot(), OWNER)
    assert (origin.span, origin.process, origin.upstream, origin.main) == ("r", "r/1/o", "up:1", True)


def test_nothing_is_touched_before_the_first_word(home):
    """A voice that says nothing leaves nothing behind, nor does it ask who it is."""
    speaker = Voice(home, lambda: pytest.fail("nobody has asked"))

    assert speaker.lost == 0
    assert not os.path.exists(home.spool)


def test_the_time_never_falls(at):
    """A clock of the system that is set back does not set ours back; one that is set forward is followed."""
    clock = SteadyClock()
    told = []
    for t in (100, 101, 50, 101, 102, 1):
        at(t)
        told.append(clock.now())

    assert told == [100, 101, 101, 101, 102, 102]


def test_who_changes_what_it_has_read_writes_a_later_time(at):
    """Whatever the system's clock says: a time that was read is passed, and never gone back to."""
    clock = SteadyClock()
    at(100)
    clock.be_later_than(100)
    clock.be_later_than(7)
    assert clock.now() == 101
    at(200)
    assert clock.now() == 200


def test_voices_of_one_speaker_share_a_clock(home, at):
    """What a hub says to several hubs has one time."""
    clock = SteadyClock()
    one, other = (Voice(home, lambda name=name: origin_here(name, voice=HUB), clock=clock) for name in "ab")
    at(100)
    assert one.now() == 100
    at(50)
    assert other.now() == 100


def test_many_attributes_are_said_in_parts(speaker):
    """A span whose attributes are too many for one record is said by several, each of which can be read."""
    attrs = {f"k{number}": "x" * 10_000 for number in range(300)}
    speaker.say(Span("r", 1, "created", kind="run", name="n", attrs=attrs))
    said = facts(speaker)

    assert len(said) == 4
    merged = {}
    for fact in said:
        merged |= fact.attrs
    assert merged == attrs
    assert [fact.state for fact in said if fact.state] == ["created"]
    assert {(fact.id, fact.t) for fact in said} == {("r", 1)}


def test_one_large_attribute_is_spread_or_named(speaker):
    """A dict becomes attributes with dots in their names; of a value that is too large its name is left."""
    config = {f"k{number}": "x" * 10_000 for number in range(200)}
    speaker.say(Span("r", 1, attrs={"config": config}))
    merged = {}
    for fact in facts(speaker):
        merged |= fact.attrs
    assert merged == {f"config.{key}": value for key, value in config.items()}

    speaker.say(Span("r", 2, attrs={"whole": "x" * (2 << 20)}))
    assert facts(speaker)[-1].attrs == {"whole": "(too large to keep)"}


def test_a_long_line_is_cut(speaker):
    """Of an event that is too large its beginning is kept, and that it was cut."""
    speaker.say(Event("r", 1, "log", 20, "x" * (2 << 20), {"a": 1}))
    [event] = facts(speaker)

    assert event.text == "x" * 100_000 + " (cut)"


def test_what_there_is_no_room_for_is_counted():
    """A full disk raises nothing; each record that was lost is counted, and why is known."""
    with small_disk("1m") as root:
        speaker = Voice(Home(os.path.join(root, "home")), lambda: origin_here("o"))
        for t in range(40):
            speaker.say(Event("r", t, "log", 20, "x" * 100_000))

        assert 0 < speaker.lost < 40
        assert speaker.spool.trouble


def test_a_hub_is_kept_awake(home):
    """Looked after for the first time, a hub is started; for a minute after that nobody looks again."""
    speaker = Voice(home, lambda: origin_here("o"))
    assert speaker.keep_hub_awake() == ""
    eventually(home.hub_pid)
    due = speaker.wake_at
    assert speaker.keep_hub_awake() == ""
    assert speaker.wake_at == due


@pytest.mark.parametrize("moved_s", [61, -3600])
def test_a_hub_that_cannot_be_had(tmp_path, at, moved_s):
    """Why is returned and nothing raised; it is tried again after a minute, also when the clock was set back."""
    (tmp_path / "file").write_text("")
    speaker = Voice(Home(str(tmp_path / "file" / "home")), lambda: origin_here("o"))
    began = time.time_ns()
    at(began)
    assert "Not a directory" in speaker.keep_hub_awake()
    assert speaker.keep_hub_awake() == ""
    at(began + moved_s * 10**9)
    assert "Not a directory" in speaker.keep_hub_awake()
    assert "Not a directory" in speaker.wake_hub()


def test_where_the_kernel_does_not_say_when_a_process_began(monkeypatch):
    """Without /proc an origin is named all the same."""

    def refuse(_pid):
        raise PermissionError

    monkeypatch.setattr(voice.kernel, "start_ticks", refuse)
    assert origin_here("o").started == 0
