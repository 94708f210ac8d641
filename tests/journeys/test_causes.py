"""The cause of death, in staged ends: of a plain program under `vedette run`, and of one that has `init` alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.journeys.small_memory import enter, memory_cgroup
from tests.rooms.conftest import QUICK, call, python, small_disk
from vedette.access.home_access import HomeAccess
from vedette.cli import main

PYTHON = sys.executable
INIT = "import vedette; vedette.init().log({'x': 1.0})\n"
READY = "import os, signal, sys, time\nprint(os.getpid(), flush=True)\n"
HOG = "time.sleep(1)\nheld = []\nwhile True: held.append(bytearray(b'x' * (1 << 20)))"
SEGFAULT = "import ctypes\ndef inner():\n    ctypes.string_at(0)\ninner()"
LIMIT = 256 << 20
both = pytest.mark.parametrize("launched", [True, False], ids=["run", "init"])


@pytest.fixture
def job(home, tmp_path):
    """Start a program, launched or with init alone; hand out its process and the pid of the program."""
    started = []

    def start(code, *options, launched, before=(), within=None):
        path = tmp_path / "job.py"
        path.write_text(READY + ("" if launched else INIT) + code)
        words = [PYTHON, str(path)]
        if launched:
            words = [PYTHON, "-m", "vedette", "run", *options, "--", *before, *words]
        if within:
            words = enter(within, *words)
        process = subprocess.Popen(
            words, env={**os.environ, **QUICK}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(home):
    return eventually(lambda: (r := read_runs(home)) and r[-1].end_t and r[-1], 20)


def last_line(process):
    return process.communicate(timeout=60)[1].splitlines()[-1:]


@both
def test_an_exception(home, hub, job, launched):
    """An exception is the cause by its last line, and its traceback is on record."""
    process, _ = job("def inner():\n    raise ValueError('bad')\ninner()", launched=launched)
    said = last_line(process)

    run = ended(home)
    assert (run.state, run.cause) == ("failed", "ValueError: bad")
    if launched:
        assert said == [f"vedette: {run.name} failed: ValueError: bad"]
    assert any("in inner" in event.text for event in run.logs())


@both
def test_exit_3(home, hub, job, launched):
    """An exit code is the cause."""
    process, _ = job("sys.exit(3)", launched=launched)
    process.communicate()

    run = ended(home)
    assert (process.returncode, run.state, run.cause) == (3, "failed", "exit code 3")


@both
def test_sigterm(home, hub, job, launched):
    """SIGTERM cancels; one that came through the launcher is known by its sender."""
    process, pid = job("time.sleep(60)", launched=launched)
    eventually(lambda: home.hub_pid() and read_runs(home))
    os.kill(process.pid, signal.SIGTERM)
    process.communicate()

    run = ended(home)
    assert run.state == "cancelled"
    assert run.cause.startswith("killed by SIGTERM")
    if launched:
        assert re.search(rf"sent by .*\(process {os.getpid()} of \w+\)$", run.cause)
        assert not os.path.exists(f"/proc/{pid}")


@both
def test_sigkill(home, hub, job, launched):
    """SIGKILL is named, with who could have sent it; that memory ran out is ruled out."""
    process, pid = job("time.sleep(60)", launched=launched)
    eventually(lambda: home.hub_pid() and read_runs(home))
    os.kill(pid, signal.SIGKILL)
    process.communicate()

    run = ended(home)
    assert (run.state, run.cause) == (
        "failed", "killed by SIGKILL: kill -9 or a scheduler; the memory limit was not reached",
    )  # fmt: skip


@pytest.mark.parametrize("below", [False, True], ids=["itself", "what it started"])
@both
def test_the_memory_limit(home, hub, job, launched, below):
    """A process that is killed as its cgroup hit its limit says so, with the limit."""
    if below and not launched:
        pytest.skip("there is no shell between")
    python("import vedette; vedette.init()")  # a hub, outside of the cgroup
    with memory_cgroup(LIMIT) as group:
        before = ["sh", "-c", '"$@"; exit $?', "sh"] if below else ()
        process, _ = job(HOG, launched=launched, before=before, within=group)
        said = last_line(process)
        run = ended(home)

    begin = "exit code 137: " if below else "killed by SIGKILL: "
    assert (run.state, run.cause) == ("failed", begin + "the memory limit of its cgroup (268 MB) was hit")
    if launched:
        assert said == [f"vedette: {run.name} failed: {run.cause}"]


@both
def test_sigsegv(home, hub, job, launched):
    """A crash in C names the signal and where Python was, and leaves the stacks of Python."""
    process, _ = job(SEGFAULT, launched=launched)
    process.communicate()

    run = ended(home)
    assert run.state == "failed"
    assert re.fullmatch(r"killed by SIGSEGV in (__init__|job)\.py:\d+ \(\w+\)", run.cause)
    [stacks] = [event.text for event in run.logs() if event.kind == "stacks"]
    assert "in inner" in stacks


def test_the_time_limit(home, hub, job):
    """A command that is not done in time is told to stop, and the limit is the cause."""
    process, _ = job("time.sleep(60)", "--time-limit", "1.5s", launched=True)
    said = last_line(process)

    run = ended(home)
    assert (run.state, run.cause) == ("failed", "time limit of 1.5s")
    assert said == [f"vedette: {run.name} failed: time limit of 1.5s"]
    assert process.returncode == 143


def test_the_time_limit_of_who_does_not_stop(home, hub, tmp_path):
    """Who ignores SIGTERM is killed after its grace, with all that it has started."""
    code = "trap '' TERM; (trap '' TERM; sleep 61) & (setsid sleep 61 &) ; echo $! ; sleep 61"
    done = call("run", "--time-limit", "1", "--grace", "0.5", "--", "sh", "-c", code)

    run = ended(home)
    assert run.cause == "time limit of 1s, and killed by SIGKILL as it did not stop"
    assert done.returncode == 137
    assert _belonging_to(run.id) == []


def _belonging_to(run_id):
    """Return the pids of a run's processes that still live."""
    from vedette.deaths.tree import of_try

    return list(of_try(run_id, "1"))  # a zombie has no environment


@both
def test_the_limit_of_cpu_time(home, hub, job, launched):
    """A limit of CPU time is called that."""
    limited = "from resource import *\nsetrlimit(RLIMIT_CPU, (1, 10))\nsetrlimit(RLIMIT_CORE, (0, 0))"
    process, _ = job(f"{limited}\nwhile True: pass", launched=launched)
    process.communicate()

    assert ended(home).cause == "killed by SIGXCPU: its limit of CPU time (ulimit -t) was reached"


@both
def test_the_hub_is_killed_with_it(home, job, launched):
    """Program and hub are killed at once: the launcher tells all the same, and of `init` alone that it died."""
    process, pid = job("time.sleep(60)", launched=launched)
    eventually(lambda: home.hub_pid() and read_runs(home))
    hub = home.hub_pid()
    os.kill(hub, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    process.communicate()
    end_hub(home)

    run = ended(home)
    expected = "killed by SIGKILL: " if launched else "it ended without a word, and nobody saw how"
    assert (run.state, run.cause[: len(expected)]) == ("failed" if launched else "ended", expected)


@both
def test_a_full_disk(home, hub, job, launched):
    """An exception for want of room on a disk is called that, with the file if it is named."""
    with small_disk("100k") as disk:
        code = f"raise OSError(28, 'No space left on device', '{disk}/model')"
        process, _ = job(code, launched=launched)
        process.communicate()

    cause = ended(home).cause
    assert cause == f"disk full ({disk}/model): OSError: [Errno 28] No space left on device: '{disk}/model'"


def test_a_full_disk_of_another_language(home, hub):
    """What a program prints last of a full disk is part of the cause."""
    with small_disk("100k") as disk:
        call("run", "--", "dd", "if=/dev/zero", f"of={disk}/model", "bs=1M", "count=1")
    assert re.match(r"exit code 1: disk full: .*No space left on device", ended(home).cause)


def test_a_full_disk_below_its_output(home, hub):
    """A command whose output goes to a disk that is full ends, and that is the cause."""
    with small_disk("100k") as disk, open(f"{disk}/out", "w") as out:
        done = call("run", "--quiet", "--", "yes", capture_output=False, stderr=subprocess.DEVNULL, stdout=out)
    assert done.returncode == 141
    assert ended(home).cause == "disk full: its output could not be written any more"


def test_a_traceback_that_was_survived_is_no_cause(home, hub):
    """A traceback that is printed on the way, long before the end, is not the cause."""
    code = (
        "import sys, traceback\ntry: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()\n"
        "for n in range(30): print('line', n, file=sys.stderr)\nsys.exit(4)"
    )
    call("run", "--", PYTHON, "-c", code)
    assert ended(home).cause == "exit code 4"


def test_slurm(home, hub):
    """A SIGTERM at the end of a Slurm job's time is that job's limit."""
    environ = {"SLURM_JOB_ID": "4711", "SLURM_JOB_END_TIME": str(int(time.time()))}
    call("run", "--", "sh", "-c", "kill -TERM $$", environ=environ)
    run = ended(home)
    assert (run.state, run.cause) == ("failed", "killed by SIGTERM: the time limit of Slurm job 4711")


def test_stop_ends_the_whole_tree(home, tmp_path):
    """`vedette stop` ends a command and all below it: what obeys, what ignores SIGTERM, what has detached itself."""
    code = (
        "(trap '' TERM; exec sleep 62) & (setsid sleep 62 &); python3 -c 'import time; time.sleep(62)' & echo up; wait"
    )
    job = subprocess.Popen(
        [PYTHON, "-m", "vedette", "run", "--quiet", "--", "sh", "-c", code],
        env={**os.environ, **QUICK}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    job.stdout.readline()
    [run] = eventually(lambda: home.hub_pid() and read_runs(home))
    assert len(eventually(lambda: len(found := _belonging_to(run.id)) >= 4 and found)) >= 4
    stopped = call("stop", run.id, "--grace", "30")
    job.communicate(timeout=30)

    assert stopped.returncode == 0
    run = ended(home)
    assert (run.state, run.cause) == ("cancelled", "killed by SIGTERM: sent by `vedette stop`")
    assert eventually(lambda: _belonging_to(run.id) == [])
    assert any("asked for by" in event.text for event in run.logs() if event.kind == "answer")


def test_stop_outlives_the_hub(home, hub, monkeypatch, capsys):
    """If the hub is killed after it has passed the command on, `vedette stop` starts another, and tells the end."""
    code = """
import os, signal, sys, vedette
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print(vedette.init(name="slow").id, flush=True)
signal.sigwait({signal.SIGTERM})
sys.stdin.readline()
os._exit(3)
"""
    job = subprocess.Popen(
        [PYTHON, "-c", code], env={**os.environ, **QUICK}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    run = job.stdout.readline().strip()
    send = HomeAccess.stop

    def send_and_kill(*args):
        send(*args)
        end_hub(home)
        job.communicate("\n", timeout=30)

    monkeypatch.setattr(HomeAccess, "stop", send_and_kill)
    with pytest.raises(SystemExit) as left:
        main(["stop", run])
    assert (left.value.code, job.returncode) == (0, 3)
    assert capsys.readouterr().out.startswith(f"run {run} ended: ")


def test_stop_of_a_stubborn_command(home, hub):
    """A command that ignores SIGTERM is killed after the grace, with its launcher, and what it started with it."""
    code = "trap '' TERM; sleep 63 & echo up; sleep 63; sleep 63"
    job = subprocess.Popen(
        [PYTHON, "-m", "vedette", "run", "--quiet", "--", "sh", "-c", code],
        env={**os.environ, **QUICK}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    job.stdout.readline()
    [run] = eventually(lambda: home.hub_pid() and read_runs(home))
    call("stop", run.id, "--grace", "0.5")
    job.communicate(timeout=30)

    run = ended(home)
    assert run.state == "cancelled"
    assert re.fullmatch(r"told to stop by \w+, and killed by SIGKILL as it did not", run.cause)
    assert eventually(lambda: _belonging_to(run.id) == [])


def test_what_a_killed_launcher_leaves_behind(home):
    """A launcher that is killed -9 takes the command with it, and the hub ends what is below."""
    job = subprocess.Popen(
        [PYTHON, "-m", "vedette", "run", "--", "sh", "-c", "setsid sleep 64 & echo up; sleep 64; true"],
        env={**os.environ, **QUICK}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    job.stdout.readline()
    [run] = eventually(lambda: home.hub_pid() and read_runs(home))
    assert len(_belonging_to(run.id)) >= 3
    job.kill()
    job.communicate(timeout=30)

    assert ended(home).state == "failed"
    assert eventually(lambda: _belonging_to(run.id) == [])


def test_show_tells_how_it_died(home, hub, job):
    """`vedette show` of a failed run has the cause, the traceback or stacks, and the last lines; --json too."""
    process, _ = job("for n in range(80): print('line', n)\nsys.stdout.flush()\nraise ValueError('bad')", launched=True)
    process.communicate()
    run = ended(home)

    shown = call("show", run.id).stdout
    assert "failed: ValueError: bad" in shown
    assert "its last 50 lines\n" in shown
    assert shown.rstrip().endswith("ValueError: bad")
    assert "line 79" in shown
    assert "line 10\n" not in shown
    assert "line 30\n" not in call("show", run.id, "--lines", "5").stdout
    found = json.loads(call("show", run.id, "--json", "--lines", "3").stdout)
    assert [line["text"] for line in found["lines"]][-1] == "ValueError: bad"
    assert len(found["lines"]) == 3

    process, _ = job(SEGFAULT, launched=False)
    process.communicate()
    run = ended(home)
    found = json.loads(call("show", run.id, "--json").stdout)
    assert [item["kind"] for item in found["died"]] == ["stacks"]
    assert "where it was when it died\n" in call("show", run.id).stdout


def test_bad_limits(home, hub):
    """A time limit that is none is a sentence, and nothing is run."""
    for words in (["--time-limit", "soon"], ["--time-limit", "0"], ["--time-limit", ""], ["--grace", "-1"]):
        done = call("run", *words, "--", "echo", "ran")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
