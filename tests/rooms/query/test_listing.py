"""Lists of runs for any number of readers: what they remember is bounded, and still right."""

import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette.query import listing as lists
from vedette.query.listing import Listing
from vedette.query.overview import Known, overview
from vedette.wire import Change

NOW = BORN + 100 * SECOND


@pytest.fixture
def few(monkeypatch):
    """A list that remembers three runs."""
    monkeypatch.setattr(lists, "_MOST_KNOWN", 3)
    listing = Listing()
    listing.rest()
    return listing


def test_a_list_remembers_those_that_were_looked_at_last(store, make, few):
    """However many runs come and go, a page that is open for weeks remembers a bounded number of them."""
    runs = [f"r{number}" for number in range(10)]
    for run in runs:
        make.run(run)
        make.points(run, "loss", [3.0, 2.0])
    for run in (*runs, "r7"):
        [line] = few.look(store, [run])[1]
        assert (line.id, line.last) == (run, 2.0)
        assert len(few._known) <= 3
    assert list(few._known) == ["r8", "r9", "r7"]

    _, lines = few.look(store, runs)  # one page of more than that is read, and remembered until the next one

    assert [line.id for line in lines] == runs
    assert list(few._known) == runs
    few.look(store, ["r1"])
    assert list(few._known) == ["r8", "r9", "r1"]


def test_what_was_forgotten_is_read_again(store, make, few):
    """A run that was forgotten while it changed is shown as it is, and so is one that is remembered."""
    for run in ("r0", "r1", "r2", "r3"):
        make.run(run)
        make.points(run, "loss", [3.0])
        few.look(store, [run])
    for run in ("r0", "r3"):
        make.points(run, "loss", [4.0, 1.0], t=BORN + 5 * SECOND)
        few.take(Change(points=[run]))

    assert [few.look(store, [run])[1][0].last for run in ("r0", "r3")] == [1.0, 1.0]


def test_an_overview_remembers_the_runs_that_it_shows(store, make):
    """A screen that is open for weeks remembers the runs that it shows, and none that have left it."""
    known: dict[str, Known] = {}
    make.run("over", start_t=BORN - 90_000 * SECOND)
    make.run("new", state="running", end_t=None, heard_t=NOW)
    overview(store, now=NOW, ended=10, known=known)
    assert set(known) == {"over", "new"}

    overview(store, now=NOW, known=known)

    assert set(known) == {"new"}
