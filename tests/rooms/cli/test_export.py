"""What `vedette export` writes, read back, and what it refuses."""

import csv
import io
import json
import math
import os

import numpy as np
import pytest

from tests.rooms.conftest import Maker, call, python
from vedette.query import table
from vedette.query.runs import view
from vedette.store.sqlite import SqliteStore


@pytest.fixture
def filled(home):
    """A home with a few runs in it."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("abc", name="first", project="p")
    make.points("abc", "loss", [1.5, math.nan, math.inf, -0.0, 1 / 3])
    make.points("abc", "count", list(range(10_000)))
    make.points("abc", "good", [True, False], {"side": 'le"ft'})
    make.run("def", name="../etc/passwd", project="p")
    make.points("def", "loss", [7.0])
    store.close()
    return home


def histories(home):
    """Every point of every run, as `history` has it: (run, name, tags, step, t, value)."""
    store = SqliteStore(home.store)
    rows = []
    for run in ("abc", "def"):
        shown = view(store, run)
        for series in shown.series():
            points = shown.history(series.name, series.tags)
            rows += [
                (run, series.name, json.dumps(series.tags, separators=(",", ":")), step, t, repr(float(value)))
                for step, t, value in zip(points.step.tolist(), points.t.tolist(), points.value.tolist(), strict=True)
            ]
    store.close()
    return rows


def test_csv_has_every_point(filled):
    """CSV read back is what `history` has: names, tags, steps, times to the microsecond, values bit by bit."""
    done = call("export", "--where", "project = p", "--format", "csv", "-o", "-", home=filled.root)
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    read = [
        (row["run"], row["name"], row["tags"], int(row["step"]), _nanoseconds(row["t"]),
         repr(float({"True": 1, "False": 0}.get(row["value"], row["value"]))))
        for row in rows
    ]  # fmt: skip

    assert sorted(read) == sorted(histories(filled))


def _nanoseconds(text):
    return int(np.datetime64(text.removesuffix("Z"), "ns").astype(np.int64))


def test_parquet_has_every_point(filled, tmp_path):
    """Parquet read back is what `history` has, with what is known of the runs in its metadata."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "points.parquet")
    done = call("export", "abc", "def", "--format", "parquet", "-o", path, home=filled.root)
    assert (done.returncode, done.stderr) == (0, "")
    read = parquet.read_table(path)

    t = read["t"].cast("int64").to_pylist()
    columns = [read[name].to_pylist() for name in ("run", "name", "tags", "step")]
    assert list(zip(*columns, t, map(repr, read["value"].to_pylist()), strict=True)) == histories(filled)
    assert str(read.schema.field("t").type) == "timestamp[ns, tz=UTC]"
    about = json.loads(read.schema.metadata[b"vedette.runs"])
    assert [(run["id"], run["project"]) for run in about] == [("abc", "p"), ("def", "p")]


def test_arrow_and_pandas(filled):
    """`to_arrow` and `to_pandas` have the same rows."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    store = SqliteStore(filled.store)
    shown = view(store, "abc")
    arrow, frame = shown.to_arrow(), shown.to_pandas()
    store.close()

    assert list(frame.columns) == arrow.column_names == ["run", "name", "tags", "step", "t", "value"]
    assert len(frame) == arrow.num_rows == 10_007
    assert list(map(repr, frame["value"].tolist())) == list(map(repr, arrow["value"].to_pylist()))
    assert frame["t"].astype("int64").tolist() == arrow["t"].cast("int64").to_pylist()


def test_a_run_without_points(home):
    """It has a table without rows, in every form."""
    home.prepare()
    store = SqliteStore(home.store)
    Maker(store).run("abc")
    shown = view(store, "abc")
    assert shown.to_arrow().num_rows == 0
    assert list(shown.to_pandas().columns) == ["run", "name", "tags", "step", "t", "value"]
    store.close()
    for form in ("csv", "parquet", "archive"):
        assert call("export", "abc", "--format", form, home=home.root, cwd=home.root).returncode == 0


def test_points_that_lie_in_disorder_are_put_in_order(store, make):
    """Where a series was not logged in the order of its steps, the table has it sorted, as `history` does."""
    make.run("abc")
    for _ in range(2):  # steps from 0 on, twice
        make.points("abc", "x", [1.0, 2.0, 3.0])
    [stretch] = table.stretches(store, ["abc"])

    assert stretch.points.step.tolist() == [0, 0, 1, 1, 2, 2]
    assert stretch.points.value.tolist() == view(store, "abc").history("x").value.tolist()


def test_the_file_is_named_after_the_run_if_that_is_safe(filled, tmp_path):
    """A run's name becomes that of a file here, and of none elsewhere; several are `runs`."""
    for run in ("abc", "def"):
        assert call("export", run, home=filled.root, cwd=tmp_path).returncode == 0
    done = call("export", "abc", "def", "--json", home=filled.root, cwd=tmp_path)

    assert json.loads(done.stdout)["runs"] == ["abc", "def"]
    assert sorted(os.listdir(tmp_path)) == ["def.vedette", "first.vedette", "runs.vedette"]


def test_what_is_refused(filled, tmp_path):
    """Each mistake is a sentence and exit code 2, and leaves no file, nor harms one that is there."""
    kept = tmp_path / "kept.vedette"
    kept.write_text("mine")
    wrong = {
        "exists already": ("abc", "-o", str(kept)),
        "name a RUN": (),
        "no run matches": ("--where", "project = none"),
        "there is no run": ("nobody",),
        "only --format csv": ("abc", "-o", "-"),
        "a directory": ("abc", "-o", str(tmp_path)),
        "no directory": ("abc", "-o", str(tmp_path / "no" / "a")),
    }
    for words, said in wrong.items():
        done = call("export", *said, home=filled.root, cwd=tmp_path)

        assert (done.returncode, done.stdout) == (2, ""), words
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["kept.vedette"]
    assert kept.read_text() == "mine"
    assert call("export", "abc", "-o", str(kept), "--force", home=filled.root).returncode == 0
    assert kept.read_bytes().startswith(b"vedette archive\n")


def test_what_is_not_installed(filled, tmp_path):
    """Without pyarrow a sentence says what to install."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from vedette.cli import main; main(['export', 'abc', '--format', 'parquet'])"
    )
    done = python(code, environ={"VEDETTE_HOME": filled.root}, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr == "vedette: this needs pyarrow, which is not installed: pip install 'vedette[parquet]'\n"
    assert os.listdir(tmp_path) == []


def test_sync_refuses_in_a_sentence(filled, tmp_path):
    """What is not there, or nothing of ours, is a sentence and exit code 2."""
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "missing", tmp_path / "text", tmp_path, filled.root):
        done = call("sync", str(path), home=filled.root)

        assert (done.returncode, done.stdout) == (2, "")
        assert str(path) in done.stderr
        assert done.stderr.count("\n") == 1


def test_help_has_examples():
    """Both commands explain themselves, with examples."""
    for command in ("sync", "export"):
        done = call(command, "--help")
        assert done.returncode == 0
        assert f"vedette {command} " in done.stdout.partition("examples:")[2]
