"""`vedette rm` as a user calls it: what it asks, what it refuses, what scripts get."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest

from tests.rooms.conftest import BORN, QUICK, SECOND, Maker, call
from vedette.home import Home
from vedette.model import Span
from vedette.store.sqlite import SqliteStore


@pytest.fixture
def runs(home: Home) -> Home:
    """A home with two runs that ended, one below another, and one that is running."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("aaa1", "alpha", "failed", start_t=BORN)
    make.points("aaa1", "loss", [1.0, 2.0])
    make.run("bbb1", "beta", start_t=BORN + SECOND)
    make.run("kid1", "child", start_t=BORN + 2 * SECOND)
    make.facts("kid1", Span("kid1", BORN, parent="bbb1"))
    make.run("run1", "busy", "running", start_t=BORN + 3 * SECOND, heard_t=time.time_ns())
    store.close()
    return home


def names(*flags):
    return [row["name"] for row in json.loads(call("ls", "--json", *flags).stdout)]


def refused(*args):
    """Call `rm`, which is to fail; return its sentence."""
    done = call("rm", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_there_and_back(runs):
    """A run is removed with those below it, listed as such, and brought back."""
    done = call("rm", "beta")

    assert (done.returncode, done.stderr) == (0, "")
    assert "removed bbb1  beta" in done.stdout
    assert "with 1 run below it" in done.stdout
    assert "vedette rm --undo bbb1" in done.stdout
    assert names() == ["busy", "alpha"]
    assert names("--removed") == ["beta"]
    assert "vedette rm --undo bbb1" in call("show", "beta").stderr
    assert "`vedette rm --undo bbb1` brings it back" in call("show", "bbb1").stdout
    assert call("rm", "--undo", "beta").stdout.startswith("brought back bbb1  beta")
    assert names() == ["busy", "child", "beta", "alpha"]


def test_for_good(runs):
    """With --now nothing is left but a sentence, and it cannot be brought back."""
    done = call("rm", "alpha", "--now", "-y", "--json")

    [row] = json.loads(done.stdout)
    assert (row["id"], row["name"], row["what"], row["done"]) == ("aaa1", "alpha", "remove for good", True)
    assert row["bytes"] > 0
    assert names() == ["busy", "child", "beta"]
    assert names("--removed") == []
    for args in (("rm", "--undo", "aaa1"), ("show", "aaa1"), ("rm", "aaa1")):
        assert "run aaa1 was removed for good: removed by " in call(*args).stderr


def test_removed_runs_by_a_filter(runs):
    """--undo and --now reach removed runs by --where as by their ids; --now also those that are not removed."""
    assert call("rm", "alpha", "beta").returncode == 0
    assert call("rm", "--undo", "--where", "state = done").stdout.startswith("brought back bbb1  beta")
    assert names("--removed") == ["alpha"]
    assert call("rm", "--undo", "--where", "name = nobody").stdout == "no run matches\n"
    done = call("rm", "--where", "name in (alpha, beta)", "--now", "-y", "--json")

    assert {row["id"] for row in json.loads(done.stdout)} == {"aaa1", "bbb1"}
    assert (names(), names("--removed")) == (["busy"], [])


def test_who_it_was(runs):
    """An edit says who made it, in the user's voice, at a later time than what was there."""
    store = SqliteStore(runs.store)
    make = Maker(store)
    make.events("aaa1", *("another word" for _ in range(20)))  # so that what follows has a number of its own
    make.facts("aaa1", Span("aaa1", time.time_ns() + 3600 * SECOND, attrs={"removed": False}))
    store.close()
    assert call("rm", "alpha").returncode == 0

    found = call("sql", "SELECT json_extract(attrs, '$.who') AS who FROM runs WHERE id = 'aaa1'", "--json")
    assert json.loads(found.stdout)[0]["who"]
    assert "alpha" not in names()


def test_what_is_refused(runs):
    """Bad requests are one sentence and change nothing."""
    assert "say which runs" in refused()
    assert "give one of them" in refused("alpha", "--undo", "--now")
    assert "is running: end it first, or give --force" in refused("busy")
    assert "is running" in refused("alpha", "busy")
    assert "give -y" in refused("alpha", "--now")
    assert "there is no run 'nobody'" in refused("alpha", "nobody")
    assert "there is no field" in refused("--where", "colour = red")
    assert "is not removed" in refused("--undo", "alpha")
    assert call("rm", "alpha").returncode == 0
    assert "is removed already; --now" in refused("aaa1")
    assert names() == ["busy", "child", "beta"]


def test_a_parent_of_the_living_is_living(runs):
    """A run with a living run below it is not removed, unless by force."""
    store = SqliteStore(runs.store)
    Maker(store).facts("run1", Span("run1", BORN, parent="aaa1"))
    store.close()

    assert "run run1 (busy) is running" in refused("alpha")
    assert call("rm", "alpha", "--force").returncode == 0
    assert names() == ["child", "beta"]


def test_where(runs):
    """--where takes all that fit but the living, which it counts; --dry-run and --json only tell."""
    tried = call("rm", "--where", "start > 2000-01-01", "--dry-run", "--json")
    assert {row["name"]: row["done"] for row in json.loads(tried.stdout)} == {
        "child": False, "beta": False, "alpha": False,
    }  # fmt: skip
    assert "1 run left out" in tried.stderr
    assert "would remove aaa1" in call("rm", "alpha", "--dry-run").stdout
    assert len(names()) == 4

    done = call("rm", "--where", "state = failed", "beta")
    assert "2 runs, " in done.stdout
    assert names() == ["busy"]
    assert call("rm", "--where", "state = failed").stdout == "no run matches\n"


def test_a_run_and_its_parent_are_weighed_once(runs):
    """A run that is removed by itself and below another one frees its bytes once."""
    alone = {one["name"]: one["bytes"] for one in json.loads(call("rm", "beta", "--dry-run", "--json").stdout)}
    both = json.loads(call("rm", "child", "beta", "--dry-run", "--json").stdout)

    assert sum(one["bytes"] for one in both) == alone["beta"]


def test_lost_runs_by_the_users_own_limit(runs, monkeypatch):
    """All commands agree on which runs are lost, by `lost_after_s`; a lost run can be removed."""
    store = SqliteStore(runs.store)
    Maker(store).run("run2", "quiet", "running", start_t=BORN, heard_t=time.time_ns() - 100 * SECOND)
    store.close()
    chosen = ("--where", "state = lost", "--dry-run", "--json")
    assert [one["name"] for one in json.loads(call("rm", *chosen).stdout)] == ["quiet"]
    monkeypatch.setenv("VEDETTE_LOST_AFTER_S", "1000")
    assert (names("--where", "state = lost"), json.loads(call("rm", *chosen).stdout)) == ([], [])
    assert "is running" in refused("quiet")
    assert call("export", "--where", "state = lost", "-o", "x").returncode == 2
    assert call("plot", "--where", "state = lost", "loss").stdout == "no run matches\n"


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_it_asks(runs, answer, code):
    """Before something is removed for good, or more than one run, a person is asked, and told how much it is."""
    for args in (["alpha", "--now"], ["alpha", "beta"]):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "vedette", "rm", *args, "--json"],
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **QUICK},
        )  # fmt: skip
        os.write(ours, (answer + "\n").encode())
        out, err = process.communicate(timeout=60)
        os.close(ours)
        os.close(theirs)

        assert process.returncode == code
        assert "aaa1  alpha" in err
        assert "? [y/N]" in err
        assert ("nothing was done" in err) == (code == 1)
        assert bool(out) == (code == 0)
        if code == 0:
            break
    assert ("alpha" in names()) == (code == 1)


def test_many_at_once(runs):
    """Thousands of runs are removed by one call, and brought back by their ids."""
    store = SqliteStore(runs.store)
    make = Maker(store)
    facts = [Span(f"m{n:05d}", BORN, "done", kind="run", name=f"many{n}") for n in range(2500)]
    make.facts("many", *facts)
    store.close()
    done = call("rm", "--where", "name ~ many")

    assert "2500 runs, " in done.stdout
    assert len(names("--limit", "0")) == 4
    assert len(names("--limit", "0", "--removed")) == 2500


def test_doctor_tells(runs):
    """`vedette doctor` tells which rules hold, what is due by them, and what was removed."""
    with open(os.path.join(runs.asked, "vedette.toml"), "w") as file:
        file.write("[keep]\nage_d = 100000\n")
    assert call("rm", "alpha", "--now", "-y").returncode == 0
    deadline = time.monotonic() + 20
    while "still being" in (text := call("doctor").stdout) or "given back" in text:
        assert time.monotonic() < deadline
    assert "keep.age_d is 100000; 0 runs are due, 0 B; 1 was removed for good" in text
