"""`vedette diff` and `vedette compare`, as a user calls them, and the same in Python."""

import json

import pytest

import vedette
from tests.rooms.conftest import Maker, call
from tests.rooms.staged import OTHER, PAIRS, START, Stage
from vedette import app
from vedette.access.home_access import HomeAccess
from vedette.errors import NotFoundError
from vedette.query.diff import shown
from vedette.store.sqlite import SqliteStore


@pytest.fixture
def staged(home):
    """A home with a pair of runs that differ by one line of code, and its bytes."""
    home.prepare()
    store = SqliteStore(home.store)
    stage = Stage(Maker(store))
    stage.run("a1", START, tag={"x": True})
    stage.run("b1", OTHER, **PAIRS["a line of code"][0])
    stage.run("b2", OTHER, **PAIRS["a config key"][0])
    store.close()
    for digest, data in stage.blobs.items():
        path = f"{home.root}/blobs/{digest[:2]}"
        __import__("os").makedirs(path, exist_ok=True)
        with open(f"{path}/{digest[2:]}", "wb") as file:
            file.write(data)
    return home


def test_diff(staged):
    """The cause comes first, then each part that differs, with real lines of code, then what came out."""
    done = call("diff", "a1", "b1", home=staged.root)
    lines = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert lines[lines.index("most likely causes") + 1].split()[1:3] == ["code", "train.py"]
    for text in (
        "    -scale = 1.0",
        "    +scale = 1.5",
        "output_dir",
        "/out/b",
        "camp-2",
        "step 0",
        "steps per second",
    ):
        assert text in done.stdout
    assert "batch_size" not in done.stdout
    assert "less likely: --all" in done.stdout


def test_all(staged):
    """With --all there is what is equal, too, and every cause."""
    done = call("diff", "a1", "b1", "--all", home=staged.root)

    assert "batch_size" in done.stdout
    assert "less likely" not in done.stdout
    assert "-# Hello" in done.stdout


def test_json(staged):
    """With --json it is what the page gets."""
    found = json.loads(call("diff", "a1", "b2", "--json", home=staged.root).stdout)

    assert found["causes"][0]["text"] == "config.lr is 0.1 in A and 0.01 in B"
    assert found["a"]["id"] == "a1"


@pytest.mark.parametrize("args", [("diff", "a1", "nobody"), ("diff", "a1"), ("compare",), ("compare", "nobody")])
def test_mistakes(staged, args):
    """A run that is not there, or not said, is one sentence."""
    done = call(*args, home=staged.root)

    assert done.returncode == 2
    assert done.stderr.startswith("vedette: ")
    assert done.stderr.count("\n") == 1


def test_a_damaged_blob(staged):
    """Bytes that are not what their digest says are not shown."""
    read = HomeAccess(staged).read_blob
    digest = app.get("a1").attrs["code.digest"]
    assert read(digest) is not None
    with open(f"{staged.root}/blobs/{digest[:2]}/{digest[2:]}", "ab") as file:
        file.write(b"more")

    assert read(digest) is None
    assert "its files are not here" in call("diff", "a1", "b1", home=staged.root).stdout
    for text in ("", "..", "../../store.db", "a" * 64, "A" * 64, "a" * 63 + "/"):
        assert read(text) is None


def test_compare(staged):
    """Runs stand beside each other, with what differs and their last values."""
    done = call("compare", "a1", "b1", "b2", home=staged.root)

    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["a1", "b1", "b2"]
    assert "config.lr" in done.stdout
    assert "metric.loss" in done.stdout
    assert "config.batch_size" not in done.stdout
    assert "keys are equal" in done.stderr
    assert "config.batch_size" in call("compare", "a1", "b1", "--all", home=staged.root).stdout


def test_compare_many(staged):
    """Many runs are rows; --where chooses them."""
    store = SqliteStore(staged.store)
    make = Maker(store)
    for n in range(20):
        make.run(f"n{n:02d}", project="many", config={"lr": n})
    store.close()
    done = call("compare", "--where", "project = many", home=staged.root)
    lines = done.stdout.splitlines()

    assert lines[0].split()[:2] == ["RUN", "state"]
    assert len(lines) == 21
    assert (
        len(json.loads(call("compare", "--where", "project = many", "--json", home=staged.root).stdout)["runs"]) == 20
    )
    assert call("compare", "--where", "project = none", home=staged.root).stdout == "no run matches\n"


def test_in_python(staged):
    """`vedette.diff` and `vedette.compare` take names, ids and views."""
    found = vedette.diff("a1", vedette.get("b2"))

    assert found.causes[0].key == "config.lr"
    assert "config.lr" in repr(found)
    assert vedette.diff("a1", "b1").sections.code[0].path == "README.md"
    assert len(vedette.compare(vedette.runs()).runs) == 3
    assert [view.id for view in vedette.compare(["b1", "a1"]).runs] == ["b1", "a1"]
    with pytest.raises(NotFoundError):
        vedette.diff("a1", "nobody")


@pytest.mark.parametrize(
    ("value", "text"),
    [("", '""'), (" a", '" a"'), ("a", "a"), (None, "none"), (True, "true"), (0.1, "0.1"), (1e-05, "1e-05"),
     ([1], "[1]"), ("x" * 100, "x" * 29 + "…" + "x" * 30)],
)  # fmt: skip
def test_how_values_are_said(value, text):
    """A value in a sentence is short, and an empty text can be seen."""
    assert shown(value) == text
