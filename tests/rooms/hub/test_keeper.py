"""One pass of the hub, without its threads and sockets."""

import os
import subprocess
import sys

from tests.rooms.conftest import keeping
from vedette import segment
from vedette.client.run import About, Run
from vedette.home import Home
from vedette.hub.own import Own
from vedette.model import HUB, Event, Span
from vedette.query.progress import bars
from vedette.settings import Settings
from vedette.store.sqlite_file import open_reader


def log(name):
    code = f"import vedette\nrun = vedette.init(name={name!r})\nrun.log({{'x': 1.0}})\nrun.mark('m')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_cannot_be_kept_holds_up_nobody_else(keeper, monkeypatch):
    """A process whose records the store refuses is set aside, whole and by name; the others are kept."""
    for name in ("good", "bad", "fine"):
        log(name)
    keep = keeper.store.keep

    def refuse_bad(batches, heard=None):
        batches = list(batches)
        if any(getattr(fact, "name", "") == "bad" for batch in batches for _, fact in batch.facts):
            raise ValueError("poison")
        keep(batches, heard)

    monkeypatch.setattr(keeper.store, "keep", refuse_bad)
    for _ in range(5):
        keeper.turn(seal={""})

    names = {row[0] for row in keeper.store.connection.execute("SELECT name FROM runs")}
    assert names == {"good", "fine"}
    [(name, why)] = keeper.set_aside.items()
    assert "poison" in why
    assert segment.list_segments(os.path.join(keeper.home.spool, name), "f")


def test_a_helper_that_outlives_the_hub_loses_nothing(home):
    """What a helper says after the hub has ended, as one whose hub was replaced, is kept by the next hub."""
    home.prepare()
    helper = Own(home)
    for text in ("while it runs", "after its end"):
        helper.say([Event("r", 1, "log", 20, text)])
        with keeping(home) as keeper:
            keeper.turn()

    texts = [row[0] for row in open_reader(home.store).connection.execute("SELECT text FROM events")]
    assert texts == ["while it runs", "after its end"]


def test_spools_of_the_dead_are_removed_once_they_are_kept(keeper):
    """When all that a dead process said is in the store, nothing of its spool is left."""
    log("one")
    for _ in range(5):
        keeper.turn()

    assert set(os.listdir(keeper.home.spool)) == keeper.own.names
    assert keeper.idle
    assert keeper.store.connection.execute("SELECT state FROM runs").fetchall() == [("done",)]


def test_an_end_is_shown_when_all_that_was_said_before_it_is_there(keeper):
    """While points are still to be read, a run that has ended is leaving; where its end is shown, all of them are."""
    names = [f"metric/{number}" for number in range(60)]
    run = Run._begin(keeper.home, Settings(), About(name="long"))
    for _ in range(8000):  # more than one turn reads
        run.log(dict.fromkeys(names, 1.0))
    run.finish()
    seen = {}
    while seen.get("done") is None:
        keeper.turn()
        [(state,)] = keeper.store.connection.execute("SELECT state FROM runs").fetchall()
        seen.setdefault(state, [row.count for row in keeper.store.series([run.id])])

    assert list(seen) == ["leaving", "done"]
    assert seen["leaving"] != seen["done"] == [8000] * 60
    assert keeper.store.awaited() == set()


def test_the_end_of_a_run_waits_for_its_other_processes(keeper):
    """Where the process that began a run ends it, what its children said until then is there, too, though they live."""
    run = Run._begin(keeper.home, Settings(), About(name="long"))
    child = Run._join(keeper.home, Settings(), run.id, "1", {})
    child.log({"of the child": 1.0})
    keeper.turn()
    run.finish()
    states = []
    while not states or states[-1] != "done":
        keeper.turn()
        states += [state for (state,) in keeper.store.connection.execute("SELECT state FROM runs")]

    assert [row.name for row in keeper.store.series([run.id])] == ["of the child"]
    child.finish()


def test_a_hub_stays_while_a_try_waits_for_its_ranks(keeper):
    """A hub does not leave while it waits for ranks that may speak yet: nobody else would end their try."""
    keeper.turn()
    assert keeper.idle
    ranks = Own(keeper.home)
    ranks.say([
        Span("r/1", 1, "running", kind="try", parent="r", attrs={"n": 1, "ranks": 2}),
        Span("r/1/a", 1, "running", kind="process", parent="r/1", attrs={"rank": 0}),
        Span("r/1/a", 2, "done", by=HUB),
    ])  # fmt: skip
    keeper.turn()
    keeper.flush()
    assert not keeper.idle
    ranks.close()


def test_strange_things_in_the_spool_hurt_nobody(keeper):
    """Files, links, pipes and empty directories among the spools are passed by."""
    root = keeper.home.spool
    os.mkdir(os.path.join(root, "empty"))
    with open(os.path.join(root, "a file"), "w") as file:
        file.write("hello")
    os.symlink("/proc", os.path.join(root, "link"))
    os.mkfifo(os.path.join(root, "pipe"))
    os.mkdir(os.path.join(root, "odd"))
    os.mkfifo(os.path.join(root, "odd", segment.segment_name("f", 0)))
    os.mkdir(os.path.join(root, "odd", segment.segment_name("s", 0)))
    os.utime(os.path.join(root, "empty"), (1, 1))
    log("one")
    for _ in range(5):
        keeper.turn(seal={""})

    assert {row[0] for row in keeper.store.connection.execute("SELECT name FROM runs")} == {"one"}
    assert os.path.exists(os.path.join(root, "a file"))
    assert not os.path.exists(os.path.join(root, "empty"))


def test_a_seal_brings_a_bar_that_no_turn_has_seen_yet(keeper):
    """A reader who asks right after a bar has moved sees how far it is, however new the bar is."""
    run = Run._begin(Home(keeper.home.asked), Settings(), About("p", name="n", config={}))
    keeper.turn()  # the spool is known, and has no bar
    bar = run.progress(10)
    bar.advance(2)

    keeper.turn(seal={""})
    assert [found.done for found in bars(keeper.store, run.id)] == [2.0]
    run.finish()
