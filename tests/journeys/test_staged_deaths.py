"""Deaths of all kinds, staged at once in one home: of each, the state and the sentence that is then shown.

Each row is a program that has `init` alone, or a plain command below `vedette run`. They die together, once for all
tests of this file.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from tests.conftest import PROGRAMS, begin_hub, end_hub
from tests.journeys.conftest import read_runs
from tests.journeys.small_memory import enter, memory_cgroup
from tests.rooms.conftest import QUICK, call
from vedette.home import Home

TEXT = "exit code 1: no such dataset"
POOL = """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
def die(): os.kill(os.getpid(), 9)
if __name__ == "__main__":
"""
BROKEN = (
    POOL
    + """
    {init}
    with ProcessPoolExecutor(2, multiprocessing.get_context("{way}")) as pool:
        pool.submit(die).result()
"""
)
WORKERS = """
import multiprocessing
def work(n): vedette.log({"n": n}); return n
if __name__ == "__main__":
    run = init()
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.map(work, range(4))
    pool._worker_handler._state = "TERMINATE"  # as the pool ends its workers, unless they leave before
    for one in pool._pool: one.terminate()
    for one in pool._pool: one.join()
    %s
"""
SLOW_TO_LEAVE = """
import atexit, multiprocessing
def work(n):
    atexit.register(time.sleep, 60)
    vedette.log({"n": n})
if __name__ == "__main__":
    run = init()
    with multiprocessing.get_context("%s").Pool(2) as pool:
        pool.map(work, range(4))
        pool.close()
        time.sleep(1)  # a worker has left, and Python shuts down in it
        raise ValueError("x")
"""
SERVICE = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
while True: time.sleep(60)
"""
NOT_MEMORY = "kill -9 or a scheduler; the memory limit was not reached"
KILLED = rf"worker \d+ of the process pool was killed by SIGKILL: {NOT_MEMORY}; BrokenProcessPool followed"
UNSEEN = "killed by SIGTERM: who sent it was not seen; `vedette run` sees it"
CPU = "from resource import *; setrlimit(RLIMIT_CORE, (0, 0)); setrlimit(RLIMIT_CPU, (1, 1))\nwhile True: pass"
OPEN_MPI = """
echo 'MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD' >&2
echo '  Proc: [[1,1],1]' >&2; echo '  Errorcode: 3' >&2; echo 'with errorcode 3.' >&2; exit 3"""
MPI_KILLED = """
echo 'mpirun noticed that process rank 2 with PID 77 on node n1 exited on' >&2
echo 'signal 9 (Killed).' >&2; exit 137"""
ABORTED = """
echo "terminate called after throwing an instance of 'std::runtime_error'" >&2; echo '  what():  no tensor' >&2
kill -ABRT $$"""

# the code, the state, and the sentence; `init()` begins the run
INIT = {
    "sys.exit with a text": ("init(); sys.exit('no such dataset')", "failed", TEXT),
    "SystemExit with a text": ("init()\nraise SystemExit('no such dataset')", "failed", TEXT),
    "sys.exit with a text in a with block": ("with init(): sys.exit('no such dataset')", "failed", TEXT),
    "a text that is caught": ("init()\ntry: sys.exit('x')\nexcept SystemExit: pass", "done", ""),
    "what was printed before an exit": ("init(); print('x', file=sys.stderr); sys.exit(1)", "failed", "exit code 1"),
    "a thread": (
        "init(); t = threading.Thread(target=lambda: 1 / 0, name='load'); t.start(); t.join()",
        "done", "thread load died: ZeroDivisionError: division by zero",
    ),
    "a thread, and finish": (
        "run = init(); t = threading.Thread(target=lambda: 1 / 0, name='load'); t.start(); t.join(); run.finish()",
        "done", "thread load died: ZeroDivisionError: division by zero",
    ),
    "a task": (
        ("import asyncio\ninit()\nasync def bad(): 1 / 0\nasync def main():\n    asyncio.create_task(bad())\n"
        "    await asyncio.sleep(0.05)\nasyncio.run(main())"),
        "done", "an asyncio task died: ZeroDivisionError: division by zero",
    ),
    "a worker of a pool, forked": (BROKEN.format(init="init()", way="fork"), "failed", KILLED),
    "a worker of a pool, spawned": (BROKEN.format(init="init()", way="spawn"), "failed", KILLED),
    "an exception beside a spawned pool": (SLOW_TO_LEAVE % "spawn", "failed", "ValueError: x"),
    "an exception beside a pool of a forkserver": (SLOW_TO_LEAVE % "forkserver", "failed", "ValueError: x"),
    "a pool that is not needed any more": (WORKERS % "os._exit(0)", "done", ""),
    "an exception beside a pool": (
        WORKERS % "try: 1 / 0\n    except Exception: sys.excepthook(*sys.exc_info()); os._exit(1)",
        "failed", "ZeroDivisionError: division by zero",
    ),
    "SIGTERM": ("init(); os.kill(os.getpid(), 15)", "cancelled", UNSEEN),
    "SIGKILL": ("init(); os.kill(os.getpid(), 9)", "failed", f"killed by SIGKILL: {NOT_MEMORY}"),
    "a handler that ends the program": (
        "init(); signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.kill(os.getpid(), 15); time.sleep(9)",
        "cancelled", r"told to stop by SIGTERM \(who sent it was not seen\), and exited with code 0",
    ),
    "a service that is told to stop": (
        "init()" + SERVICE, "cancelled", r"told to stop by \w+, and exited with code 0",
    ),
}  # fmt: skip
RUN = {
    "run: sys.exit with a text": (
        ["python", "-c", "import sys; sys.exit('no such dataset')"],
        "failed", "exit code 1; its last line on stderr: no such dataset",
    ),
    "run: timeout": (["timeout", "0.2", "sleep", "9"], "failed", "time limit of `timeout 0.2`"),
    "run: timeout by SIGKILL": (
        ["timeout", "-s", "KILL", "0.2s", "sleep", "9"],
        "failed", "time limit of `timeout 0.2s`, killed by SIGKILL",
    ),
    "run: timeout below": (
        ["sh", "-c", "timeout 0.2 sleep 9"], "failed", "exit code 124: probably the time limit of `timeout` was over",
    ),
    "run: C++": (["sh", "-c", ABORTED], "failed", "killed by SIGABRT: std::runtime_error: no tensor"),
    "run: MPI": (["sh", "-c", OPEN_MPI], "failed", r"exit code 3: rank 1 aborted with code 3 \(MPI_Abort\)"),
    "run: MPI, killed": (["sh", "-c", MPI_KILLED], "failed", "exit code 137: rank 2 was killed by SIGKILL"),
    "run: a worker of a pool": (
        ["python", "-c", "import os" + BROKEN.format(init="pass", way="fork")],
        "failed", "a worker of the process pool was killed; BrokenProcessPool followed",
    ),
    "run: the CPU limit": (
        ["python", "-c", CPU], "failed", r"killed by SIGKILL: its limit of CPU time \(ulimit -t 1\) was reached",
    ),
    "run: a service that is told to stop": (
        ["python", "-c", "import signal, sys, time" + SERVICE],
        "cancelled", r"told to stop by SIGTERM, sent by .*\(process \d+ of \w+\), and exited with code 0",
    ),
}  # fmt: skip
HEAD = "import os, signal, sys, threading, time, vedette\ndef init(): return vedette.init(name=sys.argv[1])\n"


def start(home, folder, name, what, before=()):
    environ = {**os.environ, **QUICK, **dict.fromkeys(PROGRAMS, "false"), "VEDETTE_HOME": home.asked}
    if isinstance(what, str):
        path = os.path.join(folder, f"{len(os.listdir(folder))}.py")
        with open(path, "w") as file:
            file.write(HEAD + what)
        words = [sys.executable, path, name]
    else:
        words = [sys.executable if word == "python" else word for word in what]
        words = [sys.executable, "-m", "vedette", "run", "--quiet", "--name", name, "--", *words]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*before, *words], env=environ, **pipes)


@pytest.fixture(scope="module")
def home():
    """A home in which all have died."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root, tempfile.TemporaryDirectory() as folder:
        place = Home(root)
        begin_hub(place)
        started = {name: start(place, folder, name, row[0]) for name, row in (INIT | RUN).items()}
        told = "run: a service that is told to stop"
        for name in ("a service that is told to stop", told):
            started[name].stdout.readline()
        started[told].send_signal(signal.SIGTERM)
        call("stop", "a service that is told to stop", home=place.asked)
        for process in started.values():
            process.communicate(timeout=30)
        deadline = time.monotonic() + 60
        while not all(run.end_t for run in read_runs(place)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield place
        end_hub(place)


@pytest.mark.parametrize("name", [*INIT, *RUN])
def test_the_sentence_is_right(home, name):
    """However a program dies, the run says how, and why, in words that are true."""
    _, state, cause = (INIT | RUN)[name]
    [run] = [run for run in read_runs(home, fresh=False) if run.name == name]

    assert run.state == state
    assert re.fullmatch(cause, run.cause), run.cause


def test_the_workers_of_a_pool_raise_no_alarm(home):
    """Workers that a pool ends have ended well, without stacks; beside an exception, that alone is shown."""
    runs = {run.name: run for run in read_runs(home, fresh=False)}
    quiet = runs["a pool that is not needed any more"]
    assert {process.state for process in quiet.processes()} == {"done"}
    assert [event for event in quiet.logs() if event.kind == "stacks"] == []
    shown = json.loads(call("show", "an exception beside a pool", "--json", home=home.asked).stdout)
    assert [(died["kind"], died["text"].splitlines()[-1]) for died in shown["died"]] == [
        ("exception", "ZeroDivisionError: division by zero")
    ]


@pytest.mark.parametrize("name", ["an exception beside a spawned pool", "an exception beside a pool of a forkserver"])
def test_workers_that_leave_raise_no_alarm(home, name):
    """A worker that its pool ends while Python shuts down in it has ended well, however it was started."""
    [run] = [run for run in read_runs(home, fresh=False) if run.name == name]
    states = [process.state for process in run.processes()]
    assert (states.count("failed"), states.count("done")) == (1, len(states) - 1), run.processes()
    assert len(states) > 1


def test_ls_shows_what_died_beside_a_good_end(home):
    """A thread that died while the program went on is seen in the list of runs."""
    assert "thread load died" in call("ls", "--limit", "0", home=home.asked, environ={"COLUMNS": "300"}).stdout


def test_a_worker_that_is_killed_for_its_memory(home, tmp_path):
    """A worker of a pool that the kernel kills as the memory limit is hit is the cause, though it never spoke."""
    code = BROKEN.format(init="init()", way="fork").replace("os.kill(os.getpid(), 9)", "bytearray(b'x') * (400 << 20)")
    with memory_cgroup(256 << 20) as group:
        start(home, str(tmp_path), "hungry", code, enter(group)).communicate(timeout=60)
    [run] = [run for run in read_runs(home) if run.name == "hungry"]
    limit = r"the memory limit of its cgroup \(268 MB\) was hit"
    expected = rf"worker \d+ of the process pool was killed by SIGKILL: {limit}; BrokenProcessPool followed"
    assert re.fullmatch(expected, run.cause), run.cause
