"""Who is lost: by the hub's clock where it has one, at a moment that comes in as a parameter."""

import json

import pytest

from tests.rooms.conftest import SECOND, call
from vedette import app
from vedette.model import LANE_FACTS, Origin, Span
from vedette.query.overview import overview
from vedette.query.runs import select, view
from vedette.store import Batch
from vedette.store.sqlite import SqliteStore

NOW = 1_790_000_000 * SECOND
HOUR = 3600 * SECOND


class Camp:
    """Runs with tries and processes, each process by an origin of its own, in a store."""

    def __init__(self, store):
        self.store = store

    def run(self, run="r1", state="created", t=NOW - HOUR):
        """A run that somebody without a process has put there."""
        self._keep(Origin("clerk", span=run), Span(run, t, state=state, kind="run", name=run))

    def process(self, name, run="r1", attempt="1", n=1, t=NOW - HOUR, heard_t=0, state="running", main=True):
        """A process of a try, which says that it and the try live; `t` is by its own clock."""
        process = f"{run}/{attempt}/{name}"
        self._keep(
            Origin(name, span=run, process=process),
            Span(run, t, state="created", kind="run", name=run),
            Span(f"{run}/{attempt}", t, state="running", kind="try", parent=run, attrs={"n": n}),
            Span(process, t, state=state, kind="process", name=name, parent=f"{run}/{attempt}", attrs={"main": main}),
        )
        self.heard(name, heard_t)

    def heard(self, name, t):
        """The hub knows a process alive."""
        self.store.keep([], {name: t})

    def ends(self, run="r1", attempt="1", state="done", t=NOW):
        """A try has ended."""
        self._keep(Origin("ender", span=run), Span(f"{run}/{attempt}", t, state=state))

    def _keep(self, origin, *facts):
        n = len(self.store.connection.execute("SELECT * FROM claims").fetchall())
        self.store.keep([Batch(origin, LANE_FACTS, n + len(facts), facts=list(enumerate(facts, n + 1)))])

    def states(self, now=NOW, **kwargs):
        """How the run, its tries and its processes are seen."""
        seen = view(self.store, "r1", now=now, **kwargs)
        [listed] = select(self.store, "id = r1", now=now, **kwargs)
        assert (listed.state, listed.heard_t, listed.silent_s) == (seen.state, seen.heard_t, seen.silent_s)
        return seen.state, [row.state for row in seen.tries()], {row.name: row.state for row in seen.processes()}


@pytest.fixture
def camp(store):
    """An empty camp."""
    return Camp(store)


@pytest.mark.parametrize(("silent_s", "shown"), [(0, "running"), (59, "running"), (60, "running"), (61, "lost")])
def test_silence_of_a_minute(camp, silent_s, shown):
    """What should be alive is lost after more than a minute without a sign, and not before."""
    camp.process("main", heard_t=NOW - silent_s * SECOND)

    assert camp.states() == (shown, [shown], {"main": shown})


def test_found_again(camp):
    """What is heard again is found again: nothing of its loss was kept."""
    camp.process("main", heard_t=NOW - 100 * SECOND)
    assert camp.states()[0] == "lost"
    camp.heard("main", NOW)

    assert camp.states() == ("running", ["running"], {"main": "running"})
    assert camp.states(now=NOW + 61 * SECOND)[0] == "lost"


@pytest.mark.parametrize(("began_s", "shown"), [(30, "running"), (61, "lost"), (10**6, "lost")])
def test_never_heard_from(camp, began_s, shown):
    """A process that no hub ever knew alive does not run for ever: its own beginning is the last that is known."""
    camp.process("main", t=NOW - began_s * SECOND)

    assert camp.states() == (shown, [shown], {"main": shown})
    seen = view(camp.store, "r1", now=NOW)
    assert (seen.heard_t, seen.silent_s) == (None, began_s)


def test_never_heard_from_but_joined_just_now(camp):
    """Of many that were never heard, the one that began last counts for the run."""
    camp.process("main")
    camp.process("child", t=NOW - SECOND, main=False)

    assert camp.states() == ("running", ["running"], {"main": "lost", "child": "running"})


@pytest.mark.parametrize("state", ["created", "queued"])
def test_a_queue_is_never_lost(camp, state):
    """A run that waits, with no process at all, waits as long as it must."""
    camp.run(state=state, t=NOW - 10**6 * SECOND)

    assert camp.states() == (state, [], {})
    assert view(camp.store, "r1", now=NOW).silent_s is None


def test_one_of_many_is_silent(camp):
    """The silence of a worker is its own: the run is alive as long as one process of its try is heard."""
    camp.process("main", heard_t=NOW)
    camp.process("worker", heard_t=NOW - HOUR, main=False)
    assert camp.states() == ("running", ["running"], {"main": "running", "worker": "lost"})
    camp.heard("worker", NOW + HOUR)

    assert camp.states(now=NOW + HOUR) == ("running", ["running"], {"main": "lost", "worker": "running"})


def test_the_newest_try_counts(camp):
    """An old try that is still heard does not keep a run alive whose newest try is silent; nor the other way round."""
    camp.process("old", heard_t=NOW)
    camp.process("new", attempt="b", n=7, heard_t=NOW - HOUR)
    assert camp.states() == ("lost", ["running", "lost"], {"old": "running", "new": "lost"})
    camp.heard("new", NOW + HOUR)

    assert camp.states(now=NOW + HOUR) == ("running", ["lost", "running"], {"old": "lost", "new": "running"})


def test_a_try_that_waits_is_not_lost(camp):
    """A run whose newest try has no process yet waits, whatever became of the ones before."""
    camp.process("old", heard_t=NOW - HOUR)
    camp._keep(Origin("clerk", span="r1"), Span("r1/b", NOW, state="queued", kind="try", parent="r1", attrs={"n": 2}))

    assert camp.states() == ("queued", ["lost", "queued"], {"old": "lost"})


@pytest.mark.parametrize("skew_h", [-48, -1, 0, 1, 48])
def test_the_clock_of_a_host_does_not_count(camp, skew_h):
    """A host whose clock is hours off is judged by when the hub heard it, in both directions."""
    camp.process("main", t=NOW + skew_h * HOUR, heard_t=NOW - 10 * SECOND)
    assert camp.states()[0] == "running"

    assert camp.states(now=NOW + 51 * SECOND)[0] == "lost"


def test_what_has_ended_is_not_lost(camp):
    """An end is an end, however long ago."""
    camp.process("main", heard_t=NOW - HOUR, state="done")
    camp.ends()

    assert camp.states(now=NOW + 100 * HOUR) == ("done", ["done"], {"main": "done"})


def test_how_long_is_a_setting(camp):
    """How much silence makes a loss is said by who reads."""
    camp.process("main", heard_t=NOW - 30 * SECOND)

    assert camp.states(lost_after_s=20.0)[0] == "lost"
    assert camp.states(lost_after_s=40.0)[0] == "running"


def test_the_reader_wins_no_sign_from_other_runs(camp):
    """Signs of one run say nothing of another, also where one id begins with the other."""
    camp.process("a", run="r1", heard_t=NOW - HOUR)
    camp.process("b", run="r10", heard_t=NOW)

    assert {seen.id: seen.state for seen in select(camp.store, now=NOW)} == {"r1": "lost", "r10": "running"}


@pytest.fixture
def lost_home(home):
    """A home with a run that was heard three minutes ago, and one that was never heard."""
    import time

    home.prepare()
    store = SqliteStore(home.store)
    camp = Camp(store)
    now = time.time_ns()
    camp.process("main", run="r1", t=now - HOUR, heard_t=now - 180 * SECOND)
    camp.process("deaf", run="r2", t=now - HOUR)
    store.close()
    return home


def test_the_commands_say_since_when(lost_home):
    """`ls` and `show` say when a lost run was last heard, and `--state lost` finds it."""
    listed = call("ls", "--state", "lost").stdout
    assert "last heard 3m0" in listed
    assert "never heard from; it began 1h00m ago" in listed
    shown = call("show", "r1").stdout
    assert "lost, last heard 3m0" in shown
    assert shown.count("last heard") == 2
    rows = {row["id"]: row for row in json.loads(call("ls", "--json").stdout)}
    assert rows["r1"]["state"] == rows["r2"]["state"] == "lost"
    assert rows["r2"]["heard_t"] is None
    one = json.loads(call("show", "r1", "--json").stdout)
    assert [row["state"] for row in one["tries"] + one["processes"]] == ["lost", "lost"]
    assert one["heard_t"] == one["processes"][0]["heard_t"] == rows["r1"]["heard_t"]


def test_the_setting_is_heeded_everywhere(lost_home, monkeypatch):
    """`lost_after_s` counts for the commands and for Python."""
    assert "no run matches" in call("ls", "--state", "lost", "--set", "lost_after_s=1e6").stdout
    assert "lost" not in call("show", "r1", environ={"VEDETTE_LOST_AFTER_S": "1000"}).stdout
    monkeypatch.setenv("VEDETTE_LOST_AFTER_S", "1000")

    assert app.get("r1").state == "running"
    assert {seen.id: seen.state for seen in app.runs()} == {"r1": "running", "r2": "lost"}


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("state = lost", {"gone"}),
        ("state != lost", {"here", "over"}),
        ("state = running", {"here"}),
        ("state in (lost, done)", {"gone", "over"}),
        ("not state = running", {"gone", "over"}),
        ("state ~ LOS", {"gone"}),
    ],
)
def test_lost_in_a_filter(camp, where, runs):
    """A filter sees the state that is shown: a lost run is not running."""
    camp.process("a", run="gone", heard_t=NOW - 100 * SECOND)
    camp.process("b", run="here", heard_t=NOW)
    camp.process("c", run="over", heard_t=NOW - 100 * SECOND)
    camp.ends("over")

    assert {view.id for view in select(camp.store, where, now=NOW)} == runs
    assert {line.id for line in overview(camp.store, where, ended=9, now=NOW).runs} == runs
