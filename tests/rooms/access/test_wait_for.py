"""Waiting for something in a home: the answer is found whether or not a hub reports it."""

import os

import pytest

from tests.rooms.told_hub import ToldHub
from vedette import wire
from vedette.access.home_access import HomeAccess
from vedette.home import Home


@pytest.fixture
def access(tmp_path):
    return HomeAccess(Home(str(tmp_path / "home")))


class Asked:
    """A question that has an answer when it is asked for the nth time; `then` is called each time before."""

    def __init__(self, nth, then=lambda _: None):
        self.count, self._nth, self._then = 0, nth, then

    def __call__(self):
        self.count += 1
        if self.count >= self._nth:
            return "yes"
        self._then(self.count)
        return None


def test_it_is_asked_when_the_hub_reports_a_change(access, monkeypatch):
    """A change of the run is enough: nobody waits for the next look at the clock."""
    monkeypatch.setattr("vedette.access.home_access._WAIT_MOST_S", 3600.0)
    with ToldHub(access.home) as hub:
        question = Asked(5, lambda count: count > 1 and hub.tell(wire.Change(spans=["r"])))
        assert access.wait_for(question, 600, "r") == "yes"
        assert hub.followed == ["r"]


@pytest.mark.parametrize("greets", [True, False], ids=["nothing changes", "stopped"])
def test_a_hub_that_reports_nothing(access, greets):
    """If nothing changes, and if the hub is stopped, it is asked now and then."""
    with ToldHub(access.home, greets=greets):
        assert access.wait_for(Asked(4), 600) == "yes"


def test_a_hub_that_dies_meanwhile(access):
    """If the hub goes away, it is asked on; where none is needed none is started."""
    hub = ToldHub(access.home)
    assert access.wait_for(Asked(6, lambda count: count == 3 and hub.close()), 600, needs_hub=lambda: False) == "yes"
    assert not os.path.exists(access.home.waking)


def test_without_a_hub_or_a_home(access):
    """It is asked even if there is nothing at all, and makes nothing."""
    assert access.wait_for(Asked(3), 600, needs_hub=lambda: False) == "yes"
    assert not os.path.exists(access.root)


@pytest.mark.parametrize("seconds", [-1, 0, 0.1])
def test_when_the_time_is_over(access, seconds):
    """Without an answer in time there is none; it was asked at the beginning, and at the end once more."""
    question = Asked(100)
    assert access.wait_for(question, seconds, needs_hub=lambda: False) is None
    assert 2 <= question.count < 100


def test_what_the_question_raises(access):
    """An error of the question ends the wait."""
    with pytest.raises(ZeroDivisionError):
        access.wait_for(lambda: 1 // 0, 600, needs_hub=lambda: False)
