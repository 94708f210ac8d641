"""Each command in this very process, over a made-up home: what it says, and its exit code. One hub serves all of them.

`test_cli` calls them as a user does, in processes of their own.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

from tests.conftest import end_hub
from tests.rooms.conftest import BORN, QUICK, SECOND, Maker
from vedette import manifest
from vedette.access.home_access import HomeAccess
from vedette.attached.points import PointReader
from vedette.blobs import Blobs
from vedette.cli import main, reproduce, watch
from vedette.cli.beside import Beside
from vedette.cli.edit import _complete_tags
from vedette.cli.monitor import _complete_pids, _complete_sensors, _complete_sinks
from vedette.cli.output import complete_runs, complete_series, table
from vedette.cli.ranking import complete_columns
from vedette.cli.store_check import check_store
from vedette.client.off import OffRun
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.model import LANE_SAMPLES, Blob, Event, Origin, Span
from vedette.query import cells
from vedette.settings import Settings
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore
from vedette.views.ansi import bare

PACKAGES = b'{"numpy": "2.0"}'


@pytest.fixture(scope="module")
def camp():
    """A home with a run that is done, one that failed, and one that asks something and never ends."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        home = Home(root)
        home.prepare()
        store = SqliteStore(home.store)
        _fill(Maker(store), home)
        store.close()
        yield home
        end_hub(home)


def _fill(make, home):
    made_of = {"host": "camp", "git": {"commit": "a" * 40, "branch": "main"}, "script": "train.py"}
    make.run("r1", "alpha", project="cifar", config={"lr": 0.1, "seed": 1}, argv=["python", "train.py"], **made_of)
    make.run(
        "r2", "beta", "failed", cause="ValueError: it broke", project="cifar", config={"lr": 0.2, "seed": 1},
        argv=["python", "train.py", "--lr", "0.2"], notes="too high", tag={"best": True}, **made_of,
    )  # fmt: skip
    make.run("r3", "gamma", "running", project="mnist")
    make.points("r1", "loss", [1 / (1 + step) for step in range(50)])
    make.points("r2", "loss", [1 / (1 + step) for step in range(9)] + [float("nan")] * 41)
    make.points("r1", "temp", [50.5], {"sensor": "a"})
    make.points("r1", "temp", [60.5], {"sensor": "b"})
    make.events("r1", "the first line", "a second one")
    make.events("r2", "Traceback: it broke", kind="exception", level=40)
    make.facts(
        "r2",
        Span("r2/1", BORN, "failed", "ValueError: it broke", kind="try", parent="r2", attrs={"n": 1}),
        Span("r2/1/o", BORN, "failed", kind="process", name="main 7", parent="r2/1", attrs={"host": "camp", "pid": 7}),
    )
    make.facts(
        "r3",
        Span("r3/bar", BORN, kind="progress", name="epoch", parent="r3", attrs={"total": 10}, at=4.0),
        Event("r3", BORN, "ask", text="go on?", attrs={"ask": "q1", "process": "r3/1/o"}),
    )
    digest, _ = Blobs(home).keep(PACKAGES)
    make.facts("r1", Blob("r1", BORN, "packages.json", digest, len(PACKAGES), "application/json"))
    used = [(12.5, 1 << 20), (25.0, 2 << 20)]
    columns = Columns("r2/1/o", {}, ("cpu_percent", "memory_bytes"), [1, 2], [BORN, BORN + SECOND], [0, 1], used)
    make.store.keep([Batch(Origin("meter", host="camp"), LANE_SAMPLES, 2, columns=[columns])])


@pytest.fixture
def say(camp, capsys, monkeypatch):
    """Calls the command line with some words; returns its exit code, and what it wrote to stdout and stderr."""
    for name, value in {**QUICK, "VEDETTE_HOME": camp.root}.items():
        monkeypatch.setenv(name, value)

    def said(*words):
        with pytest.raises(SystemExit) as left:
            main(list(words))
        out, err = capsys.readouterr()
        return left.value.code, out, err

    return said


class Terminal(io.StringIO):
    """A stdout that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def drawn(camp, monkeypatch):
    """Calls the command line with some words on a terminal of 100 columns; returns what was drawn."""
    for name, value in {**QUICK, "VEDETTE_HOME": camp.root, "COLUMNS": "100", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)

    def said(*words):
        screen = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            with pytest.raises(SystemExit):
                main(list(words))
        return screen.getvalue()

    return said


def test_ls(say, drawn):
    """`ls` lists the runs, as a table, as JSON and on a terminal, and says when none fits."""
    code, out, err = say("ls")
    assert (code, err) == (0, "")
    assert sorted(line.split()[1] for line in out.splitlines()[1:]) == ["alpha", "beta", "gamma"]
    told = {row["name"]: row for row in json.loads(say("ls", "--json")[1])}
    assert told["beta"]["cause"] == "ValueError: it broke"
    assert told["gamma"]["fraction"] == 0.4
    assert say("ls", "--state", "failed", "--project", "cifar")[1].count("\n") == 2
    assert say("ls", "--where", "config.lr > 7")[1] == "no run matches\n"
    code, _, err = say("ls", "--where", f"name = {'a' * 100_000}")
    assert (code, err) == (
        2, "vedette: the filter has 100007 characters, and takes 100000 at most: ask in several parts\n"
    )  # fmt: skip
    assert say("ls", "--removed")[1] == "no run is removed\n"
    assert "\x1b[" in drawn("ls")


def test_order_and_columns(say):
    """`ls` and `compare` sort by any value, show the columns that are asked for, and only the best."""
    told = json.loads(say("ls", "--sort", "lr", "--columns", "lr,loss.min,loss.mean,loss.last,cause", "--json")[1])
    assert [row["name"] for row in told] == ["alpha", "beta", "gamma"]
    beta = [1 / (1 + step) for step in range(9)]
    assert told[1]["columns"] == {
        "lr": 0.2, "loss.min": min(beta), "loss.mean": pytest.approx(np.mean(beta)), "loss.last": "nan",
        "cause": "ValueError: it broke",
    }  # fmt: skip
    assert [row["name"] for row in json.loads(say("ls", "--sort=-loss.mean", "--json")[1])] == [
        "beta",
        "alpha",
        "gamma",
    ]
    assert json.loads(say("ls", "--sort", "name", "--reverse", "--json")[1])[0]["name"] == "gamma"
    code, out, err = say("ls", "--best", "1", "--columns", "lr,metric.temp[sensor=b]")
    assert (code, err) == (0, "the best by loss; --sort chooses another\n")
    assert out.split("\n")[1].split()[1] == "alpha"
    assert "60.5" in out
    assert len(json.loads(say("ls", "--best", "9", "--sort", "loss.min", "--json")[1])) == 2
    assert [row["name"] for row in json.loads(say("ls", "--best", "9", "--sort", "loss", "--json")[1])] == ["alpha"]
    compared = say("compare", "--best", "2", "--sort", "loss.min", "--columns", "lr,loss.min")[1].splitlines()
    assert [line.split()[0] for line in compared] == ["alpha", "state", "cause", "age", "took", "lr", "loss.min"]
    told = json.loads(say("compare", "alpha", "beta", "--sort=-lr", "--columns", "lr", "--json")[1])
    assert [one["values"] for one in told["columns"]] == [[0.2, 0.1]]
    for words, sentence in {
        ("ls", "--sort", "los"): "did you mean loss?",
        ("ls", "--columns", "nothing"): "they have loss, lr, seed, temp[sensor=a], temp[sensor=b]",
        ("ls", "--best", "1", "--sort", "seed"): "--sort=-seed",
        ("ls", "--best", "0", "--sort", "loss"): "--best: it takes a number from 1 on, not '0'",
        ("compare", "--best", "00"): "--best: it takes a number from 1 on, not '00'",
        ("ls", "--sort="): "--sort: it takes a name, such as metric.loss",
        ("ls", "--sort=-"): "--sort: it takes a name, such as metric.loss",
        ("ls", "--sort=metric."): "'metric.' names no value: say which, as in metric.loss",
        ("ls", "--best", "1", "--sort", "config."): "'config.' names no value",
        ("ls", "--columns", "lr,packages."): "'packages.' names no value: say which, as in packages.NAME",
    }.items():
        code, out, err = say(*words)
        assert (code, out) == (2, "")
        assert sentence in err


def test_eighty_columns(drawn, monkeypatch):
    """On a terminal of eighty columns `ls` and `compare` show cause, age and duration, and no line is cut by it."""
    for words in (("ls",), ("ls", "--columns", "lr,loss.min"), ("compare", "alpha", "beta")):
        monkeypatch.setenv("COLUMNS", "80")
        lines = [bare(line) for line in drawn(*words).splitlines()]
        assert max(len(line) for line in lines) <= 80
        text = "\n".join(lines).lower()
        assert all(word in text for word in ("valueerror: it", "age", "took", "10s", "failed"))


def test_more_columns_than_fit(drawn, home, monkeypatch, capsys):
    """On eighty columns what differs, and what is asked for, is shown before ages; how much does not fit is said."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    for n in range(5):
        config = {"lr": 0.1 * n, "batch_size": n, "weight_decay": n, "dropout": n / 10, "hidden_size": 64 * n}
        make.run(f"r{n}", f"run-{n}", config=config, host=f"host-{n}")
        for name in ("loss", "accuracy", "recall", "precision"):
            make.points(f"r{n}", name, [n / 7])
        make.points(f"r{n}", "constant", [1.0])
    store.close()
    monkeypatch.setenv("VEDETTE_HOME", str(home.root))
    monkeypatch.setenv("COLUMNS", "80")

    lines = [bare(line) for line in drawn("compare", "--where", "name != x").splitlines()]
    headers = lines[0].split()
    assert max(map(len, lines)) <= 80
    assert headers[:2] == ["RUN", "state"]
    assert {header.partition(".")[0] for header in headers[2:]} == {"metric", "config"}
    assert "metric.constant" not in headers
    left_out = re.search(r"no room for (\d+) columns: .*--columns.*--json", capsys.readouterr().err)
    monkeypatch.setenv("COLUMNS", "200")  # runs are columns there, and keys are rows
    keys = [bare(line).split()[0] for line in drawn("compare", "--where", "name != x").splitlines()[2:]]
    assert set(headers[1:]) < set(keys)
    assert len(keys) == len(headers) - 1 + int(left_out[1])
    assert "no room" not in capsys.readouterr().err

    asked = ["lr", "batch_size", "weight_decay", "loss.min", "accuracy.max", "recall.mean", "hidden_size"]
    for command in ("ls", "compare"):
        monkeypatch.setenv("COLUMNS", "80")
        headers = bare(drawn(command, "--where", "name != x", "--columns", ",".join(asked)).splitlines()[0]).split()
        shown = [name for name in headers if name in asked]
        assert asked[: len(shown)] == shown != asked
        assert not {"AGE", "TOOK", "age", "took"} & set(headers)
        assert "no room for" in capsys.readouterr().err
        monkeypatch.setenv("COLUMNS", "200")
        assert all(name in drawn(command, "--where", "name != x", "--columns", ",".join(asked)) for name in asked)
        assert "no room for" not in capsys.readouterr().err


def test_last_values_are_not_cut_in_two(drawn, home, monkeypatch):
    """On a narrow terminal `ls` shows fewer digits and fewer values; each number has its exponent."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    for n, (name, value) in enumerate({"loss": 1.234567e-07, "a/loss": 1.234567e08, "x" * 60: 1.5e-300}.items()):
        make.run(f"r{n}", f"run-{n}")
        make.points(f"r{n}", name, [value])
        make.points(f"r{n}", "zloss", [value])
    store.close()
    monkeypatch.setenv("VEDETTE_HOME", str(home.root))
    for columns in ("80", "72", "66"):
        monkeypatch.setenv("COLUMNS", columns)
        text = bare(drawn("ls"))
        assert "LAST VALUES" in text
        assert max(map(len, text.splitlines())) <= int(columns)
        shown = re.findall(r"=(\S*?)(?:,|\s|$)", text)
        assert {float(value) for value in shown} <= {
            1.2e-07,
            1.23e-07,
            1.2e08,
            1.23e08,
            1.23457e-07,
            1.23457e08,
            1.5e-300,
        }
        assert len(shown) >= 3


def test_show(say, drawn):
    """`show` says all that is known of a run: config, series, bars, processes, and why it failed."""
    out = say("show", "alpha")[1]
    assert all(word in out for word in ("cifar", "lr", "loss", "temp[sensor=a]", "aaaaaaaaaaaa on main"))
    failed = say("show", "beta", "--lines", "5")[1]
    assert all(word in failed for word in ("failed: ValueError: it broke", "main 7", "the exception that ended it"))
    assert "epoch" in say("show", "gamma")[1]
    assert "last        no line yet, no point yet, no CPU use yet" in say("show", "gamma")[1]
    told = json.loads(say("show", "beta", "--json")[1])
    assert [row["name"] for row in told["processes"]] == ["main 7"]
    assert "loss" in drawn("show", "alpha")


def test_points(say):
    """`points` prints the points of a series, by its tags if need be."""
    rows = list(csv.DictReader(io.StringIO(say("points", "alpha", "loss")[1])))
    assert [float(row["value"]) for row in rows] == [1 / (1 + step) for step in range(50)]
    assert json.loads(say("points", "alpha", "temp", "--tag", "sensor=b", "--json")[1])["value"] == [60.5]
    assert say("points", "alpha", "los")[0] == 2
    assert "did you mean loss?" in say("points", "alpha", "los")[2]
    assert say("points", "alpha", "loss", "--tag", "nonsense")[0] == 2


def test_logs(say, drawn):
    """`logs` prints what happened, filtered, as lines or JSON, and follows a run to its end."""
    assert "the first line" in say("logs", "alpha")[1]
    assert "ERROR" in say("logs", "--level", "error")[1]
    assert json.loads(say("logs", "beta", "--json", "-n", "1")[1])["kind"] == "exception"
    assert say("logs", "alpha", "--grep", "nowhere") == (0, "", "no line matches\n")
    assert "a second one" in say("logs", "alpha", "--follow")[1]
    assert "\x1b[" in drawn("logs", "beta")


def test_watch(say):
    """`watch` shows a run that has ended, and exits with 0 if it was done and with 1 if not."""
    code, out, _ = say("watch", "alpha", "--plain")
    assert code == 0
    assert "a second one" in out
    code, out, _ = say("watch", "beta", "--json")
    assert code == 1
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert kinds[-1] == "end"
    assert "event" in kinds


def test_a_store_that_is_being_made(home):
    """Where a hub is just making the store, `watch` waits for it, and `doctor` does not take it for damaged."""
    home.prepare()
    with contextlib.closing(sqlite3.connect(home.store)) as making:
        making.execute("PRAGMA journal_mode = WAL")

        assert os.path.getsize(home.store) > 0
        assert watch._opened(HomeAccess(home)) is None
        assert check_store(home) == [("store", f"{home.store} does not exist yet", "")]


def test_top(say, drawn):
    """`top` without a screen says once which runs are alive, or have ended, and on which hosts."""
    code, out, _ = say("top", "--once", "--all")
    headers = next(line.split() for line in out.splitlines() if line.startswith("STATE"))
    assert "TOOK" in headers  # as in `ls`, where an age is how long ago a run began
    assert "AGE" not in headers
    assert code == 0
    assert all(name in out for name in ("alpha", "beta", "gamma"))
    assert {row["name"] for row in json.loads(say("top", "--json")[1])["runs"]} == {"gamma"}
    assert say("top", "--once", "--interval", "0")[0] == 2
    assert "alpha" in drawn("top", "--once", "--all")


def test_files(say, tmp_path, drawn):
    """`files` lists what a run has saved, and writes one out, never over a file that is there."""
    assert "packages.json" in say("files", "alpha")[1]
    assert json.loads(say("files", "alpha", "--json")[1])[0]["here"] is True
    assert say("files", "beta")[2] == "the run has saved no files\n"
    assert say("files", "alpha", "packages.json", "-o", str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "out").read_bytes() == PACKAGES
    assert say("files", "alpha", "packages.json", "-o", str(tmp_path / "out"))[0] == 2
    assert say("files", "alpha", "packages.json", "-o", str(tmp_path / "out"), "--force")[0] == 0
    assert drawn("files", "alpha", "packages.json").strip() == PACKAGES.decode()


def test_usage(say, tmp_path):
    """`usage` draws what the processes of a run used, or says why nothing was measured."""
    assert "CPU" in say("usage", "beta")[1]
    told = json.loads(say("usage", "beta", "--json")[1])
    assert told["processes"][0]["peak"]["cpu_percent"] == 25.0
    assert say("usage", "beta", "--html", str(tmp_path / "usage.html"))[1].strip() == str(tmp_path / "usage.html")
    assert "<html" in (tmp_path / "usage.html").read_text()
    code, out, err = say("usage", "alpha")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert say("usage", "beta", "--html", str(tmp_path / "nowhere" / "x"))[0] == 2


def test_a_series_is_called_the_same_everywhere(say, home, monkeypatch):
    """`diff` and the charts of a notebook write the tags of a series as all other commands do, and as they take it."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    for run in ("r1", "r2"):
        make.run(run, run)
        make.points(run, "loss", [2.0, 1.0, float(run[1])], {"rank": "1", "device": "a"})
    make.points("r1", "acc", [0.5], {"rank": "0"})
    store.close()
    monkeypatch.setenv("VEDETTE_HOME", str(home.root))

    assert "loss[device=a,rank=1]" in say("diff", "r1", "r2")[1]
    tiles, _ = PointReader(HomeAccess(home), "r1").read()
    assert [tile.name for tile in tiles] == ["acc[rank=0]", "loss[device=a,rank=1]"]


def test_diff_of_a_run_that_stopped_early(say, home, monkeypatch):
    """Where two curves are equal until one of them ends, `diff` says which one ends, and at which step."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    for run, length in (("long", 50), ("short", 11)):
        make.run(run, run)
        make.points(run, "loss", [1 / (1 + step) for step in range(length)])
        make.points(run, "one", [1.0])
    store.close()
    monkeypatch.setenv("VEDETTE_HOME", str(home.root))

    for words, said in ((("long", "short"), "B ends at step 10"), (("short", "long"), "A ends at step 10")):
        rows = say("diff", *words)[1].splitlines()
        assert said in next(row for row in rows if row.strip().startswith("loss"))
        assert "never" in next(row for row in rows if row.strip().startswith("one"))


def test_diff(say, drawn):
    """`diff` names the config key that differs as the first cause, and where the metrics part."""
    code, out, _ = say("diff", "alpha", "beta")
    assert code == 0
    assert "lr" in out.partition("most likely causes")[2].splitlines()[1]
    assert "step 9" in out
    assert json.loads(say("diff", "alpha", "beta", "--json")[1])["causes"][0]["weight"] > 0.5
    assert "--lr 0.2" in say("diff", "alpha", "beta", "--all")[1]
    assert "nothing that was recorded differs" in say("diff", "alpha", "alpha")[1]
    assert "\x1b[1m" in drawn("diff", "alpha", "beta")


def test_compare(say, drawn):
    """`compare` puts runs beside each other: keys that differ, and last values."""
    code, out, err = say("compare", "alpha", "beta")
    assert code == 0
    assert "config.lr" in out
    assert "keys are equal" in err
    assert len(json.loads(say("compare", "--where", "project = cifar", "--json")[1])["runs"]) == 2
    assert say("compare", "--where", "project = nobody")[1] == "no run matches\n"
    assert say("compare")[0] == 2
    assert "metric.loss" in drawn("compare", "alpha", "beta", "gamma", "--all")


def test_sql(say, drawn):
    """`sql` asks the store, the points as a table too; what is wrong with a query is said in a sentence."""
    query = "SELECT run, step, value FROM points WHERE name = 'loss' AND value = 1.0 ORDER BY run"
    assert list(csv.reader(io.StringIO(say("sql", query, "--format", "csv")[1])))[1:] == [
        ["r1", "0", "1.0"],
        ["r2", "0", "1.0"],
    ]
    assert json.loads(say("sql", "SELECT name FROM runs WHERE id = 'r1'", "--json")[1]) == [{"name": "alpha"}]
    assert "points" in say("sql", ".tables")[1]
    assert say("sql", "SELECT nonsense")[0] == 2
    assert "alpha" in drawn("sql", "SELECT name FROM runs", "--format", "csv")


def test_edit(say, camp):
    """`edit` has the hub keep what is said of a run afterwards, and completes its tags."""
    code, out, _ = say("edit", "beta", "--star", "--tag", "odd", "--description", "the one that broke")
    assert code == 0
    assert out.startswith("r2  * beta [best, odd] the one that broke")
    [now] = json.loads(say("edit", "beta", "--no-star", "--untag", "odd", "--notes", "", "--json")[1])
    assert (now["star"], now["tags"], now["notes"]) == (False, ["best"], "")
    asked = argparse.Namespace(home=camp.root, RUN=["beta"])
    assert _complete_tags("be", asked) == ["best"]
    for wrong in ((), ("--name", " "), ("--tag", ""), ("--tag", "x", "--untag", "x"), ("--notes", "x" * 100_001)):
        assert say("edit", "beta", *wrong)[0] == 2


def test_rm(say, monkeypatch):
    """`rm` hides a run and brings it back; for good only by a word of its own where nobody can be asked."""
    assert "beta" in say("rm", "beta", "--dry-run")[1]
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert say("rm", "beta", "--now")[0] == 2
    assert json.loads(say("rm", "beta", "--yes", "--json")[1])[0]["id"] == "r2"
    assert "beta" in say("ls", "--removed")[1]
    assert say("rm", "--undo", "beta", "--yes")[0] == 0
    assert say("ls", "--removed")[1] == "no run is removed\n"
    assert say("rm")[0] == 2
    assert say("rm", "--undo", "--now", "beta")[0] == 2


def test_stop(say):
    """`stop` says of a run that has ended that it has, and of one without a process that nobody can be told.

    What an ended run has left behind is stopped.
    """
    assert say("stop", "alpha") == (0, "run r1 has ended already: done\n", "")
    environ = {**os.environ, "VEDETTE_RUN": "r1", "VEDETTE_TRY": "1"}
    left = subprocess.Popen(["sleep", "60"], env=environ, start_new_session=True)
    assert say("stop", "alpha")[1] == "run r1 has ended already: done; what it has left behind was told to stop\n"
    assert left.wait(10) == -signal.SIGTERM
    assert json.loads(say("stop", "beta", "--json")[1])["state"] == "failed"
    assert say("stop", "gamma", "--grace", "0")[0] == 2
    assert say("stop", "gamma", "--grace", "-1")[0] == 2


def test_answer(say, monkeypatch):
    """`answer` lists the questions that wait, and says when nobody is there to hear the answer."""
    assert say("answer", "gamma", "--list")[1] == "q1  go on?\n"
    assert json.loads(say("answer", "gamma", "--list", "--json")[1])[0]["prompt"] == "go on?"
    assert say("answer", "alpha", "yes")[0] == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    code, _, err = say("answer", "gamma")
    assert code == 2
    assert "not alive here" in err
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "nothing was typed" in say("answer", "gamma")[2]


def test_export_and_sync(say, tmp_path):
    """What `export` has written, `sync` takes in elsewhere, and says that it is here already the second time."""
    archive = str(tmp_path / "alpha.vedette")
    assert say("export", "alpha", "-o", archive)[0] == 0
    assert json.loads(say("export", "alpha", "-o", archive, "--force", "--json")[1])["runs"] == ["r1"]
    assert say("export", "alpha", "-o", archive)[0] == 2
    assert say("sync", archive)[1].endswith("all of it is here already\n")
    assert json.loads(say("sync", archive, "--json")[1])[0]["points"] == 0
    assert say("sync", str(tmp_path / "nothing"))[0] == 2
    rows = list(csv.DictReader(io.StringIO(say("export", "--where", "id = r1", "--format", "csv", "-o", "-")[1])))
    assert len(rows) == 52
    assert say("export")[0] == 2
    assert say("export", "alpha", "-o", "-")[0] == 2


def test_no_text_of_csv_is_a_formula(say, home, monkeypatch, tmp_path):
    """Text that a spreadsheet would run gets a quote in front in every CSV; numbers stay numbers."""
    formulas = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "a\r=1", "a\n=1"]
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("=r1", "=one", note="-5")
    for at, name in enumerate(formulas):
        make.points("=r1", name, [-0.5, float("-inf")], {"=key": formulas[at - 1]})
    make.points("=r1", "x", [1.0], {"=key": "=value"})
    make.points("=r1", "x", [2.0], {"=key": "plain"})
    store.close()
    monkeypatch.setenv("VEDETTE_HOME", home.root)
    monkeypatch.chdir(tmp_path)
    query = "SELECT run AS '=run', name, value, -1 AS n FROM points WHERE name != 'x'"
    asked = (("export", "=r1", "--format", "csv", "-o", "-"), ("points", "=r1", "x"), ("sql", query, "--format", "csv"))
    answers = [list(csv.reader(io.StringIO(say(*words)[1], newline=""))) for words in asked]
    cells = {cell for rows in answers for row in rows for cell in row}

    assert {cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))} == {"-0.5", "-inf", "-1"}
    assert {f"'{text}" for text in (*formulas[:6], "=r1", "=run", "=key", "=value")} <= cells
    assert {*formulas[6:]} <= cells
    assert [row[2:] for row in answers[1]] == [["value", "'=key"], ["1.0", "'=value"], ["2.0", "plain"]]
    assert json.loads(say("sql", "SELECT name FROM runs", "--json")[1]) == [{"name": "=one"}]


def test_reproduce(say, tmp_path):
    """`reproduce` writes what there is of a run, says what is missing, and leaves a full directory alone."""
    code, out, _ = say("reproduce", "alpha", "--dir", str(tmp_path / "again"))
    assert code == 0
    assert "missing" in out
    assert json.loads((tmp_path / "again" / "config.json").read_text()) == {"lr": 0.1, "seed": 1}
    assert "numpy==2.0" in (tmp_path / "again" / "requirements.txt").read_text()
    assert say("reproduce", "alpha", "--dir", str(tmp_path / "again"))[0] == 2
    told = json.loads(say("reproduce", "alpha", "--dir", str(tmp_path / "again"), "--force", "--json")[1])
    assert told["files"] == 0
    assert say("reproduce", "alpha", "--dir", str(tmp_path / "new"), "--run")[0] == 2


def test_reproduce_of_what_a_launcher_started(say, home, monkeypatch, tmp_path):
    """Of ranks, and of a worker of multiprocessing, `reproduce` says that run.sh alone does not run them again."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    spawned = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle=6)"
    make.run("r1", "ranked", argv=["python", "train.py"])
    make.facts("r1", Span("r1/1", BORN, "done", kind="try", parent="r1", attrs={"n": 1, "ranks": 3}))
    make.run("r2", "worker", argv=["python", "-c", spawned, "--multiprocessing-fork"])
    make.run("r3", "plain", argv=["python", "train.py"])
    for run in ("r1", "r2"):
        digest, size = Blobs(home).keep(b"print(1)\n")
        listed = manifest.write([manifest.Entry("train.py", digest, size, 0o644)])
        digest, size = Blobs(home).keep(listed)
        make.facts(run, Blob(run, BORN, manifest.NAME, digest, size, "application/json"))
    store.close()
    monkeypatch.setenv("VEDETTE_HOME", str(home.root))
    monkeypatch.chdir(tmp_path)

    for name, said in {
        "ranked": (
            "it had 3 ranks, and the command line of their launcher is not known: start again-ranked/run.sh by "
            "it, such as `mpiexec -n 3 sh again-ranked/run.sh`"
        ),
        "worker": (
            "its command is that of a worker process, and the command line of the program that started the "
            "worker is not known: start that program again, in again-worker/code"
        ),
    }.items():
        out = say("reproduce", name, "--dir", f"again-{name}")[1]
        assert out.splitlines()[-1] == said
        assert "runs it again" not in out
        readme = (tmp_path / f"again-{name}" / "README.md").read_text()
        assert "not known" in readme
        assert 'python" sh run.sh' not in readme
        assert "Repeats one process of" in (tmp_path / f"again-{name}" / "run.sh").read_text()
        code, out, err = say("reproduce", name, "--dir", f"again-{name}", "--force", "--json", "--run")
        assert (code, json.loads(out)["launch"], err) == (2, said, f"vedette: --run cannot run it: {said}\n")
    assert say("reproduce", "plain", "--dir", "plain/")[1].splitlines()[-1] == "`sh plain/run.sh` runs it again"


@pytest.fixture
def notebook(home, monkeypatch, tmp_path):
    """Makes a run of a notebook with one cell, whose file has this name, as it may come from another machine."""
    home.prepare()
    monkeypatch.setenv("VEDETTE_HOME", home.root)
    monkeypatch.chdir(tmp_path)

    def begin(name, script):
        store = SqliteStore(home.store)
        make = Maker(store)
        make.run(name, notebook="x.ipynb", code={"script": script}, capture="done")
        make.facts(name, Event(name, BORN, "cell", 10, "print(1)", {"n": 1}))
        store.close()

    return begin


def test_reproduce_writes_no_file_that_a_run_names_elsewhere(say, notebook, tmp_path):
    """Whatever a run calls its file, all that is written is below the directory; the run is reproduced all the same."""
    outside = tmp_path / "outside.py"
    outside.write_text("mine")
    for at, script in enumerate(("../../outside.py", str(outside), "a/../../../outside.py", ".git/hooks/x")):
        notebook(f"n{at}", script)
        assert say("reproduce", f"n{at}", "--dir", f"again{at}")[0] == 0
        assert sorted(path.name for path in (tmp_path / f"again{at}" / "code").rglob("*")) == ["notebook.py"]
    assert outside.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["again0", "again1", "again2", "again3", "outside.py"]


def test_reproduce_looks_at_each_path_itself(say, notebook, monkeypatch, tmp_path):
    """A path that nothing else has refused is refused where it is written; without that look it is written outside."""
    notebook("n", "../../outside.py")
    monkeypatch.setattr(cells, "script_of", lambda attrs: attrs["code.script"])
    code, _, err = say("reproduce", "n", "--dir", "again")
    assert (code, "leads out of the package" in err, (tmp_path / "outside.py").exists()) == (2, True, False)
    for path in ("", ".", "..", "/etc/x", "a//b", "a/./b", "a/../b", "a\0b", "a/"):
        with pytest.raises(VedetteError, match="it is not written"):
            reproduce._write_file(str(tmp_path), path, b"x", 0o644)
    reproduce._write_file(str(tmp_path), "a/b", b"x", 0o644)
    assert (tmp_path / "a" / "b").read_bytes() == b"x"
    monkeypatch.setattr(manifest, "path_fault", lambda _: "")
    assert say("reproduce", "n", "--dir", "again", "--force")[0] == 0
    assert (tmp_path / "outside.py").exists()


def test_doctor(say):
    """`doctor` names home, hub, disk, store and sensors, and what to do where something is wrong."""
    _, out, _ = say("doctor")
    assert all(f"  {what} " in out for what in ("versions", "home", "disk", "hub", "spool", "store", "sensors"))
    checks = json.loads(say("doctor", "--json")[1])
    assert any(check["what"] == "store" and "3 runs" in check["found"] for check in checks)


def test_hub(say, camp):
    """`hub` refuses an address that is none before it ends the hub that runs; `--stop` ends it."""
    say("ls")
    before = camp.hub_pid()
    code, _, err = say("hub", "--address", "no:such:port")
    assert code == 2
    assert "port" in err.lower()
    assert camp.hub_pid() == before
    assert say("hub", "--stop") == (0, f"hub {before} ended\n", "")
    assert say("hub", "--stop") == (0, "no hub is running\n", "")


def test_ui_refuses_what_is_open(say):
    """`ui` listens on no network without TLS, on no port that is none, and opens no run that is not there."""
    code, _, err = say("ui", "--host", "0.0.0.0", "--no-browser")
    assert code == 2
    assert "--tls" in err
    assert say("ui", "--port", "70000")[0] == 2
    assert "there is no run" in say("ui", "nobody")[2]
    assert "is not the origin of a site" in say("ui", "--frame", "http://x/y; script-src *", "--port", "0")[2]


@pytest.fixture
def told_of_children():
    """Tell the main thread now and then that a child may have ended: another thread may have swallowed the signal."""
    over = threading.Event()

    def tell():
        while not over.wait(0.05):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGCHLD)

    thread = threading.Thread(target=tell)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("told_of_children")
def test_run_without_a_record(say, monkeypatch):
    """With VEDETTE_MODE=off `run` runs the command all the same, and its exit code is the command's."""
    monkeypatch.setenv("VEDETTE_MODE", "off")
    assert say("run", "--", "sh", "-c", "exit 3")[0] == 3
    assert say("run", "--", "sh", "-c", "kill -9 $$")[0] == 128 + 9
    assert say("run", "--time-limit", "1h30m", "--", "true")[0] == 0


@pytest.mark.usefixtures("told_of_children")
def test_run(say):
    """`run` puts a command on record: its lines, its exit code and why it failed; a new try of it is found by name."""
    code, _, err = say("run", "--name", "delta", "--config", "lr=0.5", "--", "sh", "-c", "echo a line of it; exit 5")
    assert code == 5
    assert err.endswith("delta failed: exit code 5\n")
    assert say("run", "--resume", "delta", "--quiet", "--", "true")[0] == 0
    told = json.loads(say("show", "delta", "--json")[1])
    assert (told["config"], told["asked"]) == ({}, {"lr": 0.5})
    assert [one["state"] for one in told["tries"]] == ["failed", "done"]
    assert "a line of it" in say("logs", "delta")[1]
    assert say("rm", "delta", "--now", "--yes")[0] == 0


@pytest.mark.parametrize("value", ["1e400", "-1e999"])
def test_run_refuses_a_number_that_is_not_finite(say, value):
    """A number of `run --config` that no float can hold is refused, by its key: the program got None for it."""
    code, out, err = say("run", "--config", f"model.lr={value}", "--", "true")

    assert (code, out) == (2, "")
    assert err == f"vedette: --config model.lr={value}: the number is too large; give model.lr another value\n"


@pytest.mark.parametrize(
    "words",
    [(), ("--",), ("--", "no-such-command"), ("--grace", "-1", "--", "true"), ("--time-limit", "soon", "--", "true"),
     ("--config", "nonsense", "--", "true")],
    ids=" ".join,
)  # fmt: skip
def test_run_says_what_is_wrong(say, words):
    """What `run` cannot do it says before anything is run."""
    code, out, err = say("run", *words)

    assert (code, out) == (2, "")
    assert err.startswith("vedette: ")


def test_monitor(say, tmp_path):
    """`monitor` watches a process or a command for a while, into a file or as rows, and sums it up."""
    code, out, _ = say("monitor", "--pid", str(os.getpid()), "--for", "0.3", "--interval", "0.1", "--json")
    assert code == 0
    assert "summary" in json.loads(out.splitlines()[-1])
    code, out, err = say("monitor", "--pid", str(os.getpid()), "--for", "0.2", "--interval", "0.1")
    assert code == 0
    assert "cpu" in out.lower()
    assert str(os.getpid()) in err
    code, _, err = say("monitor", "--to", str(tmp_path / "usage.jsonl"), "--", "sh", "-c", "exit 4")
    assert code == 4
    assert "by the kernel" in err
    assert say("monitor", "--", "no-such-command")[0] == 127


@pytest.mark.parametrize("words", [(), ("--pid", "1", "--", "true"), ("--pid", "1", "--for", "0"), ("--pid", "-5")])
def test_monitor_says_what_is_wrong(say, words):
    """What `monitor` cannot watch it says in a sentence."""
    assert say("monitor", *words)[0] == 2


def test_completion(camp, say):
    """What a shell is offered: runs by id and name, pids, sinks and sensors."""
    assert "complete" in say("completion", "bash")[1]
    assert complete_runs("al", argparse.Namespace(home=camp.root)) == ["alpha"]
    assert complete_runs("al", argparse.Namespace(home="/nonexistent")) == []
    typed = argparse.Namespace(home=camp.root, RUN="alpha")
    assert complete_series("lo", typed) == ["loss"]
    assert complete_series("", argparse.Namespace(home=camp.root, RUN=["nobody"])) == []
    assert "lr,loss.min" in complete_columns("lr,loss.m", typed)
    assert "metric.loss.mean" in complete_columns("metric.loss", typed)
    assert str(os.getpid()) in _complete_pids(str(os.getpid()))
    assert "jsonl:" in _complete_sinks("js")
    assert _complete_sensors("gpu,proc") == ["gpu,process"]


def test_a_table_on_a_narrow_terminal(monkeypatch):
    """On a terminal that is too narrow, columns are left out and others cut, in the order that is said."""
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", screen)
    table(["A", "B", "C"], [["x" * 50, "y" * 30, "z"]], shrink=["A"], drop=["B"], dim={0})

    assert "y" not in screen.getvalue()
    assert "…" in screen.getvalue()
    assert "z" in screen.getvalue()


def test_the_console_beside_a_command_keeps_out_of_its_way():
    """While a command has the whole screen, or takes keys, nothing of ours is drawn; in a pipe nothing ever is."""
    taken = []
    beside = Beside(OffRun(), Settings(), set(), lambda: bool(taken))
    beside.begin()
    with beside.around("stdout", b"\x1b[?1049h"):
        pass
    assert beside._is_occupied()
    with beside.around("stdout", b"text, and then \x1b[?1049l"):
        assert beside._is_occupied()
    assert not beside._is_occupied()
    taken.append("keys")
    assert beside._is_occupied()
    beside.close("alpha", "done", "")
