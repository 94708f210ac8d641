"""The user's process is sacred: whatever is wrong with hub, disk or home, the work goes on and losses are counted."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from vedette.errors import NotFoundError
from vedette.home import Home
from vedette.spool import _LEAST_SIZE

WORKLOAD = """
import sys, time
begin = time.monotonic()
import vedette
run = vedette.init(name="work")
slowest = 0
for step in range(int(sys.argv[1])):
    t = time.perf_counter()
    run.log({"x": float(step)}, step=step)
    slowest = max(slowest, time.perf_counter() - t)
handle = run.series("fast")
for step in range(1000):
    handle(step)
run.mark("end")
run.config["late"] = 1
print("finished", time.monotonic(), slowest, flush=True)
"""


def run_workload(finish, records=30_000, **kwargs):
    """Run the workload; return its stderr. It must finish, without an exception, and exit within 2 s more."""
    code, out, err = finish(WORKLOAD, str(records), **kwargs)
    ended = time.monotonic()
    assert code == 0, err
    assert "Traceback" not in err
    word, finished, _slowest = out.split()
    assert word == "finished"
    assert ended - float(finished) < 2
    return err


def mounted(*args):
    """Mount something; skip, loudly, where that is not allowed."""
    done = subprocess.run(["mount", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"mount is not allowed here: {done.stderr.strip()}"
        if os.environ.get("CI") and os.getuid() == 0:
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def small_disk(home):
    """A home on a disk of three megabytes."""
    mounted("-t", "tmpfs", "-o", "size=3m,mode=700", "none", home.root)
    yield home
    end_hub(home)
    subprocess.run(["umount", "-l", home.root], check=True)


@pytest.fixture
def read_only(home):
    """A home that nobody can write to, not even root."""
    mounted("--bind", home.root, home.root)
    subprocess.run(["mount", "-o", "remount,bind,ro", home.root], check=True)
    yield home
    subprocess.run(["umount", "-l", home.root], check=True)


def doctor():
    return subprocess.run([sys.executable, "-m", "vedette", "doctor"], text=True, capture_output=True, check=False)


def test_a_stopped_hub_costs_nothing(home, finish):
    """With the hub stopped by SIGSTOP the work goes on, and all of it is there when the hub does."""
    finish("import vedette\nvedette.log({'x': 1})")
    pid = eventually(home.hub_pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert run_workload(finish) == ""
    finally:
        os.kill(pid, signal.SIGCONT)

    run = read_runs(home)[-1]
    assert len(run.history("x")) == 30_000
    assert len(run.history("fast")) == 1000


def test_a_dead_hub_costs_nothing(home, finish, start):
    """A hub killed in the middle of the work is not missed."""
    job = start(WORKLOAD, "200000")
    end = time.monotonic() + 20
    while job.poll() is None and time.monotonic() < end:
        if pid := home.hub_pid():
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    out, err = job.communicate()

    assert (job.returncode, err) == (0, "")
    assert out.startswith("finished")
    assert len(read_runs(home)[-1].history("x")) == 200_000


def test_no_hub_can_be_started(home, finish):
    """Where no hub can be started the data waits in the spool; the next reader finds it."""
    os.mkdir(home.store)  # a directory where the store should be: every hub fails at once
    assert run_workload(finish) == ""
    eventually(lambda: os.path.exists(home.log) and os.path.getsize(home.log) > 0)
    assert "cannot be opened" in doctor().stdout
    os.rmdir(home.store)

    assert len(eventually(lambda: read_runs(home))[-1].history("x")) == 30_000


def test_a_full_disk_is_counted_and_said(small_disk, finish):
    """On a full disk the work goes on, and what was dropped is counted at exit and by `vedette doctor`."""
    err = run_workload(finish, 60_000)

    lost = int(re.search(r"(\d+) records of run \w+ could not be kept", err)[1])
    assert lost > 0
    report = doctor()
    assert report.returncode == 1
    counted = int(re.search(r"dropped +(\d+) records", report.stdout)[1])
    assert 0 < counted <= lost  # the program does not know what the hub had read of what it dropped
    [run] = read_runs(small_disk)
    assert len(run.history("x")) + len(run.history("fast")) + counted == 61_000


def test_a_disk_that_fills_and_is_freed_is_used_again(small_disk, finish):
    """When there is room again, records are kept again; the gap is counted exactly."""
    filler = os.path.join(small_disk.root, "filler")
    code, _, err = finish(
        """
        import os, sys, time, vedette
        filler = sys.argv[1]
        run = vedette.init()
        run.log({"x": -1.0})
        file = os.open(filler, os.O_CREAT | os.O_WRONLY)
        try:
            while True:
                os.write(file, bytes(4096))
        except OSError:
            os.close(file)
        for step in range(20000):
            run.log({"x": float(step)}, step=step)
        os.unlink(filler)
        time.sleep(1.2)
        run.log({"y": 1.0})
        """,
        filler,
    )

    assert code == 0, err
    [run] = read_runs(small_disk)
    assert run.history("y").value.tolist() == [1.0]
    dropped = sum(event.attrs["count"] for event in run.logs() if event.kind == "dropped")
    assert len(run.history("x")) + dropped == 20_001
    assert dropped > 0


def test_losses_that_cannot_be_told_at_first_are_told_later(small_disk, finish):
    """Where there is room for points, but not for the count of what was lost, the count is told later, and in full."""
    filler = os.path.join(small_disk.root, "filler")
    code, _, err = finish(
        """
        import os, sys, time, vedette
        filler = sys.argv[1]
        run = vedette.init()
        run.log({"x": -1.0})
        file = os.open(filler, os.O_CREAT | os.O_WRONLY)
        try:
            while True:
                os.write(file, bytes(4096))
        except OSError:
            pass
        for step in range(1000):
            run.mark("m" * 500)
        for step in range(20000):
            run.log({"x": float(step)}, step=step)
        time.sleep(1.1)  # until the next attempt
        os.ftruncate(file, os.fstat(file).st_size - int(sys.argv[2]))
        run.log({"y": 1.0})
        os.unlink(filler)
        os.close(file)
        time.sleep(1.1)
        run.mark("last")
        """,
        filler,
        str(_LEAST_SIZE),
    )

    assert code == 0, err
    lost = int(re.search(r"(\d+) records of run \w+ could not be kept", err)[1])
    assert "does not know" not in err
    assert re.search(r"dropped +(\d+) records", doctor().stdout)[1] == str(lost)
    [run] = read_runs(small_disk)
    marks = sum(event.kind == "mark" for event in run.logs())
    assert (lost, run.history("y").value.tolist()) == (1001 - marks + 20_001 - len(run.history("x")), [1.0])


def test_a_read_only_home_costs_nothing(read_only, finish):
    """In a home that cannot be written to the work goes on; the loss is said at exit, and by `vedette doctor`."""
    err = run_workload(finish)

    assert "could not be kept" in err
    assert len(err.splitlines()) <= 3
    report = doctor()
    assert report.returncode == 1
    assert "cannot be written to" in report.stdout


def test_a_reader_without_a_hub_reads_what_is_there(home, finish):
    """Where the hub does not answer, a reader shows what is in the store and says that it may be behind."""
    finish("import vedette\nvedette.log({'x': 1})")
    read_runs(home)
    end_hub(home)
    mounted("--bind", home.root, home.root)
    subprocess.run(["mount", "-o", "remount,bind,ro", home.root], check=True)
    try:
        done = subprocess.run([sys.executable, "-m", "vedette", "ls"], text=True, capture_output=True, check=False)
    finally:
        subprocess.run(["umount", "-l", home.root], check=True)

    assert done.returncode == 0
    assert "script0" in done.stdout
    assert "may be behind" in done.stderr


def test_a_clock_that_jumps_back_loses_nothing(home, hub, finish):
    """Time may go backwards: points keep their steps, and the last write of an attribute still wins."""
    finish(
        """
        import time, vedette
        run = vedette.init()
        real = time.time_ns
        from vedette.client import run as runs
        run.config["a"] = 1
        run.log({"x": 1.0}, step=1)
        time.time_ns = runs.time_ns = lambda: real() - 3600 * 10**9
        run.config["a"] = 2
        run.log({"x": 2.0}, step=2)
        """
    )

    [run] = read_runs(home)
    assert run.config == {"a": 2}
    assert run.history("x").value.tolist() == [1.0, 2.0]


def test_the_home_may_be_removed_while_a_job_runs(home, start):
    """`rm -rf` of the home does not hurt the job, which goes on logging into a new one."""
    job = start(
        """
        import shutil, sys, vedette
        run = vedette.init()
        shutil.rmtree(sys.argv[1])
        for step in range(50000):
            run.log({"x": float(step)}, step=step)
        """,
        home.root,
    )
    _, err = job.communicate(timeout=60)

    assert job.returncode == 0, err
    assert "Traceback" not in err


def test_a_home_with_a_long_path_works(tmp_path, monkeypatch, finish):
    """A home whose path is longer than a Unix socket's can be works, and has its socket inside."""
    root = tmp_path / ("x" * 120)
    home = Home(str(root))
    finish("import vedette\nvedette.log({'x': 1})", environ={"VEDETTE_HOME": str(root)})
    try:
        assert len(read_runs(home)) == 1
        assert os.path.dirname(home.socket) == str(root)
    finally:
        end_hub(home)


def test_the_spool_keeps_to_its_cap(home, finish):
    """Past its cap a process gives up its oldest samples, counts them, and keeps what it says of itself."""
    os.mkdir(home.store)
    run_workload(finish, 100_000, environ={"VEDETTE_SPOOL_CAP_BYTES": "2000000"})
    used = sum(
        os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(home.spool) for name in names
    )
    assert used <= 2_000_000
    os.rmdir(home.store)

    [run] = eventually(lambda: read_runs(home))
    dropped = sum(event.attrs["count"] for event in run.logs() if event.kind == "dropped")
    points = run.history("x")
    assert dropped + len(points) + len(run.history("fast")) == 101_000
    assert points.step[-1] == 99_999
    assert run.config == {"late": 1}


def test_a_home_that_was_removed_belongs_to_a_new_hub(home, finish):
    """`rm -rf` of the home, then another script: the old hub touches nothing of it, and the new run is there."""
    finish("import vedette\nvedette.log({'x': 1})")
    eventually(home.hub_pid)
    eventually(lambda: subprocess.run(["rm", "-rf", home.root], check=False).returncode == 0)  # a hub writes there
    finish("import vedette\nvedette.init(name='second').log({'x': 2.0})")

    [run] = eventually(lambda: read_runs(home))
    assert run.name == "second"
    assert run.history("x").value.tolist() == [2.0]


@pytest.mark.parametrize("noticed", ["at a roll", "at a look after the hub"])
def test_a_program_whose_home_is_removed_begins_anew(home, finish, noticed):
    """What it logs from then on is a run as before, with its name and config, and both are told what happened."""
    code, _, err = finish(
        """
        import os, shutil, sys, time, vedette
        run = vedette.init(name="survivor", project="p", config={"lr": 0.5}, tags=["a"])
        run.log({"x": -1.0})
        run.config["late"] = 7
        time.sleep(0.3)
        while True:
            try:
                shutil.rmtree(os.environ["VEDETTE_HOME"])
                break
            except OSError:  # a hub writes there
                time.sleep(0.05)
        if sys.argv[1] == "at a roll":
            for step in range(3000):
                run.log({"before": 1.0})
        else:
            run._voice.wake_at = 0  # a minute has passed
            run.log({"before": 1.0})
        run.log({"x": 1.0})
        run.mark("last")
        """,
        noticed,
    )

    assert code == 0, err
    assert "was removed or moved while this run was running" in err
    [run] = eventually(lambda: (found := read_runs(home)) and found[0].state == "done" and found)
    assert (run.name, run.project, run.config, run.tags) == ("survivor", "p", {"lr": 0.5, "late": 7}, ["a"])
    assert run.history("x").value.tolist() == [1.0]
    assert [event.kind for event in run.logs() if event.kind in ("removed", "mark")] == ["removed", "mark"]


def test_a_hub_whose_home_was_removed_leaves_the_new_ones_door_open(home, finish):
    """A hub that ends after its home was removed and made anew does not take the socket of the hub there away."""
    finish("import vedette\nvedette.log({'x': 1})")
    old = eventually(home.hub_pid)  # it may be anywhere on its way to its socket
    os.kill(old, signal.SIGSTOP)
    eventually(lambda: subprocess.run(["rm", "-rf", home.root], check=False).returncode == 0)
    finish("import vedette\nvedette.init(name='second').log({'x': 2.0})")
    eventually(lambda: os.path.exists(home.socket))
    os.kill(old, signal.SIGCONT)
    eventually(lambda: not os.path.exists(f"/proc/{old}"))

    assert os.path.exists(home.socket)

    def names():
        with contextlib.suppress(NotFoundError):  # the new hub may just be making its store
            return [run.name for run in read_runs(home)]

    assert eventually(names) == ["second"]


def test_a_users_own_timeout_is_the_users(home, finish):
    """An exception that a signal handler raises inside `log` reaches the user; what had returned is there, once."""
    code, out, err = finish(
        """
        import signal, time, vedette
        class Late(Exception): pass
        run, inside, kept = vedette.init(), False, []
        raised = seen = 0
        def ring(*_):
            global raised
            if inside:
                raised += 1
                raise Late
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        end, step = time.monotonic() + 1.5, 0
        while time.monotonic() < end:
            step += 1
            try:
                inside = True
                run.log({"x": float(step)}, step=step)
                inside = False
                kept.append(step)
            except Late:
                inside = False
                seen += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(raised, seen, len(kept), sum(kept))
        """
    )

    assert code == 0, err
    raised, seen, count, total = map(int, out.split())
    assert seen >= 0.9 * raised > 0
    [run] = read_runs(home)
    steps = run.history("x").step
    assert len(steps) == len(set(steps.tolist()))
    assert count <= len(steps) <= count + seen
    assert total <= int(steps.sum())


def test_the_hub_holds_nothing_of_the_users(home, tmp_path):
    """A pipe that the job inherited ends with the job, not with the hub that the job started."""
    script = tmp_path / "job.py"
    script.write_text("import vedette\nvedette.log({'x': 1})\n")
    begin = time.monotonic()
    command = f"sh -c 'exec 5>&1; {sys.executable} {script}' | cat"
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "VEDETTE_HOME": home.asked}, timeout=30)

    assert time.monotonic() - begin < 20
    assert eventually(home.hub_pid)


def test_a_hub_short_of_descriptors_takes_nobody_for_dead(home, tmp_path):
    """Thirty jobs under a soft limit of 40 descriptors, which their hub raises: every one is done, with all points."""
    script = tmp_path / "job.py"
    script.write_text(
        "import time, vedette\nrun = vedette.init()\n"
        "for step in range(50):\n    run.log({'x': float(step)}, step=step)\n    time.sleep(0.02)\n"
    )
    command = f"ulimit -Sn 40; for i in $(seq 30); do {sys.executable} {script} & done; wait"
    subprocess.run(["bash", "-c", command], check=True, env={**os.environ, "VEDETTE_HOME": home.asked})

    runs = eventually(lambda: (r := read_runs(home)) and all(run.end_t for run in r) and r, 30)
    assert len(runs) == 30
    assert {run.state for run in runs} == {"done"}
    assert sum(len(run.history("x")) for run in runs) == 1500


def test_what_is_logged_at_exit_is_of_the_run_that_ended(home, hub, finish):
    """A handler of `atexit` that runs after ours begins no run of its own."""
    finish(
        """
        import atexit, vedette
        atexit.register(lambda: vedette.log({"late": 1.0}))
        vedette.init(name="mine").log({"x": 1.0})
        """
    )

    [run] = eventually(lambda: [run for run in read_runs(home) if run.end_t])
    assert (run.name, run.state, run.history("late").value.tolist()) == ("mine", "done", [1.0])


def test_a_parent_that_is_none(home, hub, finish):
    """VEDETTE_RUN that is not the id of a run is ignored, and said; the run is one of its own."""
    _, _, err = finish("import vedette; vedette.log({'x': 1.0})", environ={"VEDETTE_RUN": "../x"})

    assert "VEDETTE_RUN='../x' is not the id of a run" in err
    [run] = eventually(lambda: [run for run in read_runs(home) if run.end_t])
    assert run.history("x").value.tolist() == [1.0]
