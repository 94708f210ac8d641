"""Programs in a pid namespace of their own, as in a container, beside a hub that does not see their pids."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.journeys.conftest import eventually, read_runs, spools
from vedette import kernel

INSIDE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
DIES = """
import os, signal, sys, vedette
for number in range(int(sys.argv[1])):
    if os.fork() == 0:
        run = vedette.init(name=f"d{number}", console=False)
        run.log({"x": float(number)})
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""
LIVES = """
import sys, time, vedette
run = vedette.init(name="alive", console=False)
run.log({"x": 1.0})
print("ready", flush=True)
sys.stdin.read()
run.log({"x": 2.0})
"""


def why_not():
    if shutil.which("unshare") is None:
        return "there is no unshare"
    done = subprocess.run([*INSIDE, "true"], check=False, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"NO PID NAMESPACE CAN BE MADE HERE: {why_not()}")


def inside(home, code, *words, **kwargs):
    environ = {**os.environ, "VEDETTE_HOME": home.root}
    return subprocess.Popen([*INSIDE, sys.executable, "-c", code, *words], env=environ, text=True, **kwargs)


def test_the_dead_of_another_namespace_are_found_dead(home):
    """Killed while no hub looked, in a namespace that is gone: what they logged is kept, their spools are removed."""
    home.prepare()
    lock = home.take_lock()  # no hub looks
    assert inside(home, DIES, "12").wait(60) == 0
    os.close(lock)
    assert len(spools(home)) == 12

    runs = eventually(lambda: (found := read_runs(home)) and all(run.state == "ended" for run in found) and found)
    assert [run.history("x").value.tolist() for run in runs] == [[float(number)] for number in range(12)]
    assert all("in another container" in run.cause for run in runs)
    eventually(lambda: spools(home) == [])


def test_the_living_of_another_namespace_are_not(home):
    """One that is quiet lives as long as it holds its lock, whoever has its pid here; then its end is seen."""
    home.prepare()
    lock = home.take_lock()
    job = inside(home, LIVES, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert job.stdout.readline() == "ready\n"
    os.close(lock)
    [run] = read_runs(home)
    assert run.state == "running"
    time.sleep(2.5)  # two looks at its lock
    [run] = read_runs(home)
    assert (run.state, len(spools(home))) == ("running", 1)
    assert run.heard_t > time.time_ns() - 60 * 10**9
    job.communicate("")

    [run] = eventually(lambda: (found := read_runs(home)) and found[0].state == "done" and found)
    assert run.history("x").value.tolist() == [1.0, 2.0]
    assert kernel.boot() != ""


def test_the_end_of_one_in_another_namespace_is_seen_by_its_pidfd(home, finish):
    """Where a hub runs when it dies, the kernel tells how it ended, though its pid means nothing here."""
    finish("import vedette\nvedette.log({'x': 1})")
    eventually(lambda: home.hub() is not None)
    assert inside(home, DIES, "1").wait(60) == 0

    def found():
        return [run for run in read_runs(home) if run.name == "d0" and run.state != "running"]

    [run] = eventually(found)
    if kernel.tells_exit_status():
        assert (run.state, "SIGKILL" in run.cause) == ("failed", True)
