"""Runs: found by id, prefix and name, selected, and seen as one object."""

import sys
import time

import numpy as np
import pytest

from tests.conftest import begin_hub
from tests.rooms.conftest import BORN, SECOND, Maker
from vedette import app
from vedette.errors import AmbiguousError, MissingError, NotFoundError
from vedette.model import Span
from vedette.query.finding import find
from vedette.query.runs import RunList, RunView, select
from vedette.query.signs import LastSigns, last_signs
from vedette.store import SpanQuery
from vedette.store.sqlite import SqliteStore


@pytest.fixture
def three(store, make):
    """A store with three runs, two of them of one name."""
    make.run("2pg66a5z1b", "brisk-otter-417", start_t=BORN)
    make.run("2pg66a7777", "twin", start_t=BORN + SECOND)
    make.run("2pg7000000", "twin", start_t=BORN + 2 * SECOND)
    return store


@pytest.mark.parametrize("text", ["2pg66a5z1b", "2pg66a5", "2pg66a5z1", "brisk-otter-417", "brisk"])
def test_found_by_id_prefix_and_name(three, text):
    """A run is found by its id, by its name, and by any unique beginning of these."""
    assert find(three, text).id == "2pg66a5z1b"


@pytest.mark.parametrize(
    ("text", "ids"),
    [("2pg", ["2pg66a5z1b", "2pg66a7777", "2pg7000000"]), ("2pg66", ["2pg66a5z1b", "2pg66a7777"]),
     ("twi", ["2pg66a7777", "2pg7000000"])],
)  # fmt: skip
def test_more_than_one(three, text, ids):
    """What fits more than one run is refused, with all of them and how to go on."""
    with pytest.raises(AmbiguousError) as caught:
        find(three, text)

    assert all(run in str(caught.value) for run in ids)
    assert "more of" in str(caught.value)


def test_a_name_is_that_of_the_newest(three):
    """A whole name that several runs have means the newest of them: scripts are run again and again."""
    assert find(three, "twin").id == "2pg7000000"


def test_very_many(store, make):
    """Of very many that fit, five are named."""
    for n in range(20):
        make.run(f"2pg66{n:05d}", "same")

    with pytest.raises(AmbiguousError, match="and 15 more"):
        find(store, "2pg66")


def test_an_id_is_stronger_than_what_begins_with_it(store, make):
    """An id that is the beginning of others, or the name of another, is that run."""
    make.run("abc", "one")
    make.run("abcd", "two")
    make.run("zzz", "abc")

    assert find(store, "abc").name == "one"


def test_a_whole_name_is_stronger_than_the_beginning_of_an_id(store, make):
    """A run that is called just so is found, even where ids begin with its name."""
    make.run("2pg66a5z1b", "first")
    make.run("2pg66a7777", "2")

    assert find(store, "2").name == "2"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("brisk-otter-471", "did you mean brisk-otter-417?"),
        ("2pg66a5z1x", "did you mean 2pg66a5z1b?"),
        ("nothing like it", "`vedette ls` shows what there is"),
        ("", "`vedette ls` shows what there is"),
    ],
)
def test_not_found(three, text, hint):
    """What fits no run is refused, with the nearest there is."""
    with pytest.raises(NotFoundError) as caught:
        find(three, text)

    assert repr(text) in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize("text", ["%", "_", "2pg66%", "*", "' OR 1=1 --", "\x00", "\U0010ffff", "2pg66\U0010ffff"])
def test_no_wildcards(three, text):
    """What is typed is a beginning, never a pattern."""
    with pytest.raises(NotFoundError):
        find(three, text)


def test_only_runs_are_runs(store, make):
    """Tries and processes are no runs."""
    make.run("abc", "one")
    make.facts("abc", Span("abc/1", BORN, state="running", kind="try", parent="abc", attrs={"n": 1}))

    assert find(store, "a").id == "abc"
    with pytest.raises(NotFoundError):
        find(store, "abc/1")


def test_select_is_newest_first(three):
    """Runs come the newest first, at most as many as are asked for."""
    assert [view.id for view in select(three)] == ["2pg7000000", "2pg66a7777", "2pg66a5z1b"]
    assert [view.id for view in select(three, limit=1)] == ["2pg7000000"]
    assert [view.id for view in select(three, "name = twin", limit=5)] == ["2pg7000000", "2pg66a7777"]
    assert select(three, "name = nobody") == []


def test_select_by_project(store, make):
    """A project is a name, whatever letters it has."""
    for n, project in enumerate(["a", 'a"b', "a\\b", "2024", "a and b"]):
        make.run(f"r{n}", project=project)

    for n, project in enumerate(["a", 'a"b', "a\\b", "2024", "a and b"]):
        assert [view.id for view in select(store, project=project)] == [f"r{n}"]


def test_removed_runs_are_not_shown(store, make):
    """A run that was removed is not listed, and does not count against the limit."""
    make.run("r1", start_t=BORN)
    make.run("r2", start_t=BORN + SECOND, removed=True)

    assert [view.id for view in select(store)] == ["r1"]
    assert [view.id for view in select(store, limit=1)] == ["r1"]


def test_what_a_run_is(store, make):
    """A RunView tells what is known of a run."""
    make.run(
        "r1", "alpha", "failed", cause="exit code 3", project="cifar", notes="n",
        config={"lr": 0.1}, summary={"best": 1}, tag={"b": True, "a": True, "no": False},
    )  # fmt: skip
    make.points("r1", "loss", [2.0, 1.0])
    make.points("r1", "temp", [50.0], {"sensor": "a"})
    [view] = select(store)

    assert (view.id, view.name, view.state, view.cause) == ("r1", "alpha", "failed", "exit code 3")
    assert (view.project, view.tags, view.config) == ("cifar", ["a", "b"], {"lr": 0.1})
    assert (view.start_t, view.end_t, view.duration_s) == (BORN, BORN + 10 * SECOND, 10.0)
    assert view.summary == {"loss": 1.0, "temp[sensor=a]": 50.0, "best": 1}
    assert view.attrs["notes"] == "n"
    assert [row.name for row in view.series()] == ["loss", "temp"]
    assert repr(view) == "<vedette run alpha (r1): failed>"
    history = view.history("loss")
    assert np.array_equal(history.value, [2.0, 1.0])
    assert np.array_equal(history.step, [0, 1])


def test_a_run_of_which_little_is_known(store, make):
    """Where something was never said, it is empty and no error."""
    make.facts("r1", Span("r1", BORN, kind="run"))
    [view] = select(store)

    assert (view.name, view.state, view.cause, view.project) == ("", "", "", "")
    assert (view.tags, view.config, view.summary, view.duration_s) == ([], {}, {}, None)
    assert (view.logs(), view.processes(), view.series()) == ([], [], [])


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lr": 0.1},
        {"a": {"b": {"c": 1, "d": 2}, "e": [1, {"f": 2}]}},
        {"a": {}},
        {"a": None, "b": False, "c": ""},
        {"größe": {"日本": 1}},
        {"configuration": 1, "config": {"config": 2}},
    ],
    ids=repr,
)
def test_config_is_nested_as_it_was_given(store, make, config):
    """A config comes back as it was given."""
    make.run("r1", config=config)

    assert config == select(store)[0].config


@pytest.mark.parametrize(
    "config",
    [
        {"lr": 0.1, "lr.x": 3},
        {"lr.x": 3, "lr": 0.1},
        {"lr.x.y": 4, "lr.x": 3, "lr": 0.1},
        {"model": {"lr.x.y": 3, "lr": 0.1, "depth": {"least": 1}}, "lr": 2},
        {"lr": {}, "lr.x": 3},
    ],
    ids=repr,
)
def test_a_key_and_a_longer_one_are_both_kept(store, make, config):
    """A key that has a value stands beside longer keys that begin with it, in either order."""
    make.run("r1", config=config, arg=config)

    view = select(store)[0]
    assert config == view.config == view.arg


def test_config_from_many_records(store, make):
    """What several processes say of a config adds up, the last writer of each key counting."""
    make.run("r1", config={"a": {"x": 1, "y": 2}})
    make.facts("r1", Span("r1", BORN + 1, attrs={"config": {"a": {"y": 3}, "b": 4}}))

    assert select(store)[0].config == {"a": {"x": 1, "y": 3}, "b": 4}


@pytest.mark.parametrize(
    ("first", "second"),
    [({"opt": {"name": "adam", "lr": 0.1}}, {"opt": "sgd"}), ({"opt": "sgd"}, {"opt": {"name": "adam"}})],
)
def test_config_that_changes_its_shape(store, make, first, second):
    """A key that was a dict and is set to a word is that word, and the other way round: the last writer counts."""
    make.run("r1", config=first)
    make.facts("r1", Span("r1", BORN + 1, attrs={"config": second}))

    assert select(store)[0].config == second


def test_processes_are_oldest_first(store, make):
    """A run's processes are listed as they came."""
    make.run("r1")
    for n, name in enumerate(("main", "child")):
        span = Span(f"r1/1/{name}", BORN + n, state="running", kind="process", name=name, parent="r1/1")
        make.facts("r1", span)
    make.run("r10")
    make.facts("r10", Span("r10/1/x", BORN, state="running", kind="process", name="other", parent="r10/1"))

    assert [row.name for row in select(store, "id = r1")[0].processes()] == ["main", "child"]


@pytest.mark.parametrize(
    ("silent_s", "state", "shown"),
    [(0, "running", "running"), (50, "running", "running"), (70, "running", "lost"), (70, "created", "lost"),
     (10**6, "done", "done"), (10**6, "failed", "failed")],
)  # fmt: skip
def test_lost(store, make, silent_s, state, shown):
    """A run that should be alive, and of which nothing was heard for a minute, is lost; one that ended is not."""
    make.run("r1", state=state, heard_t=time.time_ns() - silent_s * SECOND)

    assert select(store)[0].state == shown


def test_lost_is_the_same_by_every_way(home):
    """`vedette.get` and `vedette.runs` say the same of a lost run."""
    home.prepare()
    store = SqliteStore(home.store)
    Maker(store).run("r1", state="running", heard_t=time.time_ns() - 100 * SECOND)
    store.close()
    begin_hub(home)  # not before: it would create the store at the same time

    assert [view.state for view in app.runs()] == ["lost"]
    assert app.get("r1").state == "lost"


def test_nothing_known_is_not_lost(store, make):
    """A run that is looked at without its life signs is shown as what it said last."""
    make.run("r1", state="running")

    assert RunView(store, store.spans(SpanQuery(kind="run"))[0]).state == "running"


def test_the_python_verbs(home):
    """`vedette.runs` and `vedette.get` read any home, the one in use unless another is named."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("r1", "alpha", project="x", config={"lr": 1})
    make.run("r2", "beta", "failed", project="y")
    store.close()
    begin_hub(home)  # not before: it would create the store at the same time

    assert [view.name for view in app.runs()] == ["beta", "alpha"]
    assert [view.name for view in app.runs("config.lr = 1", home=home.asked)] == ["alpha"]
    assert [view.name for view in app.runs(project="y")] == ["beta"]
    assert app.get("alpha").id == "r1"
    with pytest.raises(NotFoundError):
        app.get("gamma")
    with pytest.raises(NotFoundError, match="nothing has been logged"):
        app.runs(home=home.asked + "/nowhere")


def test_as_a_table(store, make):
    """The runs of `vedette.runs` are a list, and a DataFrame with a row for each and a column for each value."""
    make.run("r1", "one", config={"lr": 0.1}, summary={"best": 2}, project="p")
    make.run("r2", "two", "running", config={"depth": 3}, start_t=BORN + SECOND)
    make.points("r1", "loss", [2.0, 1.0])
    make.points("r1", "loss", [7.0], {"rank": "1"})
    runs = RunList(select(store))
    table = runs.to_pandas()

    assert [view.id for view in runs] == table.index.tolist() == ["r2", "r1"]
    assert table.loc["r1", ["config.lr", "summary.best", "metric.loss", "metric.loss[rank=1]"]].tolist() == [
        0.1,
        2,
        1,
        7,
    ]
    assert table["config.depth"].isna().tolist() == [False, True]
    assert table["end"].isna().tolist() == [True, False]
    assert str(table.loc["r1", "start"]) == "2026-09-21 14:13:20+00:00"
    assert RunList().to_pandas().empty


def test_a_table_without_pandas(store, make, monkeypatch):
    """Where pandas is not installed, a sentence says what to do."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingError, match="pip install pandas"):
        RunList(select(store)).to_pandas()


def test_last_signs(store, make):
    """The last line, point and use of CPU of a run are told; a process that only idles does not count as use."""
    make.run("r1", "one", "running")
    [view] = select(store)
    assert last_signs(store, view) == LastSigns(None, None, None)
    make.facts("r1", Span("r1/1/o", BORN, kind="process", parent="r1/1"))
    make.events("r1", "a line")
    make.points("r1", "loss", [3.0, 2.0, 1.0])
    make.points("r1/1/o", "cpu_percent", [90.0, 50.0, 0.2, 0.0])

    [view] = select(store)
    signs = last_signs(store, view)
    assert (signs.point_t, signs.cpu_t) == (BORN + 2 * SECOND, BORN + SECOND)
    assert signs.line_t == view.logs()[-1].t
