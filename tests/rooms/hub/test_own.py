"""The hub's own voice: kept like everybody's, said to the one who is meant, and tried again when there was no room."""

import contextlib
import os

import pytest

from tests.rooms.conftest import small_disk
from vedette import wire
from vedette.home import Home
from vedette.hub.own import Own
from vedette.model import HUB, LANE_FACTS, Event, Sample, Span
from vedette.segment import origin_of
from vedette.tail import Tail


def said(home):
    """Return what stands in the spools of a home, by the hub that it is meant for."""
    found = {}
    for name in os.listdir(home.spool):
        directory = os.path.join(home.spool, name)
        origin = origin_of(directory)
        assert origin is not None, os.listdir(directory)
        assert origin.voice == HUB
        facts = [wire.decode_fact(payload) for _, payload in Tail(directory, LANE_FACTS).read()]
        found.setdefault(origin.upstream, []).append(facts)
    return found


def word(text):
    return Event("r", 1, "answer", 20, text)


def test_each_hub_hears_what_is_meant_for_it(home):
    """There is one spool for each hub, which begins with the host that speaks."""
    own = Own(home)
    own.say([word("here")])
    own.say([word("there")], "up:1")
    own.say([word("again")], "up:1")
    found = said(home)
    assert {upstream: [fact.text for fact in facts[1:]] for upstream, [facts] in found.items()} == {
        "": ["here"], "up:1": ["there", "again"],
    }  # fmt: skip
    assert all(isinstance(facts[0], Span) and facts[0].kind == "host" for [facts] in found.values())
    assert own.names == set(os.listdir(home.spool))
    assert own.close() == set(os.listdir(home.spool))
    assert own.names == set()


def test_a_flush_is_one_of_what_was_said(home, flushes):
    """What was said is flushed once, and without a word there is nothing to flush."""
    own = Own(home)
    own.sync()
    assert flushes == []
    own.say([word("a")])
    own.say([word("b")], "up:1")
    own.sync()
    assert len(flushes) == 2
    own.sync()
    assert len(flushes) == 2


def full(root):
    """Fill a disk to the last byte; return the file to be removed."""
    path = os.path.join(root, "ballast")
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


def test_a_full_disk_is_said_and_passes(flushes):
    """Without room it raises, each time; what was said before is flushed; with room again all goes on."""
    with small_disk("3m") as root:
        home = Home(os.path.join(root, "home"))
        home.prepare()
        own = Own(home)
        own.say([word("before")])
        ballast = full(root)
        with pytest.raises(OSError, match="cannot be written to"):
            own.say([word("x" * 200_000)])
        assert flushes
        for _ in range(30):
            with pytest.raises(OSError, match="cannot be written to"):
                own.say([word("x" * 200_000)])
        assert len(os.listdir(home.spool)) == 1  # no try leaves anything behind
        own.sync()
        os.unlink(ballast)
        own.sync()
        own.say([word("after")])
        own.sync()
        [facts] = [
            [fact.text for facts in spools for fact in facts if isinstance(fact, Event)]
            for spools in said(home).values()
        ]
        assert sorted(facts) == ["after", "before"]


def test_lost_samples_hold_up_no_facts():
    """After samples had no room, a fact that has room is written, and nothing raises."""
    with small_disk("3m") as root:
        home = Home(os.path.join(root, "home"))
        home.prepare()
        own = Own(home)
        own.say([word("before")])
        full(root)
        while not own.lost:
            own.sample([Sample(1, 1, {"loss": 0.5})] * 1000)
        own.say([word("after")])  # its segment has room

        assert [fact.text for [facts] in said(home).values() for fact in facts[1:]] == ["before", "after"]
