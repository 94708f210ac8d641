"""Waiting for changes: soon after something has changed, not too often, and from whichever hub is there."""

import os
import signal
import subprocess
import threading
import time

import pytest

from tests.rooms.told_hub import ToldHub
from vedette import kernel, wire
from vedette.access.follower import LEFT, Follower
from vedette.home import Home
from vedette.hub_lock import HubProcess


@pytest.fixture
def place(tmp_path):
    return Home(str(tmp_path / "home"))


def _quiet(follower):
    """Wait until the follower is connected, and has had the look that this takes."""
    _until(follower, lambda change: change is not None and change.missed)
    return follower


def _until(follower, holds):
    deadline = time.monotonic() + 60
    while not holds(change := follower.wait(0.2)):
        assert time.monotonic() < deadline, (change, follower.trouble)
    return change


def test_the_first_look_is_at_once_and_then_now_and_then(place):
    """Who begins looks at once; though nothing changes, it is time to look again after a while, and not before."""
    with ToldHub(place):
        follower = Follower(place, least_s=0.05, most_s=0.3)
        assert follower.wait(0) == wire.Change()
        _quiet(follower)
        begun = time.monotonic()
        assert follower.wait(0.1) is None
        assert follower.wait(60) == wire.Change()
        assert 0.2 < time.monotonic() - begun < 30
        follower.close()


def test_what_changed_between_two_looks_comes_as_one(place):
    """Many changes are one look, with all that they named; the pause between two looks holds however many come."""
    with ToldHub(place) as hub:
        follower = _quiet(Follower(place, "r", least_s=0.3, most_s=0.4))
        assert hub.followed == ["r"]
        looks, deadline = [], time.monotonic() + 1.5
        while time.monotonic() < deadline:
            hub.tell(wire.Change(spans=["r"]), wire.Change(events=["r/1"], points=["r"]))
            if (change := follower.wait(0.02)) is not None:
                looks.append(change)
        assert 2 <= len(looks) <= 6
        assert all(set(look.spans) == {"r"} and "r/1" in look.events for look in looks[1:])
        follower.close()


def test_a_key_or_a_call_ends_the_wait(place):
    """A descriptor that can be read, or another thread that wakes it, ends a wait without a look."""
    with ToldHub(place):
        follower = _quiet(Follower(place, most_s=3600))
        follower.least_s = 3600.0
        reading, writing = os.pipe()
        os.write(writing, b"x")
        assert follower.wait(60, [reading]) is None
        threading.Timer(0.1, follower.wake).start()
        begun = time.monotonic()
        assert follower.wait(300) is None
        assert time.monotonic() - begun < 60
        follower.close()
        follower.wake()  # nobody waits any more: that is no error
        os.close(reading)
        os.close(writing)


def test_a_hub_that_leaves_and_comes_back(place):
    """When the hub goes there is a look, and a word why; when one comes again all is to be read anew."""
    hub = ToldHub(place)
    follower = _quiet(Follower(place, least_s=0.01, needs_hub=lambda: False))
    assert (follower.connected, follower.trouble) == (True, "")
    hub.close()
    assert _until(follower, lambda change: change is not None and change.missed)
    assert (follower.connected, follower.trouble) == (False, LEFT)
    _until(follower, lambda _: follower.trouble == "")  # nobody needs one
    with ToldHub(place) as another:
        assert _until(follower, lambda change: change is not None and change.missed)
        assert follower.connected
        another.tell(wire.Change(spans=["x"]))
        assert _until(follower, lambda change: change is not None and change.spans).spans == ["x"]
    follower.close()


def test_a_hub_is_started_only_where_one_is_needed(place):
    """A follower that needs no hub starts none; one that needs one says why it cannot be had."""
    shy = Follower(place, least_s=0.01, most_s=0.05, needs_hub=lambda: False)
    for _ in range(10):
        shy.wait(0.1)
    shy.close()
    assert not os.path.exists(place.waking)
    with open(place.root, "w"):  # no directory can be made there
        pass
    keen = Follower(place, least_s=0.01)
    _until(keen, lambda _: keen.trouble)
    assert "no hub can be started" in keen.trouble
    keen.close()


def test_a_hub_that_is_stopped_or_of_another_version(place, monkeypatch):
    """A hub that says nothing, or speaks a newer wire, is named as the trouble; nothing is raised."""
    monkeypatch.setattr("vedette.access.follower.HELLO_TIMEOUT_S", 0.2)
    with ToldHub(place, greets=False):
        follower = Follower(place, least_s=0.01)
        _until(follower, lambda _: follower.trouble)
        assert "is it stopped?" in follower.trouble
        assert not follower.connected
        follower.close()
    with ToldHub(place):  # its pid is that of a process that is stopped only after it has greeted
        stopped = subprocess.Popen(["sleep", "60"])
        hub = HubProcess(stopped.pid, kernel.start_ticks(stopped.pid), kernel.boot())
        monkeypatch.setattr(place, "hub", lambda: hub)
        follower = _quiet(Follower(place, least_s=0.01, most_s=0.05))
        os.kill(stopped.pid, signal.SIGSTOP)
        _until(follower, lambda _: follower.trouble)
        assert "is it stopped?" in follower.trouble
        os.kill(stopped.pid, signal.SIGCONT)
        _until(follower, lambda _: not follower.trouble)
        stopped.kill()
        stopped.wait()
        follower.close()
    with ToldHub(place, version=wire.VERSION + 1):
        follower = Follower(place, least_s=0.01)
        _until(follower, lambda _: follower.trouble)
        assert "upgrade vedette" in follower.trouble
        follower.close()
