"""Real processes, measured from outside by a real hub."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.rooms.conftest import call
from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.model import LANE_SAMPLES
from vedette.query import usage
from vedette.segment import list_segments
from vedette.store import Compare, SpanQuery
from vedette.store.sqlite_file import open_reader

pytestmark = pytest.mark.usefixtures("measured")
QUICK = {"VEDETTE_USAGE_INTERVAL_S": "0.1"}
TREE = """
import os, subprocess, sys, time
import vedette
run = vedette.init(name=sys.argv[1])
run.mark("begun")
grand = "import subprocess; subprocess.Popen(['sleep', '60']).wait()"
children = [subprocess.Popen(["sleep", "60"]), subprocess.Popen([sys.executable, "-c", grand])]
if os.fork() == 0:
    run.log({"x": 1.0})  # this one speaks
    time.sleep(60)
    os._exit(0)
if os.fork() == 0:
    time.sleep(60)  # this one does not
    os._exit(0)
print("ready", flush=True)
sys.stdin.readline()
"""


def view_of(home, name, *, fresh=True):
    """Return a run by its name, once it is there."""
    return eventually(lambda: next((run for run in read_runs(home, fresh=fresh) if run.name == name), None))


def latest(home):
    """Return what the living processes of all runs use right now, from store and hub; nothing is sealed for it."""
    fresh = HomeAccess(home).newest()  # first: what is sealed meanwhile is then in the store
    with contextlib.closing(open_reader(home.store)) as store:
        rows = store.spans(SpanQuery(kind="run", where=Compare("state", "=", "running"), only=()))
        return usage.latest(store, [row.id for row in rows], fresh)


def measured(home, name, count):
    """Return what was measured of a run, once that is of so many processes, with rates."""

    def look():
        uses = view_of(home, name).usage()
        whole = [one for one in uses if len(one.series.get("cpu_percent", ((), ()))[0]) > 1]
        return uses if len(whole) >= count else None

    return eventually(look, 20)


def meters(home):
    """Return the pids of the meters of a home."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"vedette.hub.processes.meter" in words and home.asked.encode() in words:
            found.append(int(pid))
    return found


def test_every_process_of_a_tree_is_measured(home, start):
    """Forked or started, Python or C, child or grandchild, speaking or silent: each once, and its end is known."""
    job = start(TREE, "tree", environ=QUICK, stdin=subprocess.PIPE)
    job.stdout.readline()
    uses = measured(home, "tree", 6)
    assert sorted(one.name for one in uses)[-2:] == ["sleep", "sleep"]
    assert len({one.pid for one in uses}) == len(uses) == 6
    parents = {one.pid: one.parent_pid for one in uses}
    assert sum(parent == job.pid for parent in parents.values()) == 4
    assert sum(parent in parents and parent != job.pid for parent in parents.values()) == 1
    assert all(one.series["memory_bytes"][1].max() > 10_000 for one in uses)
    view = view_of(home, "tree")
    assert len(view.processes()) == 2
    assert [row.name for row in view.series()] == ["x"]

    for one in uses:
        if one.pid != job.pid:
            os.kill(one.pid, signal.SIGKILL)
    eventually(lambda: all(one.end_t for one in view_of(home, "tree").usage() if one.pid != job.pid))
    job.communicate("\n")
    assert all(one.end_t for one in view_of(home, "tree").usage())


def test_what_is_used_now_is_known_without_sealing(home, start):
    """A busy loop shows up live as a core in use, from points that wait in the hub."""
    code = "import vedette\nvedette.init(name='busy')\nprint('ready', flush=True)\nwhile True: pass"
    job = start(code, environ=QUICK)
    job.stdout.readline()

    def look():
        return [values for values in latest(home).values() if values.get("cpu_percent", 0) > 20]

    [values] = eventually(look, 20)
    assert values["memory_bytes"] > 1 << 20
    assert HomeAccess(home).newest("no such run") == []
    job.kill()
    job.wait()
    eventually(lambda: latest(home) == {})


def test_who_wishes_no_usage_is_not_measured(home, start, finish):
    """With usage off there is no meter, no sample, and no span of the hub's."""
    code = "import time, subprocess, vedette\nvedette.init(name='off', usage=False)\nsubprocess.run(['sleep', '1'])"
    finish(code)
    view = view_of(home, "off")
    assert view.usage() == []
    assert view.processes()[0].attrs["usage_s"] == 0
    assert meters(home) == []
    store = open_reader(home.store)
    assert store.series() == []
    assert [row[0] for row in store.connection.execute("SELECT id FROM spans WHERE id LIKE '%/pid-%'")] == []


def test_a_hub_that_dies_is_taken_over_from(home, start):
    """Killed with -9 and started anew it measures on; nothing that was measured is lost, and what ended has ended."""
    job = start(TREE, "tree", environ=QUICK, stdin=subprocess.PIPE)
    job.stdout.readline()
    before = measured(home, "tree", 6)
    counts = {one.process: len(one.series["memory_bytes"][0]) for one in before}
    gone = next(one for one in before if one.name == "sleep" and one.parent_pid == job.pid)
    eventually(lambda: meters(home))
    end_hub(home)
    eventually(lambda: not meters(home))
    os.kill(gone.pid, signal.SIGKILL)

    def grown():
        after = {one.process: one for one in view_of(home, "tree").usage()}
        alive = [name for name in counts if name != gone.process]
        return all(len(after[name].series["memory_bytes"][0]) > counts[name] + 2 for name in alive) and after

    after = eventually(grown, 20)
    assert len(after) == 6
    assert len(after[gone.process].series["memory_bytes"][0]) >= counts[gone.process]
    eventually(lambda: next(o for o in view_of(home, "tree").usage() if o.process == gone.process).end_t)
    for one in before:
        if one.pid not in (job.pid, gone.pid):
            os.kill(one.pid, signal.SIGKILL)
    job.communicate("\n")


def test_a_meter_that_dies_is_started_again(home, start):
    """Whatever kills it, `doctor` says so, the hub starts another, and the hub itself goes on."""
    code = "import time, vedette\nvedette.init(name='job')\nprint('ready', flush=True)\ntime.sleep(60)"
    job = start(code, environ=QUICK)
    job.stdout.readline()
    [first] = eventually(lambda: meters(home))
    hub = home.hub_pid()
    measured(home, "job", 1)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: "the meter was killed by signal 9" in call("doctor", home=home.asked).stdout)
    [second] = eventually(lambda: [pid for pid in meters(home) if pid != first], 20)
    count = len(view_of(home, "job").usage()[0].series["memory_bytes"][0])
    eventually(lambda: len(view_of(home, "job").usage()[0].series["memory_bytes"][0]) > count + 2)
    assert home.hub_pid() == hub
    assert second != first


def test_two_runs_at_once_and_one_within_the_other(home, start):
    """Each process is counted for one run alone: of a run within a run, for the inner one."""
    inner = "import time, vedette; vedette.init(name='inner', resume=False); time.sleep(60)"
    code = f"""
    import subprocess, sys, time, vedette
    vedette.init(name=sys.argv[1])
    children = [subprocess.Popen([sys.executable, "-c", {inner!r}])] if sys.argv[1] == "outer" else []
    children.append(subprocess.Popen(["sleep", "60"]))
    print(*[child.pid for child in children], flush=True)
    sys.stdin.readline()
    """
    jobs = [start(code, name, environ=QUICK, stdin=subprocess.PIPE) for name in ("outer", "other")]
    children = [[int(word) for word in job.stdout.readline().split()] for job in jobs]
    inner_pid = children[0][0]
    eventually(lambda: any(run.name == "inner" for run in read_runs(home)), 20)
    measured(home, "inner", 1)
    measured(home, "other", 2)
    pids = {name: {one.pid for one in view_of(home, name).usage()} for name in ("outer", "other", "inner")}
    assert pids["inner"] == {inner_pid}
    assert pids["other"] == {jobs[1].pid, children[1][0]}
    assert {jobs[0].pid, children[0][1]} <= pids["outer"]
    late = [one for one in view_of(home, "outer").usage() if one.pid == inner_pid]
    began = view_of(home, "inner").usage()[0].series["memory_bytes"][0][0]
    assert all(one.series["memory_bytes"][0][-1] <= began for one in late)  # until it spoke for itself
    for pid in (*children[0], *children[1]):
        os.kill(pid, signal.SIGKILL)
    for job in jobs:
        job.communicate("\n")


def test_when_nobody_is_left_meter_and_hub_leave(home, start):
    """The meter goes soon after the last one that it measured, all is sealed, and the hub leaves when it is idle."""
    code = "import vedette\nvedette.init(name='short')\nprint('ready', flush=True)\ninput()"
    job = start(code, stdin=subprocess.PIPE, environ=QUICK | {"VEDETTE_HUB_IDLE_S": "1", "VEDETTE_HUB_SEAL_S": "600"})
    job.stdout.readline()
    eventually(lambda: HomeAccess(home).newest())
    job.communicate("\n")
    eventually(lambda: home.hub_pid() is None, 20)
    assert meters(home) == []
    assert not any(list_segments(os.path.join(home.spool, name), LANE_SAMPLES) for name in os.listdir(home.spool))
    view = view_of(home, "short", fresh=False)
    assert view.usage()


def test_a_seal_of_one_run_brings_its_usage(home, start):
    """Who asks for one run has what was measured of it, too."""
    code = "import time, vedette\nrun = vedette.init(name='job')\nprint(run.id, flush=True)\ntime.sleep(60)"
    job = start(code, environ=QUICK)
    run = job.stdout.readline().strip()
    eventually(lambda: HomeAccess(home).newest(run + "/"))
    HomeAccess(home).seal(run)
    assert HomeAccess(home).newest(run + "/") == [] or open_reader(home.store).series() != []
    assert view_of(home, "job", fresh=False).usage()


def test_usage_of_a_far_host_is_kept_above(home, start, tmp_path):
    """A hub that relays ships what it measures; the hub that keeps has it, and knows it live."""
    above = Home(str(tmp_path / "above"))
    environ = {**os.environ, "VEDETTE_HOME": above.asked}
    hub = subprocess.Popen(
        [sys.executable, "-m", "vedette", "hub", "--address", "127.0.0.1:0"], env=environ, stdout=subprocess.PIPE
    )
    try:
        eventually(lambda: os.path.exists(above.connect), 20)
        with open(above.connect) as file:
            address = file.read().strip()
        code = "import time, vedette\nvedette.init(name='far')\nprint('ready', flush=True)\ntime.sleep(60)"
        job = start(code, environ=QUICK | {"VEDETTE_HUB": address})
        job.stdout.readline()
        eventually(lambda: any(v.get("memory_bytes") for v in latest(above).values()), 20)
        uses = measured(above, "far", 1)
        assert [one.pid for one in uses] == [job.pid]
    finally:
        hub.send_signal(signal.SIGINT)
        hub.wait(20)
        hub.stdout.close()
