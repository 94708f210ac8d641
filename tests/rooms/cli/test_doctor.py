"""`vedette doctor`: what it makes of what a hub reports."""

import os

import pytest

from tests.rooms.told_hub import ToldHub
from vedette import wire
from vedette.cli.doctor import examine
from vedette.home import Home
from vedette.query.runs import SKEWED_S
from vedette.settings import Settings


@pytest.mark.parametrize(
    ("skew_s", "advised"),
    [(None, False), (0.0, False), (SKEWED_S / 2, False), (SKEWED_S, True), (-SKEWED_S, True), (-60.0, True)],
)
def test_a_clock_that_is_off(tmp_path, skew_s, advised):
    """A clock that is off by as much as `show` and `top` mention is one to set, and no other."""
    home = Home(str(tmp_path))
    with ToldHub(home) as hub:
        health = wire.Health(os.getpid(), "0", 0.0, 0, 0, links=[("far", skew_s)])
        hub.answers[wire.AskHealth] = lambda _: health
        checks = examine(Settings(home=home.root))
    [(_, found, advice)] = [check for check in checks if check[0] == "link"]
    assert "far" in found
    assert ("NTP" in advice) is advised
