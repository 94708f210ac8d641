"""A run that is resumed: killed and gone on with, by hand, by a variable, with ranks and forks."""

import json
import os
import re
import signal

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.rooms.conftest import call
from vedette.store.sqlite_file import open_reader

TRAIN = """
import os, sys, time
import vedette
first, last, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
resume = sys.argv[4] if len(sys.argv) > 4 else None
run = vedette.init(name=name or None, config={"from": first}, resume=resume)
for step in range(first, last):
    run.log({"loss": first + step / 1000}, step=step)
print(run.id, flush=True)
"""
KILLED = TRAIN + "os.kill(os.getpid(), 9)"
UNEXPECTED = "killed by SIGKILL"


def only(home):
    [run] = read_runs(home)
    return run


def ended(home, tries=1):
    return eventually(lambda: (run := only(home)).end_t and len(run.tries()) == tries and run)


def test_killed_and_resumed_twice(home, finish):
    """A run that was killed -9 goes on twice: each step is that of the latest try which logged it, and all are kept."""
    _, out, _ = finish(KILLED, "0", "100", "long")
    run_id = out.strip()
    assert ended(home).cause.startswith(UNEXPECTED)
    finish(KILLED, "50", "80", "", run_id)
    assert ended(home, 2).state == "failed"
    finish(TRAIN, "60", "120", "", run_id)

    run = ended(home, 3)
    assert (run.id, run.name, run.state, run.cause) == (run_id, "long", "done", "")
    assert run.config == {"from": 60}
    points = run.history("loss")
    assert points.step.tolist() == list(range(120))
    assert points.value.tolist() == [(0 if s < 50 else 50 if s < 60 else 60) + s / 1000 for s in range(120)]
    assert len(run.history("loss", all_tries=True)) == 100 + 30 + 60
    assert run.summary["loss"] == 60.119
    assert [row.state for row in run.tries()] == ["failed", "failed", "done"]
    assert all(row.cause.startswith(UNEXPECTED) for row in run.tries()[:2])
    assert run.start_t <= run.tries()[0].start_t
    assert run.end_t == run.tries()[2].end_t
    assert [row.parent for row in run.processes()] == [row.id for row in run.tries()]


def test_the_commands_tell_of_tries(home, hub, finish):
    """`show` numbers the tries as they came, `points` shows what stands or all there is, and SQL shows all."""
    _, out, _ = finish(KILLED, "0", "4", "long")
    ended(home)
    finish(TRAIN, "2", "6", "", out.strip())
    ended(home, 2)

    shown = call("show", "long").stdout
    assert re.search(r"^1 +failed .*killed by SIGKILL", shown, re.MULTILINE)
    assert re.search(r"^2 +done ", shown, re.MULTILINE)
    assert re.search(r"^try 1: main \d+ +failed", shown, re.MULTILINE)
    assert re.search(r"^try 2: main \d+ +done", shown, re.MULTILINE)
    one = json.loads(call("show", "long", "--json").stdout)
    assert [(row["try"], row["state"]) for row in one["tries"]] == [(1, "failed"), (2, "done")]
    assert [row["try"] for row in one["processes"]] == [1, 2]
    steps = [line.split(",")[0] for line in call("points", "long", "loss").stdout.split()[1:]]
    assert steps == ["0", "1", "2", "3", "4", "5"]
    everything = [line.split(",")[0] for line in call("points", "long", "loss", "--all-tries").stdout.split()[1:]]
    assert everything == ["0", "1", "2", "2", "3", "3", "4", "5"]
    counted = call("sql", "SELECT count(*) AS n FROM points WHERE name = 'loss'", "--format", "csv").stdout.split()
    assert counted == ["n", "8"]


RANKS = """
import subprocess, sys
import vedette
resume = sys.argv[2] if len(sys.argv) > 2 else None
run = vedette.init(resume=resume)
base = float(sys.argv[1])
rank = "import sys, vedette\\nfor s in range(3): vedette.log({'x': float(sys.argv[1]) + s / 10}, step=s)"
workers = [subprocess.Popen([sys.executable, "-c", rank, str(base + r)]) for r in range(2)]
for worker in workers: assert worker.wait() == 0
print(run.id)
"""


def test_a_rank_never_supersedes(home, hub, finish):
    """Two ranks of one try log the same steps: both are shown; those of a later try supersede those of an earlier."""
    _, out, _ = finish(RANKS, "10")
    assert sorted(ended(home).history("x").value.tolist()) == [10.0, 10.1, 10.2, 11.0, 11.1, 11.2]
    finish(RANKS, "20", out.strip())

    run = ended(home, 2)
    assert sorted(run.history("x").value.tolist()) == [20.0, 20.1, 20.2, 21.0, 21.1, 21.2]
    assert len(run.history("x", all_tries=True)) == 12
    assert len(run.processes()) == 6


def test_fork_children_of_a_resumed_run(home, hub, finish):
    """A fork child of a resumed run speaks in the new try: its points stand beside its parent's."""
    _, out, _ = finish(TRAIN, "0", "3", "forks")
    ended(home)
    code, _, err = finish(
        """
        import os, sys, vedette
        run = vedette.init(resume=sys.argv[1])
        run.log({"loss": 50.0}, step=1)
        pid = os.fork()
        if pid == 0:
            same = vedette.init(resume=sys.argv[1], config={"child": True})  # as when a module is imported again
            assert same is run
            run.log({"loss": 60.0}, step=1)
            sys.exit(0)
        os.waitpid(pid, 0)
        """,
        out.strip(),
    )
    assert (code, err) == (0, "")

    run = ended(home, 2)
    assert run.history("loss").value.tolist() == [0.0, 50.0, 60.0, 0.002]
    assert run.config == {"from": 0, "child": True}
    assert [row.parent for row in run.processes()[1:]] == [run.tries()[1].id] * 2


def test_a_script_that_resumes_and_is_started_again_by_its_own_children(home, hub, finish):
    """A spawned child imports the script, with its init(resume=...), and joins the try of its parent."""
    _, out, _ = finish(TRAIN, "0", "3", "spawns")
    ended(home)
    code, _, err = finish(
        """
        import multiprocessing, sys
        import vedette
        run = vedette.init(resume=sys.argv[1])
        def work(): run.log({"loss": 7.0}, step=2)
        if __name__ == "__main__":
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start()
            child.join()
            assert child.exitcode == 0
        """,
        out.strip(),
    )
    assert (code, err) == (0, "")

    assert ended(home, 2).history("loss").value.tolist() == [0.0, 0.001, 7.0]


def test_by_the_variable(home, hub, finish):
    """VEDETTE_RESUME resumes a run in a script that knows nothing of it, once, and keeps its name."""
    _, out, _ = finish(TRAIN, "0", "3", "named")
    ended(home)
    code, printed, err = finish(
        """
        import os, vedette
        vedette.log({"loss": 9.0}, step=2)
        print(bool(os.environ.get("VEDETTE_RESUME")))
        vedette.finish()
        print(vedette.init(name="another").name)
        """,
        environ={"VEDETTE_RESUME": out.strip()},
    )
    assert (code, printed.split(), err) == (0, ["False", "another"], "")

    first, second = eventually(lambda: len(r := read_runs(home)) == 2 and all(run.end_t for run in r) and r)
    assert (first.name, second.name) == ("named", "another")
    assert first.history("loss").value.tolist() == [0.0, 0.001, 9.0]
    assert len(first.tries()) == 2


def test_what_is_said_again_is_changed_and_the_rest_stays(home, hub, finish):
    """A resumed run keeps its project, name, notes and tags but for those that are given anew; config is merged."""
    _, out, _ = finish(
        """
        import vedette
        run = vedette.init("cifar", "e1", "old", {"lr": 0.1, "depth": 2}, ["a"], "mine")
        print(run.id)
        """
    )
    ended(home)
    again = "import sys, vedette\nrun = vedette.init(config={'lr': 0.2}, resume=sys.argv[1])\nrun.summary['best'] = 1"
    finish(again, out.strip())
    run = ended(home, 2)
    assert (run.project, run.name, run.tags, run.config) == ("cifar", "old", ["a"], {"lr": 0.2, "depth": 2})
    assert (run.attrs["experiment"], run.attrs["notes"], run.attrs["script"]) == ("e1", "mine", "script0.py")
    finish(
        "import sys, vedette\nvedette.init('mnist', 'e2', 'new', tags='b', notes='n', resume=sys.argv[1])", out.strip()
    )

    run = ended(home, 3)
    assert (run.project, run.name, run.tags) == ("mnist", "new", ["a", "b"])
    assert (run.attrs["experiment"], run.attrs["notes"]) == ("e2", "n")


def test_a_run_that_still_runs_can_be_resumed(home, hub, start, finish):
    """The later try wins while the earlier still lives, also when that one ends after it."""
    job = start(
        TRAIN + "sys.stdin.readline()\nrun.log({'loss': 99.0}, step=1)\nsys.exit(4)", "0", "3", "busy", stdin=-1
    )
    run_id = job.stdout.readline().strip()
    finish(TRAIN, "1", "2", "", run_id)
    run = ended(home, 2)
    assert (run.state, run.history("loss").value.tolist()) == ("done", [0.0, 1.001, 0.002])
    job.communicate("go on\n", 20)

    run = eventually(lambda: (r := only(home)).tries()[0].end_t and r)
    assert (run.state, run.cause) == ("done", "")
    assert run.tries()[0].cause == "exit code 4"
    assert run.history("loss").value.tolist() == [0.0, 1.001, 0.002]


def test_a_try_is_under_way_again(home, hub, start, finish):
    """A run that had failed is running while its new try is, and has no end."""
    _, out, _ = finish(KILLED, "0", "3", "phoenix")
    ended(home)
    job = start(TRAIN + "time.sleep(60)", "3", "5", "", out.strip())
    job.stdout.readline()

    run = eventually(lambda: (r := only(home)).state == "running" and r)
    assert (run.end_t, run.cause) == (None, "")
    job.kill()
    job.wait()
    assert ended(home, 2).cause.startswith("killed by SIGKILL")


def test_an_unknown_id_becomes_a_run(home, hub, finish):
    """An id that this home has never heard of becomes a run of that id, which begins with this try."""
    code, out, err = finish(TRAIN, "0", "2", "", "2pg66a5z1b")
    assert (code, out.strip(), err) == (0, "2pg66a5z1b", "")

    run = ended(home)
    assert (run.id, run.name, run.state) == ("2pg66a5z1b", "", "done")
    assert run.start_t == run.tries()[0].start_t
    assert len(run.history("loss")) == 2


@pytest.mark.parametrize("wrong", ["brisk-otter-417", "2pg66", "2PG66A5Z1B", "../../etc", "x" * 500, "\x1b[31m"])
def test_what_is_no_id_begins_a_run_of_its_own(home, hub, finish, wrong):
    """A name, a beginning or nonsense is answered with one sentence, and the script goes on in a run of its own."""
    code, out, err = finish(TRAIN, "0", "2", "mine", wrong)
    assert code == 0
    assert err.count("\n") == 1
    assert "by its whole id" in err
    assert "\x1b" not in err

    assert (ended(home).id, ended(home).name) == (out.strip(), "mine")
    _, _, err = finish(TRAIN, "0", "2", "mine", environ={"VEDETTE_RESUME": wrong})
    assert "VEDETTE_RESUME" in err
    assert len(read_runs(home)) == 2


def test_strange_values_of_resume(home, hub, finish):
    """Whatever resume= is given, init returns a run and says at most a sentence."""
    code, out, err = finish(
        """
        import vedette
        for resume in (None, True, "", 5, 0.5, ["x"], object, b"2pg66a5z1b"):
            run = vedette.init(resume=resume)
            print(type(run).__name__, len(run.id))
            run.finish()
        """
    )

    assert (code, set(out.split("\n"))) == (0, {"Run 14", ""})
    assert err.count("by its whole id") == 5
    assert len(eventually(lambda: len(r := read_runs(home)) == 8 and r)) == 8


def test_two_that_resume_at_once_are_two_tries(home, hub, start, finish):
    """Eight processes that resume one run without talking are eight tries, in one order for all who read."""
    _, out, _ = finish(TRAIN, "0", "3", "crowd")
    ended(home)
    jobs = [start(TRAIN, str(100 + n), str(103 + n), "", out.strip()) for n in range(8)]
    for job in jobs:
        job.communicate(timeout=60)

    run = ended(home, 9)
    ns = [row.attrs["n"] for row in run.tries()]
    assert ns[0] == 1
    assert ns == sorted(ns)
    assert len({row.id for row in run.tries()}) == 9


def test_the_order_survives_any_hub(home, finish):
    """Tries that one hub never saw together, each kept by a hub of its own, are in the same order."""
    _, out, _ = finish(TRAIN, "0", "3", "many hubs")
    for first in ("10", "20"):
        ended(home, 1 if first == "10" else 2)
        end_hub(home, signal.SIGKILL)
        finish(TRAIN, first, "22", "", out.strip())

    run = ended(home, 3)
    assert run.history("loss").value.tolist()[-2:] == [20.02, 20.021]


def test_off_stays_off(home, finish):
    """With VEDETTE_MODE=off nothing is resumed and nothing is written."""
    code, _, err = finish(TRAIN, "0", "3", "", "2pg66a5z1b", environ={"VEDETTE_MODE": "off"})

    assert (code, err) == (0, "")
    assert not os.path.exists(home.store)


@pytest.mark.parametrize(("said", "joined"), [("b7", "b7"), ("1", "1"), ("", "1"), ("a/b", "1"), ("x" * 200, "1")])
def test_the_variable_of_a_try(home, hub, finish, said, joined):
    """A process joins the try that it is told, whatever that is called; what can be none means the first."""
    finish("import vedette\nvedette.log({'x': 1.0})", environ={"VEDETTE_RUN": "2pg66a5z1b", "VEDETTE_TRY": said})

    read_runs(home)
    [row] = open_reader(home.store).origins(["2pg66a5z1b"])
    assert row.origin.process == f"2pg66a5z1b/{joined}/{row.origin.name}"
