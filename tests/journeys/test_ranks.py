"""Ranks that a real launcher starts are one run."""

import os
import shutil
import subprocess
import sys

import pytest

import vedette
from tests.journeys.conftest import eventually
from tests.rooms.conftest import QUICK, call

RANK = """
import os, sys, threading, time, vedette
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 0:  # what a thread begins is a run of its own, and does not count
    aside = threading.Thread(target=lambda: vedette.init(name="aside").finish())
    aside.start(), aside.join()
run = vedette.init(name="job", config={"lr": 0.1})
run.log({"loss": rank * 10.0}), run.series("loss")(rank * 10.0 + 1)
open(f"logged{rank}", "w").close()
if rank == 1 and sys.argv[1:] == ["fails"]:
    while not os.path.exists("logged0"):  # else the launcher may kill it before
        time.sleep(0.01)
    raise ValueError("no such file")
time.sleep(0.2)
"""


@pytest.fixture
def mpiexec(home, hub, tmp_path):
    """Run a command as three ranks."""
    found = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
    if found is None:
        pytest.skip("mpiexec is not installed: scripts/install dev takes it from the package openmpi")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run(*command, below=()):
        subprocess.run(
            [*below, found, "--oversubscribe", "-n", "3", *command],
            cwd=tmp_path, env={**os.environ, **QUICK, **allowed}, check=False, capture_output=True, timeout=60,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("words", "state", "cause"),
    [((), "done", ""), (("fails",), "failed", "rank 1 was the first to fail: ValueError: no such file")],
)
def test_ranks_of_mpiexec_are_one_run(mpiexec, tmp_path, words, state, cause):
    """It ends with its last rank as its worst one did, names the first that failed, and tells their points apart."""
    (tmp_path / "rank.py").write_text(RANK)
    mpiexec(sys.executable, "rank.py", *words)

    [run] = [run for run in vedette.runs() if run.name != "aside"]
    run = eventually(lambda: (found := vedette.get(run.id)).state == state and found)
    assert (run.name, run.cause, run.config) == ("job", cause, {"lr": 0.1})
    assert run.history("loss").value.tolist() == [0.0, 1.0]
    if not words:
        printed = call("points", run.id, "loss").stdout.splitlines()
        assert [(line.split(",")[2], line.split(",")[3]) for line in printed] == [
            ("value", "rank"), ("0.0", ""), ("1.0", ""), ("10.0", "1"), ("11.0", "1"), ("20.0", "2"), ("21.0", "2"),
        ]  # fmt: skip
        assert {s.tags.get("rank"): s.max for s in run.series() if s.name == "loss"} == {
            None: 1.0,
            "1": 11.0,
            "2": 21.0,
        }


FORKS = """
import os, time, vedette
run = vedette.init(name="job")
run.log({"loss": 1.0})
if os.environ["OMPI_COMM_WORLD_RANK"] == "2":
    if (child := os.fork()) == 0:
        run.log({"loss": 2.0})
        os._exit(3)
    os.waitpid(child, 0)
"""


def test_a_child_of_a_rank_is_no_rank(mpiexec, tmp_path):
    """A job of ranks that are all done is done, however a process ended that one of them has started."""
    (tmp_path / "rank.py").write_text(FORKS)
    mpiexec(sys.executable, "rank.py")

    [run] = vedette.runs()
    run = eventually(lambda: (found := vedette.get(run.id)).end_t and found)
    assert (run.state, run.cause) == ("done", "")


KILLED = """
import os, pathlib, signal, sys, time, vedette

def is_dead(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher has to kill them by SIGKILL
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
run = vedette.init(name="job")
run.log({"loss": 1.0})
pathlib.Path(f"new{rank}").write_text(str(os.getpid()))
os.rename(f"new{rank}", f"pid{rank}")
while not all(os.path.exists(f"pid{rank}") for rank in range(3)):
    time.sleep(0.01)
time.sleep(0.5)  # the hub watches all of them by now
if rank == 1 and sys.argv[1] == "raises":
    raise ValueError("no such file")
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
pid = int(pathlib.Path("pid1").read_text())
while not is_dead(pid):
    time.sleep(0.001)
time.sleep(0.05)
if rank == 0:
    raise ConnectionError("rank 1 does not answer")
time.sleep(60)
"""


@pytest.mark.parametrize(("how", "cause"), [("killed", "killed by SIGKILL"), ("raises", "ValueError: no such file")])
def test_the_first_rank_to_fail_is_named(mpiexec, tmp_path, how, cause):
    """It is named also if it was killed; those that fail for want of it, or that the launcher kills, are not."""
    (tmp_path / "rank.py").write_text(KILLED)
    mpiexec(sys.executable, "rank.py", how)

    [run] = vedette.runs()
    run = eventually(lambda: (found := vedette.get(run.id)).end_t and found)
    assert run.state == "failed"
    assert run.cause.startswith(f"rank 1 was the first to fail: {cause}")


def test_the_first_rank_to_fail_is_named_below_vedette_run(mpiexec, tmp_path):
    """The launcher, which sees the exit code of mpiexec only, asks the hub."""
    (tmp_path / "rank.py").write_text(KILLED)
    mpiexec(sys.executable, "rank.py", "killed", below=(sys.executable, "-m", "vedette", "run", "--"))

    run = eventually(lambda: (found := vedette.runs()) and found[0].end_t and found[0])
    assert run.state == "failed"
    assert run.cause.startswith("rank 1 was the first to fail: killed by SIGKILL")


AGAIN = """
import vedette
for seed in range(2):  # each plain init begins a run, as in a program of one process
    run = vedette.init()
    loss = run.series("loss")
    loss(0.5), loss(0.5)
    run.log({"loss": 0.5}), run.metric("loss", 0.5)
"""


def test_runs_after_each_other_below_shells(mpiexec, tmp_path):
    """Ranks that are started by a shell each, and begin several runs in several scripts, begin the same runs.

    In every rank, steps that are not given go on behind those of a handle.
    """
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(AGAIN)
    mpiexec("sh", "-c", f"{sys.executable} a.py; {sys.executable} b.py")

    runs = eventually(lambda: (found := vedette.runs("state = done")) and len(found) == 4 and found)
    for run in runs:
        steps = {row.tags.get("rank"): run.history("loss", row.tags).step.tolist() for row in run.series()}
        assert steps == {rank: [0, 1, 2, 3] for rank in (None, "1", "2")}
