"""Sync and export as a user calls them: with a hub that lives, works, and is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest

from tests.conftest import begin_hub, end_hub
from tests.law.telling import told
from tests.rooms.conftest import call
from tests.rooms.store.test_archive import HARMS
from vedette.home import Home
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore

SECOND = 10**9


def build(path: str, runs: int, points: int) -> None:
    """Make a home with a store of made-up runs in it."""
    os.makedirs(path)
    chance = np.random.default_rng(1)
    with closing(SqliteStore(os.path.join(path, "store.db"))) as store:
        for number in range(runs):
            run = f"run{number:03d}"
            who = Origin(f"o-{run}", "camp", "elsewhere", 7, 1, run, f"{run}/1/o")
            facts = [
                (10, Span(run, SECOND, "created", kind="run", name=run, attrs={"project": "p", "config.n": number})),
                (20, Span(f"{run}/1", SECOND, "running", kind="try", parent=run, attrs={"n": 1})),
                (30, Event(run, SECOND, "mark", text=f"begin {number}")),
                (40, Span(f"{run}/1", 9 * SECOND, "done")),
            ]  # fmt: skip
            n = [50 * (at + 1) for at in range(points)]
            rows = list(map(tuple, chance.normal(size=(points, 2)).tolist()))
            t = [SECOND + at * 1_000_000 for at in range(points)]
            columns = Columns(run, {}, ("loss", "acc"), n, t, list(range(points)), rows)
            store.keep([Batch(who, LANE_FACTS, 40, facts=facts), Batch(who, LANE_SAMPLES, n[-1], columns=[columns])])


@pytest.fixture
def far(tmp_path):
    """A home elsewhere, with some runs in it."""
    build(str(tmp_path / "far"), 3, 5000)
    return str(tmp_path / "far")


def test_export_sync_export_is_identical(home, hub, far, tmp_path):
    """An archive taken into an empty home is exported from there with the same bytes; twice changes nothing."""
    for name, where in (("a", far), ("b", home.root)):
        if name == "b":
            for news in ("taken in what was not here yet", "is here already"):
                done = call("sync", str(tmp_path / "a.vedette"), home=home.root)
                assert (done.returncode, done.stderr) == (0, "")
                assert news in done.stdout
        done = call("export", "--where", "project = p", "-o", str(tmp_path / f"{name}.vedette"), home=where)
        assert done.returncode == 0, done.stderr
        end_hub(Home(where))
    a, b = ((tmp_path / f"{name}.vedette").read_bytes() for name in "ab")

    assert a == b
    one, other = (told(os.path.join(root, "store.db"), heard=False) for root in (far, home.root))
    assert one == other


def test_a_home_is_taken_in_while_another_run_is_logged(home, hub, far):
    """What is logged here goes on meanwhile, and both are whole at the end."""
    code = "import vedette\nrun = vedette.init(name='near')\nfor i in range(20000): run.log({'x': i}, step=i)"
    logging = subprocess.Popen([sys.executable, "-c", code])
    done = call("sync", far, "--json", home=home.root)
    assert logging.wait(60) == 0

    assert done.returncode == 0, done.stderr
    [news] = json.loads(done.stdout)
    assert (news["points"], news["events"]) == (30_000, 3)
    assert json.loads(call("show", "near", "--json", home=home.root).stdout)["series"][0]["points"] == 20_000
    assert len(json.loads(call("ls", "--json", home=home.root).stdout)) == 4


def test_a_hub_that_is_killed_in_the_middle(home, hub, tmp_path):
    """However often the hub is killed while it takes a home in, doing it again comes to the same as without."""
    far = str(tmp_path / "far")
    build(far, 30, 6000)
    chance = random.Random(4)
    killed = 0
    for _ in range(8):
        begin_hub(home)
        environ = {**os.environ, "VEDETTE_HOME": home.root, "VEDETTE_HUB_IDLE_S": "5"}
        syncing = subprocess.Popen(
            [sys.executable, "-m", "vedette", "sync", far], env=environ, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 20
        before = size_of(home.store + "-wal") + size_of(home.store)
        grown = chance.randrange(50_000, 450_000)
        while size_of(home.store + "-wal") + size_of(home.store) < before + grown and syncing.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if syncing.poll() is None:
            killed += 1
        end_hub(home, signal.SIGKILL)
        _, said = syncing.communicate(timeout=30)
        if syncing.returncode == 0:
            break
        assert syncing.returncode == 2
        assert said.startswith("vedette: the hub")
    assert call("sync", far, home=home.root).returncode == 0
    end_hub(home, signal.SIGTERM)

    assert killed >= 2
    assert told(home.store, heard=False) == told(os.path.join(far, "store.db"), heard=False)


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def test_harmful_archives_do_not_end_the_hub(home, hub, far, tmp_path):
    """Each is refused with one sentence and exit code 2 by a hub that lives on."""
    good = tmp_path / "good.vedette"
    assert call("export", "run001", "-o", str(good), home=far).returncode == 0
    end_hub(Home(far))
    hubs = set()
    for number, harm in enumerate(("cut short", "a newer store", "a trigger", "a bomb", "no pages", "no UTF-8")):
        path = tmp_path / f"{number}.vedette"
        path.write_bytes(good.read_bytes())
        HARMS[harm](str(path))
        done = call("sync", str(path), home=home.root)

        assert (done.returncode, done.stdout) == (2, ""), harm
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("vedette: ")
        hubs.add(home.hub_pid())
    assert len(hubs) == 1
    assert call("sync", str(good), home=home.root).returncode == 0
    assert "run001" in call("ls", home=home.root).stdout
