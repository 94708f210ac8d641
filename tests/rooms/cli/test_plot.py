"""Curves in the terminal: what is drawn, where it goes, and that all points count."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import vedette
from tests.journeys.conftest import eventually
from tests.rooms.conftest import Maker, call
from vedette.store.sqlite import SqliteStore
from vedette.views.plot import Curve, draw, smoothed

LOSS = np.exp(-np.arange(3000) / 500)


@pytest.fixture
def runs(home):
    """A home with two runs that have a loss, one of them by rank, and one without."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("r1", "alpha")
    make.points("r1", "loss", LOSS.tolist())
    make.run("r2", "beta")
    make.points("r2", "loss", [1.0, float("nan"), 3.0], {"rank": "0"})
    make.points("r2", "loss", [2.0, 4.0], {"rank": "1"})
    make.run("r3", "gamma")
    store.close()
    return home


def test_in_a_pipe(runs):
    """A pipe gets plain text of eighty columns with a letter for each curve, and a legend; who has none is named."""
    done = call("plot", "alpha", "beta", "gamma", "loss")

    assert (done.returncode, done.stderr) == (0, "without loss: gamma\n")
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert max(map(len, lines)) <= 80
    assert lines[-3:] == ["a alpha  last 0.00248371", "b beta loss[rank=0]  last 3", "c beta loss[rank=1]  last 4"]
    assert any(re.search(r"┤.*a", line) for line in lines)


def test_as_json(runs):
    """JSON has every point, as `points` prints them, over steps or over the time since the start."""
    told = json.loads(call("plot", "alpha", "loss", "--json").stdout)
    [curve] = told["curves"]
    assert (curve["run"], curve["run_name"], curve["x"]) == ("r1", "alpha", list(range(3000)))
    assert np.array_equal(curve["value"], LOSS)
    timed = json.loads(call("plot", "beta", "loss[rank=1]", "--x", "time", "--json").stdout)
    assert [(curve["tags"], curve["x"], curve["value"]) for curve in timed["curves"]] == [
        ({"rank": "1"}, [0.0, 1.0], [2.0, 4.0])
    ]


def test_runs_by_a_filter(runs):
    """Runs come from --where, too; if there are more than --limit, that is said."""
    assert call("plot", "--where", "name = nobody", "loss").stdout == "no run matches\n"
    done = call("plot", "--where", "metric.loss.max > 0", "--limit", "1", "loss", "--json")
    assert done.stderr == "only the newest 1; --limit 0 shows all\n"
    assert {curve["run_name"] for curve in json.loads(done.stdout)["curves"]} == {"beta"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("alpha", "los"), "did you mean loss?"),
        (("beta", "loss[rank=9]"), "none of these runs has a series 'loss[rank=9]'; did you mean loss[rank=1]?"),
        (("loss",), "name a run and a series"),
        (("alpha", "loss", "-f", "--json"), "leave out --json"),
        (("alpha", "loss", "--smooth", "2"), "--smooth takes"),
        (("nobody", "loss"), "there is no run 'nobody'"),
    ],
)
def test_what_is_refused(runs, words, sentence):
    """What cannot be drawn is said in one sentence."""
    done = call("plot", *words)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert sentence in done.stderr


def test_smoothing():
    """A smoothed curve is the weighted mean of all points so far, without those that are not finite."""
    y = np.array([np.nan, 1.0, 5.0, np.inf, 2.0])
    weights = 0.8 ** np.array([3, 2, 1, 0])
    assert np.allclose(
        smoothed(y, 0.8)[[1, 2, 4]], [1.0, (0.8 * 1 + 5) / 1.8, weights[1:] @ [1, 5, 2] / weights[1:].sum()]
    )
    assert np.isnan(smoothed(y, 0.8)[0])
    assert smoothed(y, 0) is y


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (80, 24), (500, 200)])
def test_any_size(size):
    """A chart fits a terminal of thirty columns or more, shows the whole range of the values, and hostile names."""
    spike = LOSS.copy()
    spike[1500] = 9.0
    curves = [Curve("alpha\x1b[31m", np.arange(3000.0), spike, 0.5), Curve("b" * 300, np.array([]), np.array([]), None)]
    lines = draw(curves, "loss", "step", *size, colours=False)

    assert max(map(len, lines)) <= max(30, min(200, size[0]))
    assert any(line.strip().startswith("9.0") for line in lines)
    assert "\x1b" not in "".join(lines)
    assert lines[-1].endswith("no points yet")
    assert "\x1b[38;5;12m" in "".join(draw(curves, "loss", "step", *size, colours=True))
    many = draw(curves * 50, "loss", "step", *size, colours=False)
    assert len(many) <= max(12, min(40, size[1]))
    assert re.fullmatch(r"and \d+ more", many[-1])
    assert draw(curves[1:], "loss", "step", *size, colours=False)[0] == "loss: no points yet"


@pytest.mark.parametrize("values", [[1e308, -1e308, 1.7e308], [1e-310, 5e-324, 0.0], [2e300, 1e300, 0.0]])
def test_values_of_any_magnitude(home, values):
    """Values whose difference is infinite, or that need an exponent, are drawn, smoothed and over time, too."""
    _one(home, values)
    for options in ((), ("--smooth", "0.9"), ("--x", "time")):
        done = call("plot", "r1", "loss", *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert max(map(len, done.stdout.splitlines())) <= 80
        if options != ("--smooth", "0.9"):
            for end in (min(values), max(values)):
                assert any(line.strip().startswith(f"{end:g}┤") for line in done.stdout.splitlines())


def test_values_that_are_not_finite(home):
    """Of a series without a finite number that is said, and how many points it has."""
    _one(home, [float("nan"), float("inf"), float("-inf")])
    done = call("plot", "r1", "loss")

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "loss: none of its 3 points is a finite number",
        "a alpha loss  last -inf",
    ]


def _one(home, values):
    """Make a home with one run that has these values."""
    home.prepare()
    store = SqliteStore(home.store)
    Maker(store).run("r1", "alpha")
    Maker(store).points("r1", "loss", values)
    store.close()


JOB = """
import time, vedette
run = vedette.init(name="live")
for step in range(60):
    run.log({"loss": 1 / (1 + step)}, step=step)
    time.sleep(0.02)
"""


def test_following(home, hub):
    """With -f it looks on until the run has ended, and then shows all of it."""
    job = subprocess.Popen([sys.executable, "-c", JOB])
    eventually(lambda: [one for one in vedette.runs() if one.name == "live" and one.series()])
    done = call("plot", "live", "loss", "-f")
    assert job.wait() == 0

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("last 0.0166667")
