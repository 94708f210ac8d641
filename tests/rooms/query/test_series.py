"""Series: their points by name and tags, and one metric over many runs."""

import math

import numpy as np
import pytest

from vedette.errors import AmbiguousError, NotFoundError
from vedette.query.series import history, over_runs


@pytest.fixture
def some(store, make):
    """A store with two runs and series with and without tags."""
    make.run("r1")
    make.run("r2")
    make.points("r1", "loss", [3.0, 2.0, 1.0])
    make.points("r1", "temp", [50.0], {"sensor": "a", "rank": "0"})
    make.points("r1", "temp", [60.0], {"sensor": "b"})
    make.points("r1", "both", [1.0], {"rank": "1"})
    make.points("r1", "both", [2.0])
    make.points("r2", "loss", [5.0])
    return store


def test_points_of_a_series(some):
    """A series is its steps, times and values as arrays of one length."""
    points = history(some, "r1", "loss")

    assert len(points) == 3
    assert points.step.dtype == points.t.dtype == np.int64
    assert points.step.tolist() == [0, 1, 2]
    assert points.value.tolist() == [3.0, 2.0, 1.0]
    assert np.diff(points.t).tolist() == [10**9, 10**9]


@pytest.mark.parametrize(
    "values",
    [[1, 2, 2**62 + 1], [True, False], [0.1, math.inf, -math.inf], [1, 2.5], [True, 5], [True, 0.5], [2**63, 1]],
)
def test_values_are_what_was_logged(store, make, values):
    """Ints stay ints, bools bools; a mixed column is of the type that holds all its values."""
    make.points("r1", "x", values)
    found = history(store, "r1", "x").value

    assert found.tolist() == values
    assert found.dtype in (np.float64, np.int64, bool)


def test_nan_is_kept(store, make):
    """NaN comes back where it was logged."""
    make.points("r1", "x", [1.0, math.nan, 3.0])

    assert np.isnan(history(store, "r1", "x").value).tolist() == [False, True, False]


def test_types_that_change_over_time(store, make):
    """A series that was bool, then int, then float is one column that holds them all."""
    for n, values in enumerate(([True], [5], [0.5])):
        make.points("r1", "x", values, t=10**18 + n)

    assert sorted(history(store, "r1", "x").value.tolist()) == [0.5, 1.0, 5.0]


def test_points_that_came_in_disorder(store, make):
    """Points are by step and then time, whatever order they came in."""
    make.points("r1", "x", [1.0, 2.0], t=2 * 10**18)
    make.points("r1", "x", [3.0, 4.0], t=10**18)
    points = history(store, "r1", "x")

    assert points.step.tolist() == [0, 0, 1, 1]
    assert points.value.tolist() == [3.0, 1.0, 4.0, 2.0]


def test_points_of_one_step_that_came_in_disorder(store, make):
    """The same holds where all are of one step."""
    make.points("r1", "x", [1.0], t=2 * 10**18)
    make.points("r1", "x", [2.0], t=10**18)

    assert history(store, "r1", "x").value.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(("tags", "value"), [({"sensor": "b"}, 60.0), ({"rank": "0", "sensor": "a"}, 50.0)])
def test_by_tags(some, tags, value):
    """Tags name one series, in any order."""
    assert history(some, "r1", "temp", tags).value.tolist() == [value]


def test_tags_of_other_types(store, make):
    """A tag is text; a number that is asked for is that text."""
    make.points("r1", "temp", [1.0], {"rank": "3"})

    assert history(store, "r1", "temp", {"rank": 3}).value.tolist() == [1.0]


def test_without_tags_is_preferred(some):
    """A name that comes with and without tags means the one without; an only one with tags is meant too."""
    assert history(some, "r1", "both").value.tolist() == [2.0]
    assert history(some, "r1", "both", {}).value.tolist() == [2.0]
    assert history(some, "r1", "both", {"rank": "1"}).value.tolist() == [1.0]


def test_an_only_series_needs_no_tags(store, make):
    """A name that comes with one set of tags alone is found without them."""
    make.points("r1", "temp", [1.0], {"rank": "3"})

    assert history(store, "r1", "temp").value.tolist() == [1.0]


def test_more_than_one(some):
    """A name that comes with several tags, and none of them given, is refused with those there are."""
    with pytest.raises(AmbiguousError, match=r"sensor.*a.*sensor.*b"):
        history(some, "r1", "temp")


@pytest.mark.parametrize(
    ("name", "tags", "hint"),
    [
        ("los", None, "did you mean loss?"),
        ("accuracy", None, "it has both, loss, temp"),
        ("loss", {"rank": "0"}, "loss"),
        ("", None, "it has"),
    ],
)
def test_not_found(some, name, tags, hint):
    """A series that is not there is refused, with the nearest or with those there are."""
    with pytest.raises(NotFoundError) as caught:
        history(some, "r1", name, tags)

    assert repr(name) in str(caught.value)
    assert hint in str(caught.value)


def test_tags_that_are_not_there_are_named(some):
    """Where the name is right and the tags are not, it says so, and does not suggest the very same name."""
    with pytest.raises(NotFoundError) as caught:
        history(some, "r1", "temp", {"sensor": "c"})

    assert "did you mean temp?" not in str(caught.value)
    assert "sensor" in str(caught.value)


def test_a_run_without_series(some, make):
    """A run that logged nothing says so."""
    make.run("r3")
    with pytest.raises(NotFoundError, match="it has none"):
        history(some, "r3", "loss")


def test_over_runs(some):
    """One metric of many runs comes in one read; runs without it are left out."""
    found = over_runs(some, ["r1", "r2", "nobody"], "loss")

    assert {run: points.value.tolist() for run, points in found.items()} == {"r1": [3.0, 2.0, 1.0], "r2": [5.0]}
    assert over_runs(some, [], "loss") == {}
    assert over_runs(some, ["r1"], "nothing") == {}
