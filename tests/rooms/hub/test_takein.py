"""Homes and spools from elsewhere, without a hub's threads and sockets."""

import contextlib
import os
import shutil
import subprocess
import sys

import msgspec
import pytest

from tests.rooms.conftest import BORN
from tests.rooms.speaker import Speaker
from vedette import wire
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.hub.own import Own
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.takein import TakeIn
from vedette.model import LANE_FACTS, Event, Origin, Span
from vedette.segment import list_segments, pack_header, read_header, segment_name
from vedette.settings import Hub, Settings
from vedette.store import Batch, EventQuery, SpanQuery, Taken, parcels
from vedette.store.sqlite import SqliteStore

FAR = 1 << 50  # bytes
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


def home_keeper(home, spool):
    """A new hub of a home, in which a spool lies now."""
    home.prepare()
    shutil.copytree(spool, home.spool, dirs_exist_ok=True)
    return Keeper(home, SqliteStore(home.store), Settings(hub=Hub(seal_s=0.0)))


def points_in(store):
    [series] = [row for row in store.series() if row.name == "x"]
    return store.points([series.id])[series.id].value.tolist()


def beyond(spool):
    """Make a copy of a spool say that it has come much further than the spool itself."""
    [origin] = os.listdir(spool)
    for lane in "fs":
        for offset in list_segments(os.path.join(spool, origin), lane):
            path = os.path.join(spool, origin, segment_name(lane, offset))
            with open(path, "rb") as file:
                header, begin = read_header(file.fileno())
                records = file.read()[begin:]
            os.unlink(path)
            far = msgspec.structs.replace(header, offset=offset + FAR)
            far = msgspec.structs.replace(far, size=len(pack_header(far)) + len(records))
            with open(os.path.join(spool, origin, segment_name(lane, far.offset)), "wb") as file:
                file.write(pack_header(far) + records)


@pytest.mark.parametrize("lossy", [False, True])
def test_a_copy_that_claims_more_than_there_is(home, tmp_path, monkeypatch, lossy):
    """A hostile copy of a spool does not make the spool itself pass for read; with the control, which keeps it as the
    spool itself is kept, it does.
    """
    log(tmp_path / "far")
    shutil.copytree(tmp_path / "far" / "spool", tmp_path / "hostile")
    beyond(str(tmp_path / "hostile"))
    home.prepare()
    keeper = Keeper(home, SqliteStore(home.store), Settings(hub=Hub(seal_s=0.0)))
    if lossy:
        monkeypatch.setattr(SqliteStore, "take", lambda store, batch: store.keep([batch]) or Taken())
    take(keeper, tmp_path / "hostile")
    assert len(points_in(keeper.store)) == 5000
    keeper.close()
    keeper = home_keeper(home, tmp_path / "far" / "spool")
    for _ in range(20):
        keeper.turn(seal={""})

    assert len(points_in(keeper.store)) == (5000 if lossy else 10000)
    keeper.close()


def test_a_copy_cannot_remove_a_run(keeper, tmp_path):
    """What a spool from elsewhere calls purged stays: only the owner of a home removes something for good."""
    log(tmp_path / "far")
    take(keeper, tmp_path / "far")
    [run] = keeper.store.spans(SpanQuery(kind="run"))
    hostile = Own(Home(str(tmp_path / "hostile")))
    hostile.say([Span(run.id, 1 << 61, state="purged", by="user")])
    hostile.close()
    take(keeper, tmp_path / "hostile")

    assert [row.state for row in keeper.store.spans(SpanQuery(kind="run"))] == ["done"]
    assert len(points_in(keeper.store)) == 5000


def relay(keeper):
    """Have another hub introduce an origin."""
    said = Batch(Origin("o"), LANE_FACTS, 1, facts=[(1, Event("other", BORN, "log"))])
    inbox = keeper.inboxes.open("relay r", 1 << 30)
    inbox.append(wire.encode(wire.Shipment(1, list(parcels.pack(said)))))
    keeper.step()


@pytest.mark.parametrize("where", ["read", "not begun", "after a failed turn", "set aside", "relayed", "nowhere"])
def test_a_store_cannot_say_what_comes_by_itself(keeper, tmp_path, where):
    """Behind the mark of an origin whose spool lies here, or that is relayed, nothing is taken in, and that is told."""
    if where == "relayed":
        relay(keeper)
    elif where != "nowhere":
        speaker = Speaker(keeper.home, "o", "r1")
        if where == "read":
            keeper.step()
        if where == "after a failed turn":
            keeper.step()
            keeper.start_over(VedetteError("no"))
        if where == "set aside":
            keeper.set_aside["o"] = "it cannot be kept"
    with contextlib.closing(SqliteStore(str(tmp_path / "store.db"))) as other:
        foretold = [(n, Event("r1", BORN, "log", text=f"foretold {n}")) for n in range(1 << 20, (1 << 20) + 3)]
        other.keep([Batch(Origin("o", span="r1"), LANE_FACTS, 1 << 21, facts=foretold)])
    taking = take(keeper, tmp_path / "store.db")

    assert len(keeper.store.events(EventQuery(span="r1"))) == (3 if where == "nowhere" else 0)
    if where == "nowhere":
        assert taking.notes == []
    else:
        [note] = taking.notes
        assert "3 records of 1 process " in note
        assert str(tmp_path / "store.db") in note
    if where not in ("relayed", "nowhere"):
        speaker.end()


@pytest.mark.parametrize("name", ["/", "../spool", "a\0b", "x" * 500])
def test_what_is_no_name_of_a_spool(keeper, name):
    """An origin may be named as anybody likes: it is not looked for outside of the spools."""
    keeper.home.prepare()
    assert keeper.comes_from(name) is None
