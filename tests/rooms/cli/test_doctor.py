"""`vedette doctor`: what it makes of what a hub reports."""

import json
import os
import subprocess
import sys

import pytest

from tests.rooms.conftest import call
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


def test_who_learns_how_a_process_ended(tmp_path):
    """It says whether the kernel tells strangers how a process ended, as it does since Linux 6.15."""
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    [(_, found, advice)] = [check for check in examine(Settings(home=str(tmp_path))) if check[0] == "ends"]
    assert (found == "the kernel tells how every process ended") is (release >= (6, 15))
    assert advice == ""


def test_what_was_set_aside_is_named_by_where_it_lies(tmp_path):
    """Advice on what a hub set aside names a path that there is: spools and inboxes lie in different places."""
    home = Home(str(tmp_path))
    with ToldHub(home) as hub:
        os.makedirs(os.path.join(home.spool, "o1"))
        os.makedirs(os.path.join(home.root, "inbox", "far"))
        set_aside = {"o1": "it is damaged", "inbox/far": "it is damaged"}
        health = wire.Health(os.getpid(), "0", 0.0, 0, 0, set_aside=set_aside)
        hub.answers[wire.AskHealth] = lambda _: health
        advice = [advice for _, found, advice in examine(Settings(home=home.root)) if "it is damaged" in found]
    paths = [text.removeprefix("look at ") for text in advice]
    assert len(paths) == 2
    assert all(map(os.path.isdir, paths)), paths


def test_points_of_a_run_that_this_home_does_not_know(home, hub):
    """Points that no list shows are named, and what is advised makes a run of them."""
    log = [sys.executable, "-c", "import vedette; vedette.init().log({'loss': 0.5}, step=1)"]
    subprocess.run(log, check=True)
    assert [check for check in examine(Settings(home=home.asked)) if check[0] == "no begin"] == []

    stray = "2ppx7qmxcdwpym"
    subprocess.run(log, check=True, env={**os.environ, "VEDETTE_RUN": stray})
    assert stray not in call("ls").stdout
    told = call("doctor")
    assert told.returncode == 1
    assert f"something of 1 run whose beginning is not here, so no list shows it: {stray}" in told.stdout
    [advised] = [line for line in told.stdout.splitlines() if "--resume" in line]
    call(*advised.split("`")[3].split()[1:])
    assert [run["id"] for run in json.loads(call("ls", "--json").stdout)][:1] == [stray]
    assert "no begin" not in call("doctor").stdout
