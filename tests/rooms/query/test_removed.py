"""What removing hides, and how it is found again; the store and its runs are made up."""

import os

import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette.errors import AmbiguousError, NotFoundError
from vedette.model import Span
from vedette.query.finding import find, find_removed
from vedette.query.runs import below, select, view
from vedette.store import sqlite_purge
from vedette.store.sqlite_file import open_reader


def shown(store, **kwargs):
    return [view.id for view in select(store, **kwargs)]


@pytest.fixture
def family(store, make):
    """A run with a run below it, and one below that; and one of its own."""
    make.run("top1", "alpha", start_t=BORN)
    make.run("mid1", "beta", start_t=BORN + SECOND)
    make.run("low1", "gamma", start_t=BORN + 2 * SECOND)
    make.run("own1", "delta", start_t=BORN + 3 * SECOND)
    make.facts("mid1", Span("mid1", BORN, parent="top1/1"))
    make.facts("low1", Span("low1", BORN, parent="mid1"))
    return store


def remove(make, run, t=BORN + 9 * SECOND, **attrs):
    make.facts(run, Span(run, t, attrs=attrs or {"removed": True}))


def test_a_removed_run_hides_those_below(family, make):
    """A removed run is not listed, nor are the runs below it, and none of them counts against a limit."""
    remove(make, "top1")

    assert shown(family) == ["own1"]
    assert shown(family, limit=1) == ["own1"]
    assert shown(family, where="name = gamma") == []
    assert shown(family, removed=True) == ["top1"]
    assert [one.id for one in below(view(family, "top1"))] == ["mid1", "low1"]


def test_a_run_that_comes_later_is_hidden_too(family, make):
    """A run that begins below a removed one is hidden from its first word on."""
    remove(make, "top1")
    for number in range(10):
        make.run(f"new{number}", start_t=BORN + 60 * SECOND)
        make.facts(f"new{number}", Span(f"new{number}", BORN, parent="low1"))

    assert shown(family) == ["own1"]
    assert shown(family, limit=1) == ["own1"]


def test_bringing_back(family, make):
    """What is brought back is listed again, with all below it."""
    remove(make, "top1")
    remove(make, "top1", BORN + 10 * SECOND, removed=False)

    assert shown(family) == ["own1", "low1", "mid1", "top1"]
    assert shown(family, removed=True) == []


@pytest.mark.parametrize("text", ["alpha", "top", "mid", "gamma", "top1", "low1"])
def test_finding_what_is_hidden(family, make, text):
    """A hidden run is found by its whole id; by name or beginning there is a sentence that says how to get it back."""
    remove(make, "top1")
    if text.endswith("1"):
        assert find(family, text).id == text
        return
    with pytest.raises(NotFoundError, match="`vedette rm --undo top1` brings it back"):
        find(family, text)


def test_a_hidden_run_is_nobodys_rival(family, make):
    """A name or beginning that a removed run shares with one that is there means the latter."""
    make.run("top2", "alpha", start_t=BORN - SECOND)
    remove(make, "top1")

    assert find(family, "top").id == "top2"
    assert find(family, "alpha").id == "top2"


def test_what_is_gone_for_good(family, make):
    """Of a purged run a sentence is left, and it is in no list."""
    remove(make, "own1")
    make.facts("own1", Span("own1", BORN, state="purged", cause="removed by me", by="user"))

    assert shown(family, removed=True) == []
    assert "own1" not in shown(family)
    for search in (find, find_removed):
        with pytest.raises(NotFoundError, match="run own1 was removed for good: removed by me"):
            search(family, "own1")


def test_finding_what_can_be_brought_back(family, make):
    """`--undo` finds removed runs alone, by id, name or beginning; what is not removed it says so of."""
    make.run("top2", "alpha")
    for run in ("top1", "top2"):
        remove(make, run)

    assert find_removed(family, "top2").id == "top2"
    for text in ("top", "alpha"):
        with pytest.raises(AmbiguousError, match=r"top1 .*top2|top2 .*top1"):
            find_removed(family, text)
    with pytest.raises(NotFoundError, match=r"run own1 .* is not removed"):
        find_removed(family, "delta")
    with pytest.raises(NotFoundError, match="no run 'nobody'"):
        find_removed(family, "nobody")


@pytest.mark.parametrize("bound", [6 << 20, 1 << 30], ids=["bounded", "control"])
def test_a_reader_of_an_old_state_stops_the_deleting(store, make, monkeypatch, bound):
    """While somebody reads an old state, the log beside the store grows to its bound; without one it grows on."""
    monkeypatch.setattr(sqlite_purge, "_MOST_WAL_BYTES", bound)
    for number in range(20):
        make.run(f"r{number}")
        make.points(f"r{number}", "loss", [float(step**3 % 1009) for step in range(4000)])
        make.events(f"r{number}", *(f"{number} words {n}" for n in range(300)))
    path = store.connection.execute("PRAGMA database_list").fetchone()[2]
    reader = open_reader(path)
    reader.connection.execute("BEGIN")
    reader.connection.execute("SELECT count(*) FROM spans").fetchone()
    for number in range(20):
        make.facts(f"r{number}", Span(f"r{number}", BORN, state="purged"))
    for _ in range(1000):
        store.reclaim(20)

    assert (os.stat(path + "-wal").st_size < 8 << 20) == (bound == 6 << 20)

    reader.close()
    while store.reclaim(1000):
        pass
    assert store.series() == []
    assert store.connection.execute("PRAGMA freelist_count").fetchone() == (0,)
