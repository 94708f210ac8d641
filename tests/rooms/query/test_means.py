"""Means, deviations and smoothing of series: from all points, whatever the zoom, against plain numpy."""

import json
import struct
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from tests import plain_means
from tests.rooms import web
from tests.rooms.conftest import BORN, SECOND, Maker
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query import means
from vedette.query.buckets import Smoothing, level_for, merge, summarise
from vedette.query.means import Grid, Means
from vedette.store import Batch, Block

_ZOOMS = ((None, None), (0.2, 0.7), (0.5, 0.502), (0.9, 3.0))
_CHANCE = np.random.default_rng(7)
_NOISE = _CHANCE.normal(0, 1, 10_000)
_ODD = _NOISE.copy()
_ODD[[0, 5, 6, 7, 8, 9, 4095, 4096, 9_999]], _ODD[200:300] = np.nan, np.inf
_CURVES = {
    "a curve": (np.arange(10_000), np.exp(-np.arange(10_000) / 2000) + 0.1 * _NOISE),
    "a large mean": (np.arange(10_000), 1e9 + _NOISE),
    "NaN and infinity": (np.arange(10_000), _ODD),
    "steps with gaps": (np.cumsum(_CHANCE.integers(1, 40, 10_000)) - 7000, _NOISE),
    "steps that come several times": (np.arange(10_000) // 3, _NOISE),
}


def _keep(store, run, step, value, *, process="p", n=1, late=0):
    """Keep a series in chunks, a millisecond from point to point."""
    step, value = np.array(step, np.int64), np.array(value, float)
    number = np.arange(1, len(step) + 1)
    block = Block(run, {}, ("loss",), number, BORN + late + number * 10**6, step, (value,))
    who = Origin(f"{process}-{run}", span=run, process=f"{run}/{n}/{process}")
    store.keep([Batch(who, LANE_SAMPLES, len(step), columns=[block])])


@pytest.mark.parametrize("by_chunks", [True, False])
def test_buckets_are_what_numpy_says(store, make, monkeypatch, by_chunks):
    """At any zoom, over steps and time, buckets and smoothing at their ends are what all points give in numpy."""
    if by_chunks:
        monkeypatch.setattr(means, "_AT_ONCE", 0)
    for number, (name, (step, value)) in enumerate(_CURVES.items()):
        make.run(run := f"r{number}")
        _keep(store, run, step, value)
        [row] = store.series([run], "loss")
        assert len(store.outline(row.id)) > 2, name
        true = {"ema": plain_means.smoothed(value, "ema", 0.9), "gaussian": plain_means.smoothed(value, "gaussian", 8)}
        reader = Means()
        for x, along in (("step", step), ("time", (BORN + np.arange(1, 10_001) * 10**6) / 1e6)):
            for low, high in _ZOOMS:
                ends = [end if end is None else along[0] + end * (along[-1] - along[0]) for end in (low, high)]
                for kind, by in (("ema", 0.9), ("gaussian", 8)):
                    told = reader.read(store, row, x, Grid(200, *ends), Smoothing(kind, by))
                    assert len(told.index) <= 200
                    plain_means.check(told, along, value, *ends, true[kind])


def test_a_smoothed_value_is_the_same_at_every_zoom(store, monkeypatch):
    """Where two zooms have a bucket that ends at the same point, the smoothed value there is the same."""
    monkeypatch.setattr(means, "_AT_ONCE", 0)
    step, value = _CURVES["a curve"]
    _keep(store, "r", step, value)
    [row] = store.series(["r"], "loss")
    seen: dict[float, float] = {}
    common = 0
    for low, high in _ZOOMS:
        ends = (None, None) if low is None else (low * 10_000, high * 10_000)
        told = Means().read(store, row, "step", Grid(500, *ends), Smoothing("ema", 0.99))
        for x, smooth in zip(told.x, told.smooth, strict=True):
            common += x in seen
            assert seen.setdefault(x, smooth) == pytest.approx(smooth, rel=1e-12)
    assert common > 100


def test_what_a_later_try_supersedes_counts_nowhere(store):
    """Of a run that was resumed, each step counts once, as the later try has it; smoothing runs over what stands."""
    Maker(store).run("r")
    for n in (1, 2):
        span = Span(f"r/{n}", BORN, "done", kind="try", parent="r", attrs={"n": n})
        store.keep([Batch(Origin(f"f{n}", span="r"), LANE_FACTS, 1, facts=[(1, span)])])
    _keep(store, "r", np.arange(300), _NOISE[:300], process="a")
    _keep(store, "r", np.arange(200, 500), _NOISE[300:600], process="b", n=2, late=SECOND)
    [row] = store.series(["r"], "loss")
    stands = np.append(_NOISE[:200], _NOISE[300:600])
    told = Means().read(store, row, "step", Grid(64), Smoothing("ema", 0.8))
    plain_means.check(told, np.arange(500), stands, None, None, plain_means.smoothed(stands, "ema", 0.8))
    assert told.count.sum() == 500


def test_processes_that_take_turns_are_smoothed_in_the_order_of_steps(store, make, monkeypatch):
    """Chunks of two processes that overlap are read as one series."""
    monkeypatch.setattr(means, "_AT_ONCE", 0)
    make.run("r")
    for process, first in (("a", 0), ("b", 1)):
        _keep(store, "r", np.arange(first, 1000, 2), _NOISE[first:1000:2], process=process)
    [row] = store.series(["r"], "loss")
    told = Means().read(store, row, "step", Grid(100), Smoothing("ema", 0.9))
    true = plain_means.smoothed(_NOISE[:1000], "ema", 0.9)
    plain_means.check(told, np.arange(1000), _NOISE[:1000], None, None, true)


def test_over_another_metric(store, make):
    """Buckets lie along another metric, too, however fine it is."""
    make.run("r")
    make.points("r", "loss", _NOISE[:500].tolist())
    make.points("r", "epoch", (np.arange(500) / 250).tolist())
    [row] = store.series(["r"], "loss")
    told = Means().read(store, row, "epoch", Grid(100), None)
    assert told.width == 2**-5
    plain_means.check(told, np.arange(500) / 250, _NOISE[:500], None, None)


def test_nothing_but_what_is_not_a_number(store, make):
    """A series without a finite value has buckets without a mean; outside of a series there are none."""
    make.run("r")
    make.points("r", "loss", [float("nan")] * 3)
    [row] = store.series(["r"], "loss")
    told = Means().read(store, row, "step", Grid(10), Smoothing("ema", 0.5))
    assert (told.count.tolist(), told.index.tolist()) == ([0, 0, 0], [0, 1, 2])
    assert np.isnan([told.mean, told.smooth]).all()
    assert len(Means().read(store, row, "step", Grid(10, 50, 60), Smoothing("gaussian", 2.0)).index) == 0


def test_merged_buckets_are_those_of_the_higher_level():
    """Buckets merged into wider ones are the same as wider buckets of all points; their number is bounded."""
    step, value = _CURVES["a large mean"]
    level = level_for(0, 9_999, 100, 0)
    assert level == 7
    fine = [summarise(step[at : at + 1000], value[at : at + 1000], 3) for at in range(0, 10_000, 1000)]
    merged, whole = merge(fine, level), summarise(step, value, level)
    for name in ("index", "x", "count", "mean", "m2"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-6)
    squares = np.add.reduceat(value**2, np.arange(0, 10_000, 128)) - whole.count * whole.mean**2
    assert abs(squares / whole.m2 - 1).max() > 0.1, "sums of squares would do: this shows nothing"


def test_the_page_gets_them_as_columns(store, make):
    """One request has the curve and its buckets; with the cursor of the answer before, only those that changed."""
    make.run("r")
    make.points("r", "loss", _NOISE[:900].tolist())
    wish = {"of": [{"run": "r", "name": "loss"}], "width": 10, "buckets": 100, "smooth": {"kind": "ema", "by": 0.9}}
    with web.site(web.access(store)) as site:
        head, told = _buckets(site, wish)
        plain_means.check(
            told, np.arange(900), _NOISE[:900], None, None, plain_means.smoothed(_NOISE[:900], "ema", 0.9)
        )
        assert _buckets(site, {**wish, "since": head["cursor"]})[1] is None
        for wrong in (
            {"buckets": 10**6}, {"buckets": -1}, {"buckets": 0}, {"smooth": {"kind": "ema", "by": 1}},
            {"smooth": {"kind": "gaussian", "by": 0}}, {"smooth": {"kind": "mean", "by": 0.5}},
        ):  # fmt: skip
            status, _, body = site.ask("POST", "/api/series", {**wish, **wrong})
            assert status == 400, wrong
            assert json.loads(body)["error"]


@pytest.mark.parametrize("sigma", [1e-300, 5e-324, 0.01])
def test_a_tiny_sigma_leaves_each_point_as_it_is(store, make, sigma):
    """A Gaussian that reaches no other point gives each value back, without a warning of numpy."""
    make.run("r")
    make.points("r", "loss", [1.0, 1e308, 3.0, np.nan, -1e308])
    [row] = store.series(["r"], "loss")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = Means().read(store, row, "step", Grid(10), Smoothing("gaussian", sigma))

    assert told.smooth[[0, 1, 2, 4]].tolist() == [1.0, 1e308, 3.0, -1e308]


def test_a_range_of_any_size_in_any_number_of_buckets(store, make):
    """Steps on both sides of 0, huge ranges and huge values are answered: in one bucket, or two around 0."""
    make.run("r")
    step, value = [-5, 0, 1, 2, 2**62], [1e308, -1e308, 1.7e308, np.nan, np.inf]
    _keep(store, "r", step, value)
    _keep(store, "r", step, value, process="q")
    make.points("r", "far", value)
    wish = {"of": [{"run": "r", "name": "loss"}], "buckets": 1}
    with web.site(web.access(store)) as site:
        told = _buckets(site, wish)[1]
        assert (told.index.tolist(), told.count.tolist()) == ([-1, 0], [2, 4])
        told = _buckets(site, {**wish, "from": 0, "to": 1})[1]
        assert (told.index.tolist(), told.count.tolist()) == ([0], [4])
        for x in ("step", "time", "far"):
            told = _buckets(site, {**wish, "x": x, "from": -1e308, "to": 1e308})[1]
            assert len(told.index) <= 2
    assert level_for(0, 9, 1, 0) == 4


def _buckets(site, wish):
    """Return the head of an answer, and the buckets of its one series."""
    status, _, body = site.ask("POST", "/api/series", wish)
    assert status == 200, body
    size = struct.unpack_from("<I", body)[0]
    head, columns = json.loads(body[4 : 4 + size]), np.frombuffer(body, "<f8", offset=4 + size)
    found = head["series"][0]["buckets"]
    if found is None:
        return head, None
    return head, SimpleNamespace(
        **{name: columns[one[0] : one[0] + one[1]] if isinstance(one, list) else one for name, one in found.items()}
    )
