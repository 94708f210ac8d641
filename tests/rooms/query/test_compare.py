"""Compare: any number of runs beside each other."""

import json

import pytest

from vedette.errors import MissingError, NotFoundError
from vedette.query.compare import compare
from vedette.query.runs import select


def keys(found):
    return {one.key: one for one in found.keys}


@pytest.fixture
def three(store, make):
    """Three runs that differ in some things."""
    make.run("r1", "one", config={"lr": 0.1, "model": {"depth": 3}, "flag": True, "same": [1, {"a": 2}]}, project="p")
    make.run("r2", "two", config={"lr": 1, "model": {"depth": 3}, "flag": 1, "same": [1, {"a": 2}]}, project="p")
    make.run("r3", "three", "failed", config={"lr": 0.1, "model": {"depth": 5}, "extra": None, "same": [1, {"a": 2}]})
    make.points("r1", "loss", [2.0, 1.0])
    make.points("r2", "loss", [3.0])
    make.points("r2", "acc", [0.5])
    return sorted(select(store), key=lambda view: view.id)


def test_which_keys_differ(three):
    """Nested configs are compared key by key; a key that a run has not differs, also from one that is None."""
    found = compare(three)
    known = keys(found)

    assert [view.id for view in found.runs] == ["r1", "r2", "r3"]
    assert (known["config.lr"].differs, known["config.lr"].values) == (True, [0.1, 1, 0.1])
    assert known["config.model.depth"].values == [3, 3, 5]
    assert not known["config.same"].differs
    assert (known["config.extra"].missing, known["config.extra"].types) == ([0, 1], ["none"])
    assert known["config.extra"].differs
    assert known["config.flag"].types == ["number", "true or false"]
    assert (known["project"].differs, known["project"].missing) == (True, [2])
    assert [one.key.startswith("config.") for one in found.keys] == sorted(
        (one.key.startswith("config.") for one in found.keys), reverse=True
    )


@pytest.mark.parametrize(
    ("a", "b", "differs"),
    [(1, 1.0, False), (1, True, True), (0, False, True), ("1", 1, True), (float("nan"), float("nan"), False),
     (None, "", True), ([1, 2], [1, 2.0], False), ([1], [True], True), ({}, [], True), ("a", "A", True),
     (2**53, 2**53 + 1, True), (float("inf"), float("-inf"), True)],
)  # fmt: skip
def test_what_is_the_same(store, make, a, b, differs):
    """1 and 1.0 are the same, as NaN and NaN are; true is no number, and a text is none either."""
    make.run("r1", config={"x": a})
    make.run("r2", config={"x": b})

    assert keys(compare(select(store)))["config.x"].differs is differs


def test_what_the_command_line_gave(store, make):
    """Options and what was asked for are compared like config, and shown once where the config has the same value."""
    make.run("r1", config={"lr": 0.1}, arg={"lr": 0.1, "depth": 2}, asked={"lr": 0.1})
    make.run("r2", config={"lr": 0.2}, arg={"lr": 0.2, "depth": 3}, asked={"lr": 0.3})
    found = compare(sorted(select(store, "arg.depth >= 2"), key=lambda view: view.id))
    known = keys(found)

    assert [one.key for one in found.keys] == ["config.lr", "arg.depth", "asked.lr"]
    assert (known["arg.depth"].values, known["asked.lr"].values) == ([2, 3], [None, 0.3])


def test_metrics(three):
    """A metric is told by how many have it, those of all first, with the last value of each."""
    found = [(one.name, one.runs, one.last) for one in compare(three).metrics]

    assert found == [("loss", 2, [1.0, 3.0, None]), ("acc", 1, [None, 0.5, None])]


def test_tags_and_summaries(store, make):
    """Series with tags and what runs put into their summaries have rows of their own; nothing is left out."""
    make.run("r1", summary={"best": 0.5, "note": "ok"})
    make.run("r2", summary={"best": 0.25})
    make.points("r1", "loss", [2.0])
    make.points("r1", "loss", [4.0], {"rank": "1"})
    make.points("r2", "loss", [3.0], {"rank": "1"})
    found = compare(sorted(select(store), key=lambda view: view.id))

    assert [(one.label, one.runs, one.last) for one in found.metrics] == [
        ("loss", 1, [2.0, None]),
        ("loss[rank=1]", 2, [4.0, 3.0]),
    ]
    assert [(one.key, one.values) for one in found.summary] == [
        ("summary.best", [0.5, 0.25]),
        ("summary.note", ["ok", None]),
    ]
    assert found.as_dict()["metrics"][1]["tags"] == {"rank": "1"}
    table = found.to_pandas()
    assert table["metric.loss[rank=1]"].tolist() == [4.0, 3.0]
    assert table["summary.best"].tolist() == [0.5, 0.25]
    assert "summary.best" not in {one.key for one in found.properties}


def test_properties(three):
    """What differs comes with its distinct values, in order: what charts can be split by."""
    found = {one.key: one.values for one in compare(three).properties}

    assert found["config.lr"] == [0.1, 1]
    assert found["config.model.depth"] == [3, 5]
    assert found["state"] == ["done", "failed"]
    assert found["project"] == ["p", None]
    assert "config.same" not in found
    assert "tags" not in found


def test_one_run_and_none(three):
    """One run differs from nothing; the same twice is one; none is said in a sentence."""
    assert not any(one.differs for one in compare(three[:1]).keys)
    assert len(compare([three[0], three[0]]).runs) == 1
    with pytest.raises(NotFoundError, match="no run to compare"):
        compare([])


def test_json(three):
    """The whole is plain values, in the shape that pages and scripts rely on."""
    found = compare(three).as_dict()

    json.dumps(found)
    assert set(found) == {"runs", "keys", "summary", "metrics", "properties"}
    assert {"id", "name", "project", "state", "start_t", "end_t", "duration_s", "tags"} <= set(found["runs"][0])
    assert {"key", "differs", "values"} <= set(found["keys"][0])
    assert {"name", "runs"} <= set(found["metrics"][0])
    assert {"key", "values"} == set(found["properties"][0])


def test_tables(three):
    """As a DataFrame of pandas or polars it has a row for each run."""
    found = compare(three)
    table = found.to_pandas()

    assert table.index.tolist() == ["r1", "r2", "r3"]
    assert table["config.lr"].tolist() == [0.1, 1.0, 0.1]
    assert table["metric.loss"].tolist()[:2] == [1.0, 3.0]
    frame = found.to_polars()
    assert frame["run"].to_list() == ["r1", "r2", "r3"]
    assert frame["metric.loss"].to_list() == [1.0, 3.0, None]
    assert frame["config.flag"].to_list() == ["true", "1", None]
    assert frame["config.same"].to_list() == ['[1, {"a": 2}]'] * 3


def test_points_as_polars(store, make):
    """The points of a run are one long table, with the columns that pandas and pyarrow have."""
    make.run("r1")
    make.run("r2")
    make.points("r1", "loss", [2.0, float("nan")])
    make.points("r1", "count", [1, 2], {"a": "b"})
    one, empty = (next(view for view in select(store) if view.id == name) for name in ("r1", "r2"))
    frame = one.to_polars()

    assert frame.columns == ["run", "name", "tags", "step", "t", "value"]
    assert frame.shape == (4, 6)
    assert frame.to_pandas()["t"].tolist() == one.to_pandas()["t"].tolist()
    assert frame.schema == empty.to_polars().schema
    assert len(empty.to_polars()) == 0


def test_without_polars(three, monkeypatch):
    """Where polars is not installed, a sentence says what to do."""
    monkeypatch.setitem(__import__("sys").modules, "polars", None)

    for call in (three[0].to_polars, compare(three).to_polars):
        with pytest.raises(MissingError, match=r"vedette\[polars\]"):
            call()


HOSTILE = "<img src=x onerror=alert(1)>\"'&\x1b[31m\x00\u202e"


def test_html_is_harmless(store, make):
    """Whatever a run was told, its HTML has no tag, no attribute and no control of theirs in it."""
    make.run(
        "r1",
        HOSTILE,
        "failed",
        cause=HOSTILE,
        notes=HOSTILE,
        project=HOSTILE,
        config={HOSTILE: HOSTILE},
        tag={HOSTILE: True},
    )
    make.run("r2", "plain")
    make.points("r1", HOSTILE, [1.0], {HOSTILE: HOSTILE})
    views = select(store)

    for text in (*(view._repr_html_() for view in views), compare(views)._repr_html_()):
        assert "<img" not in text
        assert "script" not in text
        assert not {"\x1b", "\x00", "\u202e"} & set(text)
    shown = next(view for view in views if view.id == "r1")._repr_html_()
    assert "&lt;img" in shown


def test_html_says_it(three):
    """A run in a notebook shows what it is, its config and its series; a comparison dims what is equal."""
    text = three[0]._repr_html_()

    for word in ("one", "r1", "done", "model.depth", "0.1", "loss"):
        assert word in text
    assert compare(three)._repr_html_().count("opacity") > 0


def test_a_thousand_keys_of_html(store, make):
    """A long table is cut, and says by how much."""
    make.run("r1", config={f"k{n}": n for n in range(1000)})

    assert "and 500 more" in select(store)[0]._repr_html_()
