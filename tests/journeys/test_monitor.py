"""Monitors beside real programs: killed, forked, held up by C code, told to stop; and `vedette monitor`."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests import warm
from tests.journeys import tmux
from tests.journeys.conftest import eventually, read_runs


def lines(path):
    """Return the moments in a file; a line that is not whole fails."""
    try:
        with open(path) as file:
            text = file.read()
    except FileNotFoundError:
        return []
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def alive(pid):
    """Tell whether a process is there and not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


UNTIL = """
import time
def until(monitor, count):
    while monitor.summary()["samples"] < count: time.sleep(0.01)
"""

ENDLESS = """
import sys, time, vedette
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=0.05, where=sys.argv[2]).start()
print(m.worker if sys.argv[2] == "process" else 0, flush=True)
while True: time.sleep(0.01)
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_the_parent_is_killed(where, start, tmp_path):
    """After a kill -9 of the watched program all moments so far are in the file, and no process is left."""
    path = tmp_path / "usage.jsonl"
    program = start(ENDLESS, str(path), where)
    beside = int(program.stdout.readline())
    seen = eventually(lambda: len(lines(path)) >= 10 and len(lines(path)))
    assert alive(beside) == (where == "process")
    program.kill()
    program.wait()

    eventually(lambda: not alive(beside))
    assert len(lines(path)) >= seen
    assert sorted(os.listdir(tmp_path)) == ["script0.py", "usage.jsonl"]


HELD = """
import ctypes, os, sys, time, vedette
from vedette.monitor import Monitor
sys.executable = sys.argv[2] or sys.executable
m = Monitor(sys.argv[1], interval_s=0.05, where="process").start()
libc = ctypes.CDLL(None)
other = libc.fork()  # one that Python knows nothing of, and that holds our end of the socket
if other == 0:
    libc.sleep(60)
    os._exit(0)
print(m.worker, other, flush=True)
while True: time.sleep(0.01)
"""
NO_LIFELINE = """#!/bin/sh
shift 3
exec {python} -P -c '
import runpy, sys
from vedette.monitor.liveness import Liveness
Liveness.gone = lambda self: False
sys.argv = ["monitor", *sys.argv[1:]]
runpy.run_module("vedette.monitor", run_name="__main__", alter_sys=False)
' "$@"
"""


@pytest.mark.parametrize("lifeline", [True, False])
def test_the_lifeline(lifeline, start, tmp_path):
    """A child that holds the socket keeps no monitor alive; the positive control: without a pidfd it would."""
    broken = tmp_path / "python"
    broken.write_text(NO_LIFELINE.format(python=sys.executable))
    broken.chmod(0o755)
    program = start(HELD, str(tmp_path / "usage.jsonl"), "" if lifeline else str(broken))
    beside, other = map(int, program.stdout.readline().split())
    try:
        eventually(lambda: len(lines(tmp_path / "usage.jsonl")) >= 3)
        program.kill()
        if lifeline:
            eventually(lambda: not alive(beside))
        else:
            time.sleep(2)
            assert alive(beside)
    finally:
        os.kill(other, signal.SIGKILL)
        if not lifeline and alive(beside):
            os.kill(beside, signal.SIGKILL)


METHODS = (
    UNTIL
    + """
import multiprocessing, os, sys
import vedette
from vedette.monitor import Monitor

def work(path, where):
    with vedette.monitored(path, interval_s=0.05, where=where) as m:
        until(m, 3)
    return os.getpid(), m.summary()["samples"], m.summary()["processes"]["max"]

if __name__ == "__main__":
    folder = sys.argv[1]
    for where in ("thread", "process"):
        own = Monitor(f"{folder}/own-{where}.jsonl", interval_s=0.05, where=where).start()
        for method in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                pid, count, processes = pool.apply(work, (f"{folder}/{method}-{where}.jsonl", where))
                assert pid != os.getpid() and count >= 3 and processes == 1, (method, where, count, processes)
                while own.summary()["processes"]["max"] < 2: time.sleep(0.01)
        assert own.running
        own.stop()
        assert own.trouble == {}, own.trouble
    print("done")
"""
)


def test_every_way_to_start_a_worker(finish, tmp_path):
    """In a worker by fork, spawn or forkserver both forms work, beside the parent's own; nobody counts the monitor."""
    code, out, err = finish(METHODS, str(tmp_path))

    assert (code, out, err) == (0, "done\n", "")


NO_GUARD = (
    UNTIL
    + """
import multiprocessing
multiprocessing.set_start_method("spawn")
from vedette.monitor import Monitor
m = Monitor(where="process", interval_s=0.05)
m.start()
until(m, 3)
m.stop()
print(m.trouble)
"""
)


def test_without_a_main_guard(finish):
    """The process form is no multiprocessing: a script needs no `if __name__`."""
    assert finish(NO_GUARD) == (0, "{}\n", "")


FORKED = (
    UNTIL
    + """
import os, sys
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=0.05, where=sys.argv[2]).start()
until(m, 2)
pid = os.fork()
if pid == 0:
    fine = not m.running and len(m.stats()["t"]) >= 2 and m.summary()["samples"] >= 2
    m.stop()
    m.stop()
    os._exit(0 if fine and m.trouble == {} else 1)
print(os.waitpid(pid, 0)[1], m.running)
until(m, 4)
m.stop()
print(m.trouble, len(open(sys.argv[1]).readlines()) == m.summary()["samples"])
"""
)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_fork_child_has_a_copy_that_does_not_run(where, finish, tmp_path):
    """In a fork child the monitor is not running, tells what it knew, and leaves the parent's alone."""
    code, out, err = finish(FORKED, str(tmp_path / "usage.jsonl"), where)

    assert (code, err) == (0, "")
    assert out.splitlines() == ["0 True", "{} True"]


GIL = """
import ctypes, sys, time
from vedette.monitor import Monitor
m = Monitor(interval_s=0.1, where=sys.argv[1]).start()
ctypes.PyDLL(None).usleep(3_000_000)  # it holds the GIL all the time
m.stop()
print(m.summary()["samples"], int(m.summary()["seconds"] / 0.1))
"""


def test_a_job_that_holds_the_gil(finish):
    """Of the moments due during a C call that holds the GIL the process form sees most; a thread sees few."""
    seen, due = map(int, finish(GIL, "process")[1].split())
    assert seen > 0.5 * due
    seen, due = map(int, finish(GIL, "thread")[1].split())
    assert seen < 0.5 * due


STOP = """
import sys, time
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=3600, where=sys.argv[2])
assert m.stats() == {"t": []} and not m.running and m.summary()["samples"] == 0
m.stop()
for n in (1, 2):
    assert m.start() is m and m.start().running
    time.sleep(0.1)
    assert m.summary()["samples"] == n - 1
    m.stop()
    m.stop()
    assert not m.running and m.summary()["samples"] == n and len(m.stats()["t"]) == n, m.summary()
print(len(open(sys.argv[1]).readlines()), m.trouble)
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_stop_wakes_it_at_once(where, finish, tmp_path):
    """A stop in the middle of an hour's interval takes a last look, at once; then it can be started again."""
    assert finish(STOP, str(tmp_path / "usage.jsonl"), where)[:2] == (0, "2 {}\n")


MEAN = """
import sys, time
from vedette.monitor import Monitor
m = Monitor(interval_s=1.0, where=sys.argv[1])
outer = time.process_time()
m.start()
inner = time.process_time()
while time.process_time() < inner + 0.4: pass
time.sleep(0.9)
inner = time.process_time() - inner
m.stop()
outer = time.process_time() - outer
found = m.summary()
print(inner, found["cpu_s"]["total"], outer, found["cpu_percent"]["mean"] * found["seconds"] / 100)
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_the_mean_is_the_kernel_s(where, finish):
    """A job that ends within an interval has the CPU time, and the mean over time, of the kernel's own account."""
    least, total, most, by_mean = map(float, finish(MEAN, where)[1].split())

    assert least - 0.02 <= total <= most + 0.02  # a clock tick or two
    assert by_mean == pytest.approx(total, abs=0.02)


KILLED = (
    UNTIL
    + """
import os, signal, sys
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=0.05, where="process").start()
until(m, 3)
os.kill(m.worker, signal.SIGINT)
until(m, 6)
os.kill(m.worker, int(sys.argv[2]))
while not m.trouble: time.sleep(0.01)
known = m.stats()
assert len(known["t"]) >= 6 and m.stats() == known
m.stop()
print(m.trouble)
"""
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_monitor_is_killed(number, finish, tmp_path):
    """If the process beside dies, the program goes on, what was known is still known, and `trouble` says so."""
    code, out, err = finish(KILLED, str(tmp_path / "usage.jsonl"), str(int(number)))

    sentence = "the monitor's process has ended unexpectedly: its last moments are missing here"
    assert code == 0, err
    assert out == f"{ {'monitor': sentence} }\n"
    assert err == f"vedette: {sentence}\n"
    assert len(lines(tmp_path / "usage.jsonl")) >= 6


FULL = (
    UNTIL
    + """
import sys
from vedette.monitor import Monitor
m = Monitor([sys.argv[1], sys.argv[2]], interval_s=0.05, where=sys.argv[3]).start()
until(m, 4)
m.stop()
[text] = m.trouble.values()
print(text)
"""
)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_full_disk(where, finish, tmp_path):
    """A sink on a full disk is counted and said once; the other has everything, and the program goes on."""
    code, out, err = finish(FULL, "jsonl:/dev/full", str(tmp_path / "usage.jsonl"), where)

    assert code == 0
    assert out.startswith("jsonl:/dev/full lacks ")
    assert "No space left on device" in out
    assert err.count("jsonl:/dev/full") == 1
    assert len(lines(tmp_path / "usage.jsonl")) >= 4


OTHER = (
    UNTIL
    + """
import subprocess, sys
from vedette.monitor import Monitor
other = subprocess.Popen(["sleep", "60"])
m = Monitor(pid=other.pid, interval_s=0.1, where=sys.argv[1]).start()
until(m, 3)
other.kill()
while m.running and m.ended == "": time.sleep(0.01)
assert not m.running
print(m.ended == f"process {other.pid} has ended", m.trouble)
other.wait()
m.stop()
"""
)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_the_watched_process_ends(where, finish):
    """A monitor of another process takes note of its end, and survives it."""
    assert finish(OTHER, where) == (0, "True {}\n", "")


DROPPED = """
import gc, sys, time
from vedette.monitor import Monitor
def begin():
    Monitor(sys.argv[1], interval_s=0.05, where=sys.argv[2]).start()
begin()
gc.collect()
while sum(1 for _ in open(sys.argv[1])) < 5: time.sleep(0.01)
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_monitor_that_nobody_holds(where, finish, tmp_path):
    """It goes on until the end of the program, and takes its last look there."""
    assert finish(DROPPED, str(tmp_path / "usage.jsonl"), where) == (0, "", "")
    assert len(lines(tmp_path / "usage.jsonl")) >= 5


INTERRUPTED = """
import signal, sys, time
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=0.02, where=sys.argv[2]).start()
asking, caught = False, 0
def interrupt(*_):
    global asking
    if asking:
        asking = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.0013)
while caught < 100:
    try:
        asking = True
        while True: m.stats(), m.summary()
    except KeyboardInterrupt:
        caught += 1
signal.setitimer(signal.ITIMER_REAL, 0)
m.stats()
m.stop()
print("done")
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_ctrl_c_while_it_is_asked(where, finish, tmp_path):
    """The user's own interrupt comes through, and nothing hangs or is taken for something else."""
    code, out, err = finish(INTERRUPTED, str(tmp_path / "usage.jsonl"), where)

    assert (code, out) == (0, "done\n"), err
    assert "Traceback" not in err
    assert lines(tmp_path / "usage.jsonl")


HANDLER = """
import signal, sys, time
from vedette.monitor import Monitor
m = Monitor(interval_s=0.02, where=sys.argv[1]).start()
asked = 0
def ask(*_):
    global asked
    asked += len(m.stats()["t"]) >= 0 and m.summary()["samples"] >= 0
signal.signal(signal.SIGALRM, ask)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.003)
while asked < 50: m.stats(), m.summary()
signal.signal(signal.SIGALRM, lambda *_: m.stop())
while m.running: m.stats(), m.summary()
signal.setitimer(signal.ITIMER_REAL, 0)
print(m.summary()["samples"] > 0)
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_signal_handler_may_ask_and_stop(where, finish):
    """Even in the middle of an answer to its own thread: nothing hangs, and nothing raises."""
    assert finish(HANDLER, where)[:2] == (0, "True\n")


AROUND = (
    UNTIL
    + """
import asyncio
import vedette

@vedette.monitored(interval_s=0.05)
def plain(x):
    "adds"
    until(plain.monitor, 2)
    return x + 1

@vedette.monitored
def bare():
    return 5

@vedette.monitored(interval_s=0.05)
def generate(n):
    got = []
    for i in range(n):
        until(generate.monitor, i)
        got.append((yield i))
    return got

@vedette.monitored(interval_s=0.05)
async def later(x):
    while later.monitor.summary()["samples"] < 2: await asyncio.sleep(0.01)
    return x * 2

@vedette.monitored(interval_s=0.05)
async def stream(n):
    for i in range(n):
        while stream.monitor.summary()["samples"] < i: await asyncio.sleep(0.01)
        yield i

async def drain():
    return [i async for i in stream(3)]

@vedette.monitored(interval_s=0.05)
def fails():
    raise KeyError("mine")

assert (plain(1), plain.__name__, plain.__doc__, bare()) == (2, "plain", "adds", 5)
assert list(generate(3)) == [0, 1, 2]
assert asyncio.run(later(4)) == 8
assert asyncio.run(drain()) == [0, 1, 2]
try: fails()
except KeyError: pass
for function in (plain, generate, later, stream):
    assert function.monitor.summary()["samples"] >= 2, function
    assert not function.monitor.running
assert not fails.monitor.running
unused = generate(3)
half = generate(3); next(half); assert generate.monitor.running; half.close(); assert not generate.monitor.running
"""
)


def test_the_decorator(finish):
    """It goes around functions, generators and async ones, from their beginning to their end, and changes nothing."""
    assert finish(AROUND) == (0, "", "")


ELSEWHERE = """
import builtins, os, sys, time
import psutil, random, select, signal, socket, tempfile, threading
sysconf = os.sysconf  # which psutil needs when it is used, here
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in {os: ("uname", "sysconf", "pidfd_open", "register_at_fork", "fork", "getuid"),
                      select: ("poll", "epoll"), signal: ("pthread_sigmask", "set_wakeup_fd")}.items():
    for name in names:
        delattr(module, name)
def without_proc(call):
    def checked(path, *args, **kwargs):
        ours = sys._getframe(1).f_globals.get("__name__", "").startswith("vedette")
        if ours and isinstance(path, (str, bytes)) and os.fsdecode(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *args, **kwargs)
    return checked
builtins.open, os.open, os.listdir = without_proc(builtins.open), without_proc(os.open), without_proc(os.listdir)
os.stat, os.readlink, os.scandir = without_proc(os.stat), without_proc(os.readlink), without_proc(os.scandir)
def not_there(call):
    return lambda path: not os.fsdecode(path).startswith(("/proc", "/sys")) and call(path)
os.path.isdir, os.path.isfile, os.path.exists = map(not_there, (os.path.isdir, os.path.isfile, os.path.exists))
import vedette
import importlib
from vedette.sources import SENSORS
vedette.monitored, importlib.import_module(SENSORS["process"])
os.sysconf = sysconf
with vedette.monitored(sys.argv[1], interval_s=0.05) as m:
    while m.summary()["samples"] < 4 or m.summary()["cpu_percent"]["mean"] <= 0: pass
assert m.trouble == {}, m.trouble
print(len(open(sys.argv[1]).readlines()))
"""


def test_where_there_is_no_linux(finish, tmp_path):
    """The thread form needs no fcntl, no /proc, no pidfd and no poll: all that Windows has not is simulated away."""
    code, out, err = finish(ELSEWHERE, str(tmp_path / "usage.jsonl"))

    assert (code, err) == (0, "")
    assert int(out) >= 4


def monitor(*args, **more):
    """Run `vedette monitor` to its end."""
    argv = [sys.executable, "-m", "vedette", "monitor", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 255", 255)],
)
def test_the_exit_code_is_the_command_s(command, code, home):
    """As a shell would have it: its own, or 128 and the signal; what it prints is left alone."""
    done = monitor("--interval", "0.1", "--", "sh", "-c", f"echo out; echo err >&2; sleep 0.3; {command}")

    assert (done.returncode, done.stdout) == (code, "out\n")
    assert done.stderr.startswith("err\n") or "\nerr\n" in done.stderr
    assert "by the kernel: CPU time" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--", "nonsense-xyzzy"], 127, "vedette: there is no command 'nonsense-xyzzy'"),
        (["--", "/"], 126, "vedette: / cannot be started: Permission denied"),
        (["--pid", "4194304"], 2, "vedette: there is no process 4194304"),
        ([], 2, "vedette: what shall be watched?"),
        (["--pid", "1", "--", "true"], 2, "vedette: what shall be watched?"),
        (["--pid", "1", "--interval", "0"], 2, "vedette: an interval is from"),
        (["--pid", "1", "--for", "-1"], 2, "vedette: --for takes seconds"),
        (["--pid", "1", "--sensors", "proces"], 2, "vedette: there is no sensor 'proces'; did you mean process?"),
        (["--to", "/no/such/place.jsonl", "--", "touch", "begun"], 2, "vedette: /no/such/place.jsonl cannot be"),
    ],
)
def test_mistakes(args, code, said, home, tmp_path):
    """Each is one sentence, and no command is started."""
    done = monitor(*args, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_process_that_dies(home):
    """Rows while it lives; then a summary, a word on its end, and 0."""
    other = subprocess.Popen(["sleep", "60"])
    watching = subprocess.Popen(
        [sys.executable, "-m", "vedette", "monitor", "--pid", str(other.pid), "--interval", "0.1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    header, row = watching.stdout.readline(), watching.stdout.readline()
    other.kill()
    _, err = watching.communicate(timeout=60)
    other.wait()

    assert header.split()[:3] == ["time", "CPU", "memory"]
    assert len(header) == len(row)
    assert watching.returncode == 0
    assert f"sleep 60 ({other.pid}): " in err
    assert err.endswith(f"vedette: process {other.pid} has ended\n")


def test_json(home):
    """A moment is an object on a line, the summary is the last; beside a command all is on stderr."""
    watching = subprocess.Popen(
        [sys.executable, "-m", "vedette", "monitor", "--json", "--interval", "0.1", "--", "sh", "-c", "read _; echo x"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    found = [json.loads(watching.stderr.readline()) for _ in range(3)]
    out, err = watching.communicate("\n", timeout=60)

    assert out == "x\n"
    assert all({"t", "t_ns", "pid", "memory_bytes"} <= set(moment) for moment in found)
    summary = json.loads(err.splitlines()[-1])["summary"]
    assert summary["samples"] >= 3
    assert summary["kernel"]["cpu_s"] > 0


def test_into_sinks_for_a_time(home, tmp_path):
    """With --to there are no rows; --for ends it by itself, with 0."""
    done = monitor(
        "--pid", str(os.getpid()), "--for", "1", "--interval", "0.1",
        "--to", f"{tmp_path}/a.jsonl", "--to", f"jsonl:{tmp_path}/b.jsonl",
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "")
    assert len(lines(tmp_path / "a.jsonl")) == len(lines(tmp_path / "b.jsonl")) >= 1


def test_into_a_run_of_its_own(home, tmp_path):
    """A run that a monitor begins for a command is named after its script, and not after Python or the monitor."""
    (tmp_path / "train.py").write_text("")
    done = warm.run(["monitor", "--to", "hub", "--", sys.executable, "-u", f"{tmp_path}/train.py"], env={**os.environ})

    assert done.returncode == 0, done.stderr
    [run] = read_runs(home)
    assert (run.name, run.attrs["script"]) == (f"train.py-{run.config['pid']}", "train.py")


def test_it_does_not_count_itself(home):
    """Watching one's own shell, the monitor is no part of it."""
    script = f"{sys.executable} -m vedette monitor --pid $$ --json --interval 0.1 --for 0.25; true"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert json.loads(done.stdout.splitlines()[-1])["summary"]["processes"]["max"] == 1


def test_signals_are_passed_on(home):
    """A SIGTERM to `vedette monitor` is one to its command, which may do with it what it likes."""
    script = "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    watching = subprocess.Popen(
        [sys.executable, "-m", "vedette", "monitor", "--", "sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stdout.readline() == "ready\n"
    watching.terminate()
    out, err = watching.communicate(timeout=60)

    assert (watching.returncode, out) == (7, "caught\n")
    assert "CPU" in err


@pytest.mark.skipif(bool(tmux.why_not()), reason=tmux.why_not() or "tmux")
@pytest.mark.parametrize("columns", [40, 100])
def test_ctrl_c_in_a_terminal(columns, home, tmp_path):
    """Ctrl-C ends the watching of a process with a summary and 130; a command has it from the terminal, once."""
    other = subprocess.Popen(["sleep", "60"])
    try:
        with tmux.terminal(columns, 20, VEDETTE_HOME=home.asked) as window:
            window.type(f"{sys.executable} -m vedette monitor --pid {other.pid} --interval 0.2; echo code $?", "Enter")
            window.wait_for("MB")
            window.type("C-c")
            screen = window.wait_for("code 130")
            assert any("mean" in line for line in screen)
            assert all(len(line) <= columns for line in screen)
            script = tmp_path / "script.sh"
            script.write_text("trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done")
            window.type(f"{sys.executable} -m vedette monitor -- sh {script}; echo code $?", "Enter")
            window.wait_for("ready")
            window.type("C-c")
            window.wait_for("code 7")
            screen = window.screen(history=True)
            assert screen.count("caught") + screen.count("^Ccaught") == 1
    finally:
        other.kill()
        other.wait()
