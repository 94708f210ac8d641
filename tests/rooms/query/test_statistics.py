"""Minimum, maximum and mean of a metric in each run, against numpy over all points."""

import numpy as np
import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query.series import history
from vedette.query.statistics import values, with_extremes
from vedette.store import Batch, Columns

RANDOM = np.random.default_rng(3)


def log(store, run, attempt, steps, numbers, tags=None):
    """Keep points of one try of a run, by a process of its own."""
    name = f"{run}-{attempt}-{len(tags or {})}"
    origin = Origin(name, host="camp", pid=7, started=1, span=run, process=f"{run}/{attempt}/{name}")
    facts = [
        Span(run, BORN, state="created", kind="run", name=run),
        Span(f"{run}/{attempt}", BORN + attempt, kind="try", parent=run, attrs={"n": attempt}),
    ]
    store.keep([Batch(origin, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1)))])
    count = len(steps)
    times = [BORN + attempt * 1000 * SECOND + step for step in range(count)]
    columns = Columns(
        run, tags or {}, ("loss",), list(range(1, count + 1)), times, list(steps), [(n,) for n in numbers]
    )
    store.keep([Batch(origin, LANE_SAMPLES, count, columns=[columns])])


@pytest.fixture
def runs(store):
    """A run of one try, one that was resumed, one with NaN and large numbers, one with tags alone, one of nothing."""
    log(store, "plain", 1, range(9000), RANDOM.normal(size=9000).tolist())
    log(store, "again", 1, range(6000), [-100.0, *RANDOM.normal(size=5998).tolist(), 100.0])
    log(store, "again", 2, [0, *range(5999, 7000)], RANDOM.normal(size=1002).tolist())
    log(store, "holes", 1, range(5), [1e8, float("nan"), 1e8 + 1, 1e8 + 2, float("nan")])
    log(store, "ranks", 1, range(3), [1.0, 2.0, 6.0], {"rank": "0"})
    log(store, "ranks", 2, range(3, 5), [5.0, 7.0], {"rank": "1", "more": "x"})
    log(store, "empty", 1, range(1), [float("nan")])
    return ["plain", "again", "holes", "ranks", "empty", "nobody"]


def test_against_numpy(store, runs):
    """Each is that of the points that `history` returns, without NaN: what a later try logged again does not count."""
    found = {what: values(store, f"loss.{what}", runs) for what in ("min", "max", "mean", "last")}
    for run in ("plain", "again", "holes"):
        points = history(store, run, "loss").value
        for what, expected in (("min", np.nanmin), ("max", np.nanmax), ("mean", np.nanmean)):
            assert found[what][run] == pytest.approx(expected(points), rel=1e-12), (run, what)
    assert np.abs(history(store, "again", "loss").value).max() < 50
    assert store.series(["again"])[0].max == 100
    assert found["last"]["plain"] == history(store, "plain", "loss").value[-1]
    assert all("empty" not in found[what] and "nobody" not in found[what] for what in ("min", "max", "mean"))


def test_with_tags(store, runs):
    """Without a series of no tags all that have tags count together; brackets choose among them."""
    assert [values(store, f"loss.{what}", runs)["ranks"] for what in ("min", "max", "mean", "last")] == [1, 7, 4.2, 7]
    assert values(store, "loss[rank=0].mean", runs) == {"ranks": 3.0}
    assert values(store, "loss[rank=1].max", runs) == {"ranks": 7.0}
    assert values(store, "loss[rank=9]", runs) == {}


def test_a_name_that_ends_like_a_statistic(store, make):
    """A series that is itself called `loss.min` is meant by that name; other runs are asked for their minimum."""
    make.run("r1")
    make.run("r2")
    make.points("r1", "loss.min", [5.0])
    make.points("r1", "loss", [1.0])
    make.points("r2", "loss", [2.0, 3.0])

    assert values(store, "loss.min", ["r1", "r2"]) == {"r1": 5.0, "r2": 2.0}


def test_what_was_read_before(store, runs):
    """A cache gives the same again without reading, and not what has changed since."""
    known = {}
    before = values(store, "loss.mean", runs, known)
    store.connection.execute("UPDATE chunks SET value = x'00'")  # whoever reads one fails
    assert values(store, "loss.mean", runs, known) == before
    with pytest.raises(Exception):  # noqa: B017 - the positive control: without the cache it is read
        values(store, "loss.mean", runs)


def test_a_point_more(store, make):
    """A new point, and a try that begins, are seen in spite of the cache."""
    known = {}
    log(store, "r1", 1, range(3), [1.0, 2.0, 3.0])
    assert values(store, "loss.mean", ["r1"], known) == {"r1": 2.0}
    log(store, "r1", 2, [2], [9.0])
    assert values(store, "loss.mean", ["r1"], known) == {"r1": 4.0}


def test_series_of_a_run_with_tries(store, runs):
    """`show` has minimum and maximum of the points that count, though the store's are of all tries."""
    [row] = with_extremes(store, store.series(["again"]))
    points = history(store, "again", "loss").value

    assert (row.min, row.max) == (points.min(), points.max())
    assert with_extremes(store, store.series(["empty"]))[0].max is None
