"""`vedette doctor`: what it makes of what a hub reports."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

from tests.rooms.conftest import call
from tests.rooms.told_hub import ToldHub
from vedette import kernel, wire
from vedette.cli import doctor_home
from vedette.cli.doctor import examine
from vedette.home import Home
from vedette.query.runs import SKEWED_S
from vedette.settings import Settings
from vedette.version import __version__


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


def home_checks(home):
    found = [check for check in examine(Settings(home=str(home))) if check[0] == "home"]
    return [check for check in found if "systemd-tmpfiles" not in check[1]]


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_home_that_the_system_may_remove(tmp_path, folder):
    """Below /tmp and /var/tmp old files are removed by the system: that is said, also of a link to there, as a hint."""
    with tempfile.TemporaryDirectory(prefix="vdt-", dir=folder) as root:
        (tmp_path / "link").symlink_to(root)
        for place in (root, str(tmp_path / "link")):
            found = [check for check in doctor_home.examine(Home(place)) if "systemd-tmpfiles" in check[1]]
            said = [(f"`x {root}`" in text and "or set VEDETTE_HOME to" in text, advice) for _, text, advice in found]
            assert said == [(True, "")] * (folder != "/dev/shm")


@pytest.mark.parametrize(
    ("mode", "said"), [(0o755, ""), (0o1777, ""), (0o777, "others may write to"), (0o775, "others may write to")]
)
def test_a_directory_above_that_others_may_write_to(tmp_path, mode, said):
    """Who may write to a directory above the home could put another in its place, unless it is sticky: that is said."""
    above = tmp_path / "above"
    (above / "home").mkdir(parents=True, mode=0o700)
    os.chown(above, -1, 54321) if os.geteuid() == 0 else None  # a group of others
    above.chmod(mode)
    found = home_checks(above / "home")[1:]

    assert [said in text and f"chmod go-w {above}" in advice for _, text, advice in found] == ([True] if said else [])


def test_a_home_that_others_may_write_to(tmp_path):
    """So is a home that is open itself, and one whose parent is another user's."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o777)
    assert "chmod 700" in home_checks(place)[0][2]
    if os.geteuid() == 0:
        (place / "home").mkdir()
        place.chmod(0o755)
        os.chown(place, 65534, -1)
        assert "belongs to user 65534, who could put another" in home_checks(place / "home")[1][1]


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN TAKE A NAME AS ANOTHER USER")
def test_a_name_that_another_user_took(tmp_path, monkeypatch):
    """Of a home on a network file system it says where it lies here, and which names other users have taken."""
    monkeypatch.setattr("vedette.home._LOCAL", str(tmp_path))
    monkeypatch.setattr("vedette.kernel.NETWORK_FILE_SYSTEMS", {kernel.file_system(str(tmp_path))})
    asked = tmp_path / "asked"
    first = Home(str(asked)).root
    os.mkdir(first)
    os.chown(first, 65534, -1)
    home = Home.of(Settings(home=str(asked)))
    assert (home.root, os.stat(home.root).st_mode & 0o777) == (f"{first}.1", 0o700)
    os.mkdir(f"{first}.2")
    found = [text for _, text, _ in doctor_home.examine(home)]
    assert f"{home.root} (" in found[0]
    assert "a network file system, so a local directory is used" in found[0]
    assert found[1] == f"another user has {first}, so the next free name is used; nothing is lost"
    assert f"{first}.2 is yours, too" in found[2]


def test_what_a_relay_was_refused_is_no_trouble_with_committing(tmp_path):
    """That another hub has sent something that is not accepted is told as just that: this hub commits."""
    home = Home(str(tmp_path))
    with ToldHub(home) as hub:
        health = wire.Health(os.getpid(), __version__, 0.0, 0, 0, sent_trouble="relay 1234 of mallory was refused: x")
        hub.answers[wire.AskHealth] = lambda _: health
        checks = examine(Settings(home=home.root))
    assert [advice for what, _, advice in checks if what == "hub"] == [""]
    [advice] = [advice for _, found, advice in checks if "mallory was refused" in found]
    assert "hub --status" in advice
