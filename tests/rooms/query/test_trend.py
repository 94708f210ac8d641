"""The trend of a series: its whole curve, from the first point to the last, in a few means."""

import math

import numpy as np
import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette.model import LANE_SAMPLES, Origin
from vedette.query import trend
from vedette.query.overview import Trails, overview
from vedette.store import Batch, Block
from vedette.wire import Newest


def _keep(store, value, first=0):
    step = np.arange(first, first + len(value), dtype=np.int64)
    block = Block("r", {}, ("loss",), step + 1, BORN + step * SECOND, step, (np.asarray(value, float),))
    who = Origin("o", span="r", process="r/1/o")
    store.keep([Batch(who, LANE_SAMPLES, int(block.n[-1]), columns=[block])])


@pytest.mark.parametrize("count", [1, 10, 64, 1000, 200_000])
def test_it_is_the_whole_curve(store, make, count):
    """A list shows the curve from its first step on, and not its newest points: each cell is a mean of its share."""
    make.run("r", state="running")
    value = np.linspace(10, 0, count)
    _keep(store, value)
    [line] = overview(store).runs
    assert len(line.trend) == min(64, count)
    share = [part.mean() for part in np.array_split(value, len(line.trend))]
    assert line.trend == pytest.approx(share, abs=0.4)  # of a very long one, some chunks stand for all
    if count <= 1000:
        assert line.trend == pytest.approx([np.mean(part) for part in _shares(value)])
    assert line.last == value[-1]


def _shares(value):
    count = min(64, len(value))
    return [value[n * len(value) // count : (n + 1) * len(value) // count] for n in range(count)]


def test_values_that_are_not_numbers_are_gaps(store, make):
    """A cell without a finite value has none."""
    make.run("r")
    _keep(store, [1.0, math.nan, math.inf, 4.0])
    [row] = store.series(["r"], "loss")
    assert trend.cells(trend.whole(store, row.id)) == pytest.approx([1.0, math.nan, math.nan, 4.0], nan_ok=True)


def test_what_came_since_takes_its_share_alone(store, make):
    """Points that are not sealed yet take the part of the curve that their time has, however many are known."""
    make.run("r", state="running")
    _keep(store, np.zeros(6400))
    trails = Trails()
    trails.watch([("r", "loss")])
    for n in range(200):  # a tenth as long as all before
        t = BORN + 6400 * SECOND + n * 3_200_000_000
        trails.take([Newest("r", "loss", {}, t, 1.0)])
    [line] = overview(store, trails=trails).runs
    assert len(line.trend) <= 64
    assert sum(one > 0.5 for one in line.trend) / len(line.trend) == pytest.approx(1 / 11, abs=0.03)
    assert line.last == 1.0
