"""Bars as a process moves them, and as they are read."""

import contextlib
import json
import math
import mmap
import os
import pickle

import numpy as np
import pytest

from tests.rooms.conftest import BORN, SECOND, call, python, small_disk
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client import faults, open_runs
from vedette.client.off import OffProgress
from vedette.client.progress import Progress, track
from vedette.client.run import About, Run
from vedette.home import Home
from vedette.model import HUB, Span
from vedette.query.progress import Bar, bars, outermost
from vedette.settings import Settings
from vedette.store.sqlite_file import open_reader


@pytest.fixture
def run(home, hub):
    """A run of this very process."""
    begun = Run._begin(Home(home.asked), Settings(), About("p", name="n", config={}))
    yield begun
    begun.finish()


@contextlib.contextmanager
def entered(run):
    """Make a run that of this context."""
    open_runs._open.append(run)
    token = open_runs._here.set(run)
    yield
    open_runs._here.reset(token)
    open_runs._open.remove(run)


def seen(home, run) -> list[Bar]:
    """Return the bars of a run as a reader sees them now."""
    ask(home, wire.Seal(""))
    return bars(open_reader(home.store), run.id)


def test_a_living_bar_is_seen_as_it_is(home, run):
    """What was advanced until now is there for a reader, while the process says nothing."""
    bar = run.progress(10, ("epoch", "batch"))
    for _ in range(3):
        bar.advance()
    bar.advance(0.5)

    [found] = seen(home, run)
    assert (found.name, found.total, found.done, found.state) == ("epoch | batch", 10.0, 3.5, "running")
    assert (found.run, found.id, found.fraction) == (run.id, bar.id, 0.35)
    bar.advance(2)
    assert seen(home, run)[0].done == 5.5


def test_update_never_goes_back(home, run):
    """`update` makes it so much, on top of nothing; less than before, and what is no number, says nothing."""
    bar = run.progress(100)
    bar.update(10)
    bar.advance(5)
    bar.update(12)
    bar.update(math.nan)
    bar.update("twenty")
    assert seen(home, run)[0].done == 15.0
    bar.update(20)
    bar.advance(1)
    assert seen(home, run)[0].done == 21.0


@pytest.mark.parametrize("step", [-1, math.nan, math.inf, "one", None, object(), 1j])
def test_what_is_no_step_is_turned_away(home, run, step):
    """A bar goes on by numbers from 0 on; anything else is named once, and changes nothing."""
    bar = run.progress(10)
    bar.advance(step)
    bar.advance(2)

    assert seen(home, run)[0].done == 2.0


def test_steps_of_numpy_count_whole(home, run):
    """Numbers of other libraries count as what they are, beyond what their own type could add up."""
    bar = run.progress(None)
    bar.update(2.0**24)
    for _ in range(10):
        bar.advance(np.float32(1))
        bar.advance(np.int64(1))
        bar.advance(np.bool_(True))

    assert seen(home, run)[0].done == 2.0**24 + 30


def test_how_a_bar_ends(home, run):
    """Done with what was counted, complete by order, failed by an exception with its line; never more than it was."""
    with run.progress(10, "counted") as bar:
        bar.advance(4)
    bar.advance(1)
    assert bar.is_finished
    run.progress(10, "complete").complete()
    failed = run.progress(10, "failed")
    failed.advance(10)
    with pytest.raises(ValueError), failed:
        raise ValueError("no more data")
    with pytest.raises(KeyboardInterrupt), run.progress(10, "stopped") as bar:
        raise KeyboardInterrupt
    with pytest.raises(SystemExit), run.progress(10, "left") as bar:
        raise SystemExit(3)

    ends = [(bar.name, bar.state, bar.cause, bar.done, bar.fraction) for bar in seen(home, run)]
    assert ends == [
        ("counted", "done", "", 4.0, 0.4),
        ("complete", "done", "", 10.0, 1.0),
        ("failed", "failed", "ValueError: no more data", 10.0, 0.999),
        ("stopped", "cancelled", "KeyboardInterrupt (Ctrl-C)", 0.0, 0.0),
        ("left", "failed", "exit code 3", 0.0, 0.0),
    ]


def test_track(home, run):
    """The loop is handed all there is; what leaves it early, or what it is fed by, decides how the bar ends."""

    def broken():
        yield from range(3)
        raise OSError("the disk is gone")

    def fail_in_the_body(items):
        for item in items:
            _ = 1 / (item - 2)

    with entered(run):
        assert list(track([1, 2, 3], "whole")) == [1, 2, 3]
        assert list(track(iter("ab"), "unknown")) == ["a", "b"]
        for item in track(range(10), "broken off"):
            if item == 4:
                break
        with pytest.raises(OSError):
            list(track(broken(), "fed badly", total=5))
        with pytest.raises(ZeroDivisionError):
            fail_in_the_body(track(range(10), "body"))

    ends = [(bar.name, bar.state, bar.cause, bar.done, bar.total) for bar in seen(home, run)]
    assert ends == [
        ("whole", "done", "", 3.0, 3.0),
        ("unknown", "done", "", 2.0, None),
        ("broken off", "cancelled", "the loop was left early", 4.0, 10.0),
        ("fed badly", "failed", "OSError: the disk is gone", 3.0, 5.0),
        ("body", "cancelled", "the loop was left early", 2.0, 10.0),
    ]


def test_a_message_may_change(home, run):
    """What a bar is called is what it was called last."""
    bar = run.progress(10, "one")
    bar.advance(1, "two")
    bar.update(5, ("three", "four"))

    [found] = seen(home, run)
    assert (found.name, found.done) == ("three | four", 5.0)


@pytest.mark.parametrize("total", ["ten", -1, math.nan, object()])
def test_a_total_that_is_none(home, run, total):
    """A total that is no number is taken as unknown."""
    run.progress(total, "x").advance()

    [found] = seen(home, run)
    assert (found.total, found.done, found.fraction) == (None, 1.0, None)


def test_pickled_in_its_own_process_it_is_itself(run):
    """Sent round and back, it is the same bar; one that has ended stays so."""
    bar = run.progress(10)
    with entered(run):
        assert pickle.loads(pickle.dumps(bar)) is bar
        bar.complete()
        again = pickle.loads(pickle.dumps(bar))
    again.advance()
    assert again.is_finished


def test_estimate(run):
    """The end is foreseen once something is done, in the future, and not beyond the end."""
    bar = run.progress(10)
    assert bar.estimate is None
    bar.advance(5)
    assert bar.estimate > 1.7e9
    bar.complete()
    assert bar.estimate is None
    assert run.progress(None).estimate is None


def test_many_bars_one_after_the_other_need_little_room(home, run):
    """Slots of ended bars are used again: the file does not grow by them."""
    for number in range(200):
        with run.progress(1, str(number)) as bar:
            bar.advance()

    assert os.path.getsize(os.path.join(run._journal.spool.directory, "progress")) <= 1 << 16
    assert all((bar.done, bar.state) == (1.0, "done") for bar in seen(home, run))


def test_more_bars_than_there_is_room_for(home, run, monkeypatch):
    """Where slots run out a record takes over for the bar that was begun first: all that was counted is there."""
    monkeypatch.setattr("vedette.gauges._MOST_BYTES", 4 * mmap.ALLOCATIONGRANULARITY)
    made = [run.progress(None, str(number)) for number in range(200)]
    for bar in [*made, *made[::-1], *made[::7]]:
        bar.advance()

    expected = {str(number): 2.0 + (number % 7 == 0) for number in range(200)}
    assert {bar.name: bar.done for bar in seen(home, run)} == expected
    assert faults.swallowed == 0


def test_what_had_no_room_is_said_at_the_end(home):
    """A bar for which there was never room is told when its process ends."""
    code = """
import vedette
from vedette.gauges import Gauges
def full(*_): raise OSError(28, "No space left on device")
Gauges.take = full
run = vedette.init()
bar = run.progress(10, "x")
bar.advance(3)
bar.update(5)
"""
    done = python(code)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)

    ask(home, wire.Seal(""))
    assert [(bar.name, bar.done) for bar in bars(open_reader(home.store))] == [("x", 5.0)]


def test_a_full_disk_hurts_nobody():
    """Without room for the gauges nothing raises; once there is room again all that was counted is there."""
    code = """
import os, sys, time, vedette
os.environ["VEDETTE_HOME"] = home = sys.argv[1]
run = vedette.init(home=home)
free = os.statvfs(home).f_bavail * os.statvfs(home).f_frsize
with open(os.path.join(home, "ballast"), "wb") as file:
    os.posix_fallocate(file.fileno(), 0, free)
bar = run.progress(100, "tight")
for _ in range(10):
    bar.advance()
os.unlink(os.path.join(home, "ballast"))
bar._retry_at = 0.0
bar.advance(5)
print(run.id, flush=True)
os.kill(os.getpid(), 9)
"""
    with small_disk("8m") as point:
        environ = {"VEDETTE_HOME": point, "VEDETTE_HUB_IDLE_S": "1"}
        done = python(code.replace("sys.argv[1]", repr(point)), environ=environ)
        shown = json.loads(call("show", done.stdout.split()[0], "--json", environ=environ).stdout)

    assert done.returncode == -9, done.stderr
    assert "progress cannot be stored just now" in done.stderr
    assert [bar["done"] for bar in shown["progress"]] == [15.0]


def test_off(home):
    """With VEDETTE_MODE=off every verb is there and does nothing, also in another process."""
    code = """
import pickle, vedette
bar = vedette.Progress.new(10, "x")
with bar:
    bar.advance(); bar.update(3, msg="y"); bar.advance(1, distributed=True); bar.complete()
print(type(pickle.loads(pickle.dumps(bar))).__name__, bar.estimate, bar.is_finished, list(vedette.track([1, 2])))
vedette.Usage.checkpoint("a", 1)
"""
    done = python(code, environ={"VEDETTE_MODE": "off"})

    assert (done.stdout.strip(), done.stderr) == ("OffProgress None False [1, 2]", "")
    assert os.listdir(home.root) == []
    public = {name for name in dir(Progress) if not name.startswith("_")} - {"new"}
    assert public - set(dir(OffProgress)) == set()


def test_checkpoints_are_marks_where_something_is_measured(home):
    """`Usage.checkpoint` is a mark with its labels; with usage off it leaves nothing."""
    code = "import vedette\nvedette.init(name='n', usage={})\nvedette.Usage.checkpoint('epoch', 3)\nvedette.mark('m')"
    assert python(code.format(True)).returncode == 0
    assert python(code.format(False)).returncode == 0

    ask(home, wire.Seal(""))
    rows = open_reader(home.store).connection.execute("SELECT text FROM events WHERE kind = 'mark' ORDER BY id")
    assert sorted(text for (text,) in rows) == ["epoch 3", "m", "m"]


def test_no_run_yet(home):
    """A bar without `init` opens a run, as every verb does."""
    done = python("import vedette\nfor _ in vedette.track(range(3), 'x'): pass\nvedette.Progress.new(5, 'y').advance()")
    assert done.stderr == ""

    ask(home, wire.Seal(""))
    assert [(bar.name, bar.done) for bar in bars(open_reader(home.store))] == [("x", 3.0), ("y", 1.0)]


def test_nothing_was_swallowed():
    """None of the above was a fault of our own."""
    assert faults.swallowed == 0


def bar_of(make, *, state="running", total=100.0, done=25.0, after_s=50, **told) -> str:
    make.facts(
        "r",
        Span("r/1/o", BORN, "running", kind="process", parent="r/1"),
        Span("r/p-1", BORN, "running", kind="progress", name="b", parent="r/1/o", attrs={"total": total, **told}),
        Span("r/p-1", BORN + after_s * SECOND, by=HUB, add=done, of="o-r"),
    )
    if state != "running":
        make.facts("r", Span("r/p-1", BORN + after_s * SECOND, state))
    return "r/p-1"


def test_rate_and_what_is_left(make, store):
    """The rate is that since the beginning; what is left shrinks until a unit is due, and is unknown if none comes."""
    make.run("r", state="running")
    bar_of(make)

    [bar] = bars(store, "r")
    now_t = BORN + 50 * SECOND
    assert (bar.fraction, bar.rate) == (0.25, 0.5)
    assert (bar.start_t, bar.seen_t, bar.end_t) == (BORN, now_t, None)
    assert bar.eta_s(now_t) == 150.0
    assert bar.eta_s(now_t + SECOND) == 149.0
    assert bar.eta_s(now_t + 20 * SECOND) == bar.eta_s(now_t + 30 * SECOND) == 148.0
    assert bar.eta_s(now_t + 151 * SECOND) is None


def test_all_counted_and_not_ended(make, store):
    """A bar that has counted everything and was not ended yet has nothing left, however long that takes."""
    make.run("r", state="running")
    bar_of(make, done=100.0)

    [bar] = bars(store, "r")
    assert bar.eta_s(BORN + 1000 * SECOND) == 0.0


@pytest.mark.parametrize("total", ["much", None, [1], -5.0])
def test_strange_totals_are_unknown(make, store, total):
    """A total that cannot be is none."""
    make.run("r", state="running")
    bar_of(make, total=total)

    [bar] = bars(store)
    assert (bar.total, bar.fraction, bar.eta_s(BORN + 60 * SECOND), bar.rate) == (None, None, None, 0.5)


def test_nothing_to_do_is_done(make, store):
    """Of nothing all is done."""
    make.run("r", state="running")
    bar_of(make, total=0.0, done=0.0, state="done")

    assert bars(store)[0].fraction == 1.0


@pytest.mark.parametrize(("state", "cause"), [("failed", "killed by SIGKILL"), ("cancelled", "SIGTERM"), ("done", "")])
def test_a_bar_ends_with_its_process(make, store, state, cause):
    """One that nobody ended has the end of its process; its count stays what it was."""
    make.run("r", state="running")
    bar_of(make)
    make.facts("r", Span("r/1/o", BORN + 99 * SECOND, state, cause, by=HUB))

    [bar] = bars(store, "r")
    assert (bar.state, bar.cause, bar.done, bar.end_t) == (state, cause, 25.0, BORN + 99 * SECOND)
    assert bar.fraction == 0.25
    assert bar.eta_s(BORN) is None


def test_a_bar_ends_with_its_run(make, store):
    """Where the end of its process is not known, that of its run counts."""
    make.run("r", state="failed", cause="gone", end_t=BORN + 70 * SECOND)
    bar_of(make)

    assert (bars(store)[0].state, bars(store)[0].cause) == ("failed", "gone")


def test_only_the_bars_of_a_run(make, store):
    """Bars of one run are asked for alone, those of all without one; the oldest comes first."""
    for run in ("r", "r2"):
        make.run(run, state="running")
        for at in (2, 1):
            make.facts(run, Span(f"{run}/p-{at}", BORN + at, "running", kind="progress", name=f"{run}{at}"))

    assert [bar.name for bar in bars(store, "r")] == ["r1", "r2"]
    assert {bar.name for bar in bars(store)} == {"r1", "r2", "r21", "r22"}
    assert outermost(bars(store, "r")).name == "r1"
    assert outermost([]) is None


def test_the_command_line_shows_bars(home):
    """`show` has every bar with its state and part, `ls` the part of what runs; both in JSON too."""
    code = """
import sys, vedette
run = vedette.init(name="barred")
with vedette.Progress.new(8, ("load", "data")) as bar:
    bar.advance(2)
vedette.Progress.new(200, "train").advance(50)
print(run.id, flush=True)
import subprocess
for args in (["show", "barred"], ["ls"], ["ls", "--json"], ["show", "barred", "--json"]):
    subprocess.run([sys.executable, "-m", "vedette", *args], check=True)
    print("=" * 9, flush=True)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    show, ls, ls_json, show_json, _ = done.stdout.split("=" * 9)

    lines = [line.split() for line in show.splitlines()]
    assert ["load", "|", "data", "done", "2", "8", "25%"] in [line[:7] for line in lines]
    assert ["train", "running", "50", "200", "25%"] in [line[:5] for line in lines]
    assert "PART" in ls
    assert "25%" in ls
    assert json.loads(ls_json)[0]["fraction"] == 0.25
    told = json.loads(show_json)["progress"]
    assert [(bar["name"], bar["done"], bar["fraction"], bar["state"]) for bar in told] == [
        ("load | data", 2.0, 0.25, "done"),
        ("train", 50.0, 0.25, "running"),
    ]
    assert "eta_s" in told[1]
    assert "PART" not in call("ls").stdout
