"""Homes and spools from elsewhere, without a hub's threads and sockets."""

import os
import shutil
import subprocess
import sys

import pytest

from vedette.errors import VedetteError
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.takein import TakeIn
from vedette.settings import Hub, Settings
from vedette.store import EventQuery, SpanQuery
from vedette.store.sqlite import SqliteStore

LOG = """
import os, sys, vedette
from vedette.home import Home
Home.wake_hub = lambda self, origin="": None  # a node on which no hub ever runs
run = vedette.init(name="far", home=sys.argv[1])
for step in range(5000):
    run.log({"x": step}, step=step)
run.mark("here")
if sys.argv[2] == "half":
    run.log({"x": -1.0}, step=5000)
    import shutil
    shutil.copytree(os.path.join(sys.argv[1], "spool"), sys.argv[1] + "-half")
    for step in range(5001, 9000):
        run.log({"x": step}, step=step)
if sys.argv[2] == "die":
    os.kill(os.getpid(), 9)
run.finish()
"""


def log(root, how="whole"):
    done = subprocess.run([sys.executable, "-c", LOG, str(root), how], check=False, capture_output=True, text=True)
    assert done.returncode == (-9 if how == "die" else 0), done.stderr


def take(keeper, path):
    taking = TakeIn(keeper, str(path))
    for _ in taking.steps():
        pass
    return taking


def files(root):
    """All files below a directory, with their bytes."""
    return {
        os.path.join(folder, name): open(os.path.join(folder, name), "rb").read()
        for folder, _, names in os.walk(root)
        for name in names
    }


@pytest.mark.parametrize("what", ["home", "spool", "origin", "renamed"])
def test_a_node_that_was_never_connected(keeper, tmp_path, what):
    """A home without a store, its spool, or one directory of that is taken in whole, and nothing in it changes."""
    log(tmp_path / "far")
    path = tmp_path / "far"
    if what != "home":
        path = path / "spool"
    if what in ("origin", "renamed"):
        [path] = path.iterdir()
    if what == "renamed":
        path = path.rename(tmp_path / "a copy")
    before = files(tmp_path)
    taking = take(keeper, path)

    assert files(tmp_path) == before
    assert (taking.points, taking.notes) == (5000, [])
    [run] = keeper.store.spans(SpanQuery(kind="run"))
    assert (run.name, run.state) == ("far", "done")
    assert [row.count for row in keeper.store.series()] == [5000]
    take(keeper, path)
    assert [row.count for row in keeper.store.series()] == [5000]
    assert len(keeper.store.events(EventQuery(kinds=("mark",)))) == 1


def test_a_spool_that_was_copied_while_it_was_written(keeper, tmp_path):
    """A copy of half of it, and later all of it, is the same as all of it at once: no place is passed over."""
    log(tmp_path / "far", "half")
    take(keeper, tmp_path / "far-half")
    [row] = keeper.store.series()
    assert row.count == 5001
    take(keeper, tmp_path / "far")

    [row] = keeper.store.series()
    steps = keeper.store.points([row.id])[row.id].step.tolist()
    assert steps == list(range(9000))
    assert [row.state for row in keeper.store.spans(SpanQuery(kind="run"))] == ["done"]


def test_one_that_died_without_a_word_is_not_called_dead(keeper, tmp_path):
    """Nobody here saw how a process elsewhere ended, or whether: its run is as it said last."""
    log(tmp_path / "far", "die")
    take(keeper, tmp_path / "far")

    assert [row.state for row in keeper.store.spans(SpanQuery(kind="run"))] == ["running"]
    assert keeper.store.origins()[0].heard_t > 0


def test_a_home_of_a_hub_that_was_killed(keeper, tmp_path):
    """What lies in the log of its store is taken in too, and nothing is changed or added there."""
    log(tmp_path / "far")
    store = SqliteStore(str(tmp_path / "far" / "store.db"))
    other = Keeper(type(keeper.home)(str(tmp_path / "far")), store, Settings(hub=Hub(sync_s=0)))
    for _ in range(5):
        other.turn(seal={""})
    shutil.copytree(tmp_path / "far", tmp_path / "killed")
    other.close()
    before = files(tmp_path / "killed")
    assert any(name.endswith("-wal") and data for name, data in before.items())
    for _ in range(2):
        take(keeper, tmp_path / "killed")

    assert files(tmp_path / "killed") == before
    assert [row.count for row in keeper.store.series()] == [5000]
    take(keeper, tmp_path / "far")  # the same, now at rest: read where it lies
    assert sorted(os.listdir(tmp_path / "far")) == ["spool", "store.db"]
    assert [row.count for row in keeper.store.series()] == [5000]
    take(keeper, tmp_path / "far" / "store.db")
    assert [row.count for row in keeper.store.series()] == [5000]


def test_a_home_that_is_written_to_meanwhile(keeper, tmp_path):
    """What its hub moves from spools to its store while it is read is not lost between the two."""
    log(tmp_path / "far")
    offset = type(keeper.home)(str(tmp_path / "far"))
    lock = offset.take_lock()
    other = Keeper(offset, SqliteStore(offset.store), Settings(hub=Hub(sync_s=0)))
    for at, _ in enumerate(TakeIn(keeper, offset.root).steps()):
        if at in (1, 2, 3, 4):
            other.turn(seal={""})
    other.close()
    os.close(lock)

    assert [row.count for row in keeper.store.series()] == [5000]
    assert [row.state for row in keeper.store.spans(SpanQuery(kind="run"))] == ["done"]


def test_what_is_nothing_of_ours(keeper, tmp_path):
    """Directories, files, databases and homes that cannot be taken in are refused with a sentence."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "store").write_bytes(b"SQLite format 3\0" + bytes(4000))
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "f.0000000000000000").write_bytes(b"nothing")
    os.mkfifo(tmp_path / "pipe")
    paths = [
        *(tmp_path / name for name in ("empty", "text", "store", "odd", "missing", "pipe")),
        keeper.home.root,
        keeper.home.store,
    ]
    for path in paths:
        with pytest.raises(VedetteError) as error:
            take(keeper, path)
        assert str(path) in str(error.value)


def test_one_bad_spool_among_good_ones(keeper, tmp_path):
    """It is named, and the others are taken in."""
    log(tmp_path / "far")
    bad = tmp_path / "far" / "spool" / "bad"
    bad.mkdir()
    (bad / "f.0000000000000000").write_bytes(b"nothing")
    taking = take(keeper, tmp_path / "far")

    [note] = taking.notes
    assert "bad" in note
    assert taking.points == 5000
