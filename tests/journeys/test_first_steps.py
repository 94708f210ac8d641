"""What a new user does: a script, and then questions from a shell."""

import json
import os
import subprocess
import sys

import numpy as np

import vedette
from tests.journeys.conftest import eventually, read_runs


def cli(*args, check=True):
    done = subprocess.run([sys.executable, "-m", "vedette", *args], text=True, capture_output=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


SCRIPT = """
import vedette

run = vedette.init(project="cifar", experiment="first", config={"lr": 0.1, "model": {"depth": 18}}, tags=["try"])
for step in range(1000):
    run.log({"loss": 1 / (step + 1), "acc": step / 1000}, step=step)
run.mark("epoch", 1)
run.config["batch"] = 32
run.summary["best"] = 0.9
print(run.id)
"""


def test_a_script_is_seen_from_the_shell(home, finish):
    """A script logs, no server was started by hand, and every question about it is answered."""
    code, out, err = finish(SCRIPT)

    assert (code, err) == (0, "")
    run = out.strip()
    [row] = json.loads(cli("ls", "--json", "--where", "config.model.depth = 18 and tag.try"))
    assert row["id"] == run
    assert row["project"] == "cifar"
    assert row["config"] == {"lr": 0.1, "model": {"depth": 18}, "batch": 32}
    assert row["summary"] == {"loss": 0.001, "acc": 0.999, "best": 0.9}
    points = cli("points", run, "loss").splitlines()
    assert points[0] == "step,time,value"
    assert len(points) == 1001
    assert points[1].startswith("0,")
    assert points[1].endswith(",1.0")
    assert "epoch 1" in cli("logs", run)
    assert "cifar" in cli("show", run)
    assert "1000" in cli("sql", "select count(*) from points where name = 'acc'")
    assert cli("doctor")


def test_python_reads_what_python_logged(home, hub, finish):
    """`vedette.runs` and `vedette.get` hand back config, state and points as numpy arrays."""
    _, out, _ = finish(SCRIPT)

    run = eventually(lambda: (view := vedette.get(out.strip()[:9])).state == "done" and view)
    history = run.history("loss")
    assert np.array_equal(history.step, np.arange(1000))
    assert np.array_equal(history.value, 1 / np.arange(1, 1001))
    assert (np.diff(history.t) >= 0).all()
    assert [r.id for r in vedette.runs("metric.loss < 0.01")] == [run.id]
    assert vedette.runs("metric.loss > 0.01") == []


def test_no_numbers_are_turned_away_and_the_rest_kept(home, hub, finish):
    """NaN, infinities, nested dicts and numpy scalars are kept; anything else is refused once per name."""
    code, _, err = finish(
        """
        import numpy as np, vedette
        run = vedette.init()
        for i in range(3):
            run.log({"nan": float("nan"), "inf": float("-inf"), "np": np.float32(0.5), "flag": True, "int": 2**60 + i,
                     "deep": {"er": {"x": np.int8(3)}}, "text": "no", "none": None, "list": [1, 2]}, step=np.int64(i))
        run.log("nonsense")
        run.metric("temp", {"in": 1.5, "out": 2}, tags={"room": "a"})
        handle = run.series("fast", tags={"k": "v"})
        handle(1)
        handle("text")
        """
    )

    assert code == 0
    assert err.count("refused") == 5  # text, none, list, log(), fast
    [run] = read_runs(home)
    values = {row.name: run.history(row.name, row.tags).value.tolist() for row in run.series()}
    assert np.isnan(values.pop("nan")).all()
    assert values == {
        "inf": [-np.inf] * 3,
        "np": [0.5] * 3,
        "flag": [True] * 3,
        "int": [2**60, 2**60 + 1, 2**60 + 2],
        "deep/er/x": [3] * 3,
        "temp/in": [1.5],
        "temp/out": [2],
        "fast": [1.0],
    }
    assert any("refused" in event.text for event in run.logs(level="warning"))


def test_verbs_without_init_open_a_run_named_after_the_script(home, hub, finish):
    """`vedette.log` alone is enough, and steps count up from the last explicit one."""
    finish(
        """
        import vedette
        vedette.log({"x": 1.0})
        vedette.log({"x": 2.0}, step=10)
        vedette.log({"x": 3.0})
        vedette.config["lr"] = 1
        vedette.summary["best"] = 3
        vedette.mark("here")
        """
    )

    [run] = read_runs(home)
    assert run.name == "script0"
    assert run.history("x").step.tolist() == [0, 10, 11]
    assert run.config == {"lr": 1}
    assert run.summary["best"] == 3


def test_mode_off_does_nothing_at_all(home, finish):
    """With VEDETTE_MODE=off every call is a no-op and nothing is written."""
    code, _, err = finish(
        """
        import vedette
        with vedette.init(config={"a": 1}) as run:
            run.log({"x": 1}); run.metric("y", 2); run.series("z")(3); run.mark("m"); run.config["b"] = 2
            assert run.config == {"a": 1, "b": 2}
        """,
        environ={"VEDETTE_MODE": "off"},
    )

    assert (code, err) == (0, "")
    assert os.listdir(home.root) == []


def test_a_second_init_finishes_the_first_run(home, finish):
    """A loop over configurations that never calls finish() makes one finished run for each."""
    finish(
        """
        import vedette
        for lr in (1, 2, 3):
            run = vedette.init(config={"lr": lr})
            run.log({"x": lr})
        """
    )

    runs = eventually(lambda: (r := read_runs(home)) and all(v.state == "done" for v in r) and r)
    assert [(view.config["lr"], view.history("x").value.tolist()) for view in runs] == [(1, [1]), (2, [2]), (3, [3])]


def test_logs_follow_until_the_run_ends(home, hub, start):
    """`vedette logs -f` prints what happens as it happens, and ends with the run."""
    job = start(
        """
        import sys, vedette
        run = vedette.init(name="followed")
        run.mark("first")
        print("ready", flush=True)
        sys.stdin.readline()
        run.mark("second")
        """,
        stdin=subprocess.PIPE,
    )
    assert job.stdout.readline() == "ready\n"
    follow = subprocess.Popen(
        [sys.executable, "-m", "vedette", "logs", "followed", "-f"], text=True, stdout=subprocess.PIPE
    )
    assert follow.stdout.readline().endswith("first\n")
    job.communicate("go\n")

    rest, _ = follow.communicate(timeout=20)
    assert rest.rstrip().endswith("second")
