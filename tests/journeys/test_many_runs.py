"""Any number of runs at once in one process: each has its own points, config and lines, and nobody else's."""

import json
import os
import signal
import subprocess
import sys

import pytest

import vedette
from tests.journeys.conftest import eventually, read_runs, spools
from tests.rooms.conftest import QUICK, call, python

WORK = """
import asyncio, concurrent.futures, contextvars, json, logging, multiprocessing, subprocess, sys, threading, time
import vedette

def work(i, run, pause=time.sleep):
    log = logging.getLogger("trial")
    for step in range(20):
        vedette.log({"x": i * 1000 + step})
        run.log({"y": i})
        pause(0.001)
    print(f"printed by t{i}")
    log.warning("logged by t%d", i)
    vedette.mark(f"mark of t{i}")
    vedette.config["late"] = i

def trial(i):
    with vedette.init(name=f"t{i}", config={"i": i}) as run:
        work(i, run)
    return run.id

async def async_trial(i):
    with vedette.init(name=f"t{i}", config={"i": i}) as run:
        log = logging.getLogger("trial")
        for step in range(20):
            vedette.log({"x": i * 1000 + step}); run.log({"y": i})
            await asyncio.sleep(0.001)
        print(f"printed by t{i}"); log.warning("logged by t%d", i); vedette.mark(f"mark of t{i}")
        vedette.config["late"] = i
    return run.id

async def async_trials(count):
    return await asyncio.gather(*(async_trial(i) for i in range(count)))
"""
FORMS = {
    "threads": """
with concurrent.futures.ThreadPoolExecutor(COUNT) as pool: print(json.dumps(list(pool.map(trial, range(COUNT)))))""",
    "asyncio": "print(json.dumps(asyncio.run(async_trials(COUNT))))",
    "fork": """
with multiprocessing.get_context("fork").Pool(2) as pool: print(json.dumps(pool.map(trial, range(COUNT), 1)))""",
}


@pytest.mark.parametrize("form", FORMS)
def test_runs_at_once_are_each_its_own(home, hub, form):
    """Runs that overlap in threads, asyncio tasks and pool workers have exactly their own points, config and lines."""
    count = 6
    done = python(WORK + FORMS[form].replace("COUNT", str(count)))
    ids = json.loads(done.stdout.splitlines()[-1])

    assert "vedette:" not in done.stderr
    assert len(set(ids)) == count
    for i, id_ in enumerate(ids):
        run = vedette.get(id_)
        assert (run.name, run.state, run.config) == (f"t{i}", "done", {"i": i, "late": i})
        assert run.history("x").value.tolist() == [i * 1000 + step for step in range(20)]
        assert run.history("y").value.tolist() == [i] * 20
        assert sorted(line.text for line in run.logs()) == [
            f"logged by t{i}", f"mark of t{i}", f"printed by t{i}",
        ]  # fmt: skip


def test_a_plain_init_ends_the_plain_run_before_it(home, hub):
    """A plain `init` ends what a plain `init` began in its context, says so once, and leaves all other runs alone."""
    code = """
import asyncio, threading, vedette
first = vedette.init(name="first")
def elsewhere():
    own = vedette.init(name="own")
    vedette.log({"x": 1})
    assert not first.finished
thread = threading.Thread(target=elsewhere); thread.start(); thread.join()
async def task():
    vedette.init(name="task")
    assert not first.finished
asyncio.run(task())
with vedette.init(name="outer") as outer:
    assert not first.finished
    with vedette.init(name="inner") as inner:
        vedette.log({"x": 2})
    vedette.log({"x": 3})
assert outer.finished and not first.finished
vedette.log({"x": 4})
second = vedette.init(name="second")
assert first.finished and not second.finished
third = vedette.init(name="third")
assert second.finished
vedette.log({"x": 5})
"""
    done = python(code)

    assert done.stderr.count("is finished, because init() begins another one") == 1
    found = {run.name: run.series() and run.history("x").value.tolist() for run in vedette.runs()}
    assert found == {"first": [4], "own": [1], "task": [], "outer": [3], "inner": [2], "second": [], "third": [5]}


def test_what_has_no_context_goes_where_it_is_told(home, hub):
    """Without a context a call goes to the only open run, else to the main thread's, else to the newest, said once."""
    code = """
import threading, vedette
def in_thread(act):
    thread = threading.Thread(target=act); thread.start(); thread.join()
def begin(name):
    in_thread(lambda: begun.append(vedette.init(name=name)))
begun = []
begin("a")
in_thread(lambda: vedette.log({"only": 1}))
begin("b")
in_thread(lambda: vedette.log({"newest": 1}))
main = vedette.init(name="main")
in_thread(lambda: print("without a context"))
begin("c")
in_thread(lambda: vedette.log({"main": 1}))
"""
    done = python(code)

    assert done.stderr.count("this is said once") == 1
    found = {run.name: [*(s.name for s in run.series()), *(line.text for line in run.logs())] for run in vedette.runs()}
    assert found == {"a": ["only"], "b": ["newest"], "main": ["main", "without a context"], "c": []}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_joins_the_run_of_the_context_that_started_it(home, hub, method):
    """Of two open runs, a child joins that of the thread that started it; a program joins only if one run is open."""
    code = f"""
import multiprocessing, os, subprocess, sys, threading, time, vedette
def child(name):
    vedette.log({{name: 1}})
def trial(name):
    with vedette.init(name=name):
        barrier.wait()
        assert not os.environ.get("VEDETTE_RUN")
        process = multiprocessing.get_context({method!r}).Process(target=child, args=("of " + name,))
        process.start(); process.join()
        barrier.wait()
if __name__ == "__main__":
    barrier = threading.Barrier(2)
    before = dict(os.environ)
    threads = [threading.Thread(target=trial, args=(name,)) for name in "ab"]
    [thread.start() for thread in threads]; [thread.join() for thread in threads]
    assert {{name: value for name, value in os.environ.items() if value}} == before
    with vedette.init(name="c") as run:
        assert os.environ["VEDETTE_RUN"] == run.id
        subprocess.run([sys.executable, "-c", "import vedette; vedette.log({{'of c': 1}})"])
"""
    script = os.path.join(os.path.dirname(home.root), "script.py")
    with open(script, "w") as file:
        file.write(code)
    environ = {**os.environ, **QUICK}
    done = subprocess.run([sys.executable, script], check=False, env=environ, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr

    assert {run.name: [s.name for s in run.series()] for run in vedette.runs()} == {x: [f"of {x}"] for x in "abc"}


@pytest.mark.parametrize("after_s", [0.001, 0.004])
def test_a_signal_handler_may_log_while_the_first_run_begins(home, hub, after_s):
    """A handler that logs in the middle of the first `vedette.log` does not wait for ever, and nothing is lost."""
    code = f"""
import faulthandler, signal, vedette, vedette.client.hooks
faulthandler.dump_traceback_later(20, exit=True)
log = vedette.log
signal.signal(signal.SIGALRM, lambda *_: log({{"signal": 1}}))
signal.setitimer(signal.ITIMER_REAL, {after_s})
log({{"x": 1}})
signal.pause() if not signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) else None
"""
    done = python(code)

    assert done.returncode == 0, done.stderr
    assert sorted(s.name for run in vedette.runs() for s in run.series()) == ["signal", "x"]


def test_a_child_that_is_forked_while_another_thread_begins_the_run(home, hub):
    """Its first call does not wait for a lock of a thread that it does not have."""
    code = """
import faulthandler, os, threading, vedette, vedette.client.hooks
from vedette.client import current
log, locked = vedette.log, threading.Event()
def hold():
    with current._one_begins:
        locked.set()
        done.wait()
done = threading.Event()
threading.Thread(target=hold).start()
locked.wait()
pid = os.fork()
if not pid:
    faulthandler.dump_traceback_later(10, exit=True)
    log({"child": 1})
    os._exit(0)
status = os.waitpid(pid, 0)[1]
done.set()
print(status)
"""
    assert python(code).stdout == "0\n"


def test_an_unknown_variable_loses_nothing(home, hub):
    """A variable that vedette does not know is a warning: the run goes where the other settings say, and is found."""
    environ = {"VEDETTE_FOO": "1", "VEDETTE_USAGE_INTERVAL_S": "9"}
    done = python("import vedette; print(vedette.init(name='here').id)", environ=environ)
    listed = call("ls", environ=environ)

    assert "VEDETTE_FOO, which vedette does not know" in done.stderr
    assert vedette.get(done.stdout.strip()).name == "here"
    assert (listed.returncode, "here" in listed.stdout) == (0, True)
    assert "VEDETTE_FOO, which vedette does not know" in listed.stderr


def test_an_exception_ends_the_runs_of_its_own_thread(home, hub):
    """An exception in the main thread fails its runs; a run of a thread that goes on ends as that thread ends it."""
    code = """
import threading, time, vedette
def trial():
    with vedette.init(name="thread"):
        begun.set()
        time.sleep(0.2)
        vedette.log({"after": 1})
begun = threading.Event()
threading.Thread(target=trial).start()
begun.wait()
vedette.init(name="main")
1 / 0
"""
    python(code)

    found = {run.name: (run.state, run.cause, len(run.series())) for run in vedette.runs()}
    assert found == {"main": ("failed", "ZeroDivisionError: division by zero", 0), "thread": ("done", "", 1)}


def test_the_hub_lets_go_of_runs_that_ended(home, hub):
    """Of runs that a living process has ended no spool stays; what it logs to one of them later is kept."""
    code = """
import os, sys, time, vedette
def spools():
    return len(os.listdir(os.path.join(os.environ["VEDETTE_HOME"], "spool")))
before = spools() if os.path.isdir(os.path.join(os.environ["VEDETTE_HOME"], "spool")) else 0
runs = []
for i in range(8):
    with vedette.init(name=f"t{i}") as run:
        run.log({"x": i})
        vedette.Progress.new(10, "bar").advance(3)
    runs.append(run)
deadline = time.monotonic() + 30
while spools() > before + 1 and time.monotonic() < deadline:
    time.sleep(0.05)
print(spools() <= before + 1)
runs[3].log({"x": -1})
"""
    done = python(code)

    assert done.stdout == "True\n", done.stderr
    runs = {run.name: run for run in vedette.runs()}
    assert {name: run.history("x").value.tolist() for name, run in runs.items()} == {
        f"t{i}": [i, -1] if i == 3 else [i] for i in range(8)
    }
    assert [(bar.done, bar.state) for run in runs.values() for bar in run.progress()] == [(3.0, "done")] * 8


def test_stacks_are_kept_for_each_run(home, hub):
    """When a process with several runs is told to end, each of them has its stacks, also after others have ended."""
    code = """
import os, signal, vedette
with vedette.init(name="a"), vedette.init(name="b"):
    with vedette.init(name="ended"):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
"""
    python(code)

    found = {run.name: (run.state, [e.kind for e in run.logs() if e.kind == "stacks"]) for run in vedette.runs()}
    assert found == {"a": ("cancelled", ["stacks"]), "b": ("cancelled", ["stacks"]), "ended": ("done", [])}


MANY = """
import sys, time, vedette
for i in range(int(sys.argv[1])):
    with vedette.init(name=f"t{i}", console=False) as run:
        run.log({"x": i})
print("done", flush=True)
sys.stdin.read()
"""


def test_a_hub_with_few_descriptors_keeps_many_runs(home):
    """More runs of one living process than the hub may open files, beside another program: all are kept, none waits."""
    words = f"ulimit -n 120; exec {sys.executable} -m vedette hub --quiet --home {home.root}"
    hub = subprocess.Popen(["sh", "-c", words], env={**os.environ, **QUICK})
    eventually(lambda: home.hub() is not None)
    os.kill(hub.pid, signal.SIGSTOP)  # so that all of them wait for it
    job = subprocess.Popen(
        [sys.executable, "-c", MANY, "250"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert job.stdout.readline() == "done\n"
    os.kill(hub.pid, signal.SIGCONT)
    assert python("import vedette\nvedette.init(name='other').log({'x': -1})").returncode == 0
    eventually(lambda: len(spools(home)) == 0)
    assert home.hub().pid == hub.pid
    assert len(os.listdir(f"/proc/{hub.pid}/fd")) < 100
    runs = {run.name: (run.state, run.history("x").value.tolist()) for run in read_runs(home)}
    job.communicate("")
    assert runs == {f"t{i}": ("done", [i]) for i in range(250)} | {"other": ("done", [-1])}
    hub.terminate()
    assert hub.wait(30) == 0
    assert not os.path.exists(home.log) or not os.path.getsize(home.log)
