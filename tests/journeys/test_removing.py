"""Removing while others log, hubs that die in the middle, and rules that the hub keeps by itself."""

import json
import os
import random
import signal
import time

import pytest

from tests.conftest import begin_hub, end_hub
from tests.journeys.conftest import eventually, read_runs, spools
from tests.rooms.conftest import call
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.hub.log import Log
from vedette.hub.turn.sweeper import Sweeper
from vedette.settings import Keep
from vedette.store import EventQuery
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader

LONG = """
import sys, vedette, random
run = vedette.init(name=sys.argv[1], project="p", tags=sys.argv[2:])
for step in range(15_000):
    run.log({name: random.random() for name in "abcde"}, step=step)
for n in range(200):
    run.mark("line", n, random.random())
print(run.id)
"""
STEADY = """
import os, sys, time, vedette
run = vedette.init(name="steady")
print(run.id, flush=True)
step = 0
while os.path.exists(sys.argv[1]):
    for _ in range(20):
        run.log({"x": float(step)}, step=step)
        step += 1
    run.mark("at", step)
    time.sleep(0.005)
run.finish()
print(step)
"""


def cli(*args):
    done = call(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def swept(home):
    """Tell whether the hub has nothing left to delete or give back."""
    health = ask(home, wire.AskHealth())
    assert not health.sweep_trouble
    return not health.sweeping


def file_size(home):
    return os.stat(home.store).st_size


def rows(home, query, *values):
    reader = open_reader(home.store)
    found = reader.connection.execute(query, values).fetchall()
    reader.close()
    return found


def leftovers(home, run):
    """Return what of a purged run is still in any table."""
    found = {}
    for table in ("events", "series", "writes", "claims", "progress", "blobs"):
        count = rows(home, f"SELECT count(*) FROM {table} WHERE span > ? AND span < ?", run + "/", run + "0")[0][0]
        if table not in ("claims", "writes"):
            count += rows(home, f"SELECT count(*) FROM {table} WHERE span = ?", run)[0][0]
        if count:
            found[table] = count
    orphans = rows(home, "SELECT count(*) FROM chunks WHERE series NOT IN (SELECT id FROM series)")[0][0]
    orphans += rows(home, "SELECT count(*) FROM axes WHERE id NOT IN (SELECT axis FROM chunks)")[0][0]
    return found | ({"orphans": orphans} if orphans else {})


def test_removing_while_another_logs(home, hub, start, finish, tmp_path):
    """Runs are removed for good while another process logs: they are gone, their space too, and it has lost nothing."""
    going = tmp_path / "going"
    going.touch()
    steady = start(STEADY, str(going))
    living = steady.stdout.readline().strip()
    gone = [finish(LONG, f"long{n}")[1].strip() for n in range(3)]
    eventually(lambda: all(view.state == "done" for view in read_runs(home) if view.id in gone))
    ask(home, wire.Seal())
    full = rows(home, "SELECT sum(length(value)) FROM chunks")[0][0]
    assert full > 1_100_000
    cli("rm", *gone, "--now", "-y")
    eventually(lambda: swept(home), 60)
    going.unlink()
    steps = int(steady.communicate(timeout=30)[0])

    [view] = [view for view in eventually(lambda: read_runs(home)) if view.id == living]
    assert view.history("x").value.tolist() == [float(step) for step in range(steps)]
    assert len(view.logs(kind="mark")) == steps // 20
    for run in gone:
        assert leftovers(home, run) == {}
    end_hub(home, signal.SIGTERM)
    assert file_size(home) < full / 2


def test_removing_by_force_what_is_running(home, hub, start, tmp_path):
    """A run that is removed for good while it logs goes on undisturbed, and all that it says is absorbed."""
    going = tmp_path / "going"
    going.touch()
    steady = start(STEADY, str(going))
    run = steady.stdout.readline().strip()
    eventually(lambda: read_runs(home))
    cli("rm", run, "--now", "-y", "--force")
    eventually(lambda: swept(home), 30)
    time.sleep(0.5)
    going.unlink()
    out, err = steady.communicate(timeout=30)
    ask(home, wire.Seal())
    eventually(lambda: not spools(home), 30)
    eventually(lambda: swept(home), 30)

    assert steady.returncode == 0
    assert err == ""
    assert int(out) > 100
    assert leftovers(home, run) == {}
    assert rows(home, "SELECT state FROM spans WHERE id = ?", run) == [("purged",)]
    assert rows(home, "SELECT count(*) FROM events") == [(0,)]
    assert sum(mark.offset for mark in open_reader(home.store).marks().values()) > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_hub_that_is_killed_while_it_deletes(home, hub, start, finish, tmp_path, seed):
    """A hub that is killed again and again while it deletes: in the end all of that is gone, and nothing else."""
    chance = random.Random(seed)
    going = tmp_path / "going"
    going.touch()
    steady = start(STEADY, str(going))
    living = steady.stdout.readline().strip()
    gone = [finish(LONG, f"long{n}")[1].strip() for n in range(3)]
    stays = finish(LONG, "stays")[1].strip()
    eventually(lambda: all(view.state == "done" for view in read_runs(home) if view.id != living))
    cli("rm", *gone, "--now", "-y")
    kills = 0
    while rows(home, "SELECT count(*) FROM purges WHERE left")[0][0] or kills < 5:
        pid = home.hub_pid()
        time.sleep(chance.uniform(0, 0.15))
        if pid:
            end_hub(home)
            kills += 1
        begin_hub(home)
    eventually(lambda: swept(home), 60)
    going.unlink()
    steps = int(steady.communicate(timeout=30)[0])

    views = {view.id: view for view in read_runs(home)}
    assert views.keys() == {living, stays}
    assert views[living].history("x").value.tolist() == [float(step) for step in range(steps)]
    assert [row.count for row in views[stays].series()] == [15_000] * 5
    assert len(views[stays].logs(kind="mark")) == 200
    for run in gone:
        assert leftovers(home, run) == {}
    assert rows(home, "PRAGMA integrity_check") == [("ok",)]
    store = open_reader(home.store)
    assert {event.span for event in store.events(EventQuery(search="line"))} == {stays}


def test_control_of_leftovers(home, hub, finish):
    """A store in which a series of a purged run was left behind is found by that check."""
    run = finish(LONG, "long")[1].strip()
    eventually(lambda: [view for view in read_runs(home) if view.state == "done"])
    cli("rm", run, "--now", "-y")
    eventually(lambda: swept(home), 60)
    end_hub(home)
    assert leftovers(home, run) == {}
    store = SqliteStore(home.store)
    store.connection.execute("INSERT INTO series (span, name) VALUES (?, 'left')", (run,))
    store.close()

    assert leftovers(home, run) == {"series": 1}


def test_children_of_a_removed_run(home, hub, finish):
    """A run that begins below one that was removed for good, and logs, leaves no more than a tombstone."""
    parent = finish("import vedette\nprint(vedette.init(name='top').id)")[1].strip()
    eventually(lambda: [view for view in read_runs(home) if view.state == "done"])
    cli("rm", parent, "--now", "-y")
    code = (
        "import vedette\nrun = vedette.init(name='kid', resume=False)\nrun.log({'x': 1})\nrun.mark('m')\nprint(run.id)"
    )
    child = finish(code, environ={"VEDETTE_RUN": parent})[1].strip()
    eventually(lambda: not spools(home), 30)
    eventually(lambda: rows(home, "SELECT state FROM spans WHERE id = ?", child) == [("purged",)])
    eventually(lambda: swept(home))

    assert read_runs(home) == []
    assert leftovers(home, child) == {}


def make_rules(home, text):
    path = os.path.join(home.asked, "vedette.toml")
    with open(path + ".new", "w") as file:
        file.write(f"[keep]\n{text}\n")
    os.replace(path + ".new", path)


@pytest.mark.parametrize(
    ("rule", "left"),
    [("runs = 1", {"held", "new"}), ("age_d = 0.00001", {"held"}), ("size_bytes = {size}", {"held", "new"})],
    ids=["runs", "age", "size"],
)
def test_the_hub_keeps_its_rules(home, hub, finish, rule, left):
    """Rules that are written into the home's settings while the hub runs are kept at once; the tag `keep` holds."""
    for args in (("held", "keep"), ("old",), ("new",)):
        finish(LONG, *args)
        eventually(lambda: all(view.state == "done" for view in read_runs(home)))
    before = rows(home, "SELECT sum(length(value)) FROM chunks")[0][0]
    # Its last sign of life must be a minute ago.
    end_hub(home)
    store = SqliteStore(home.store)
    store.connection.execute("UPDATE origins SET heard_t = 1 WHERE heard_t > 0")
    size = store.weigh() - before // 6  # half a run too large
    store.close()
    begin_hub(home)
    assert {view.name for view in read_runs(home)} == {"held", "old", "new"}
    make_rules(home, rule.format(size=size))
    eventually(lambda: {view.name for view in read_runs(home)} == left, 30)
    eventually(lambda: swept(home), 30)

    assert rows(home, "SELECT sum(length(value)) FROM chunks")[0][0] <= before * len(left) / 3 * 1.1
    [cause] = {row[0].partition(" is ")[0] for row in rows(home, "SELECT cause FROM spans WHERE state = 'purged'")}
    assert cause == "keep." + rule.split()[0]
    assert {row[0] for row in rows(home, "SELECT voice FROM claims WHERE state = 'purged'")} == {"hub"}
    found = json.loads(cli("doctor", "--json"))
    [text] = [check["found"] for check in found if check["what"] == "keep"]
    assert f"keep.{rule.split()[0]} is" in text
    assert "removed for good" in text


def test_rules_that_cannot_be_read_remove_nothing(home, hub, finish):
    """When the settings are broken while the hub runs, nothing is removed, and `vedette doctor` says why."""
    finish(LONG, "old")
    eventually(lambda: [view for view in read_runs(home) if view.state == "done"])
    health = ask(home, wire.AskHealth())
    assert health.keep == Keep()
    with open(os.path.join(home.asked, "vedette.toml"), "w") as file:
        file.write("[keep]\nage_d = -1\n")
    trouble = eventually(lambda: ask(home, wire.AskHealth()).sweep_trouble)

    assert "keep.age_d" in trouble
    assert len(read_runs(home)) == 1


def test_what_goes_wrong_with_deleting_holds_up_nobody(home):
    """A store that cannot delete is a sentence in `trouble`, and tried again later; no error comes out."""
    home.prepare()
    store = SqliteStore(home.store)
    store.connection.execute("DROP TABLE purges")
    sweeper = Sweeper(Home(home.asked), store, Log(home.log), Keep())
    sweeper.sweep(lambda _: None, set)

    assert "purges" in sweeper.trouble
    assert not sweeper.busy
    store.close()
