"""Points for a screen: exact where they fit, with every spike where they do not, and only what is new."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rooms import web
from tests.rooms.conftest import BORN, SECOND, Maker
from vedette.model import LANE_SAMPLES, Origin
from vedette.query.curves import Curves, Range
from vedette.store import Batch, Block
from vedette.store.sqlite import SqliteStore


def _many(store, run, value, *, first=0, origin="o"):
    """Keep a long series, a second apart."""
    step = np.arange(first, first + len(value), dtype=np.int64)
    block = Block(run, {}, ("loss",), (step + 1) * 10, BORN + step * SECOND, step, (np.asarray(value, float),))
    who = Origin(f"{origin}-{run}", host="camp", span=run, process=f"{run}/1/{origin}")
    store.keep([Batch(who, LANE_SAMPLES, int(block.n[-1]), columns=[block])])


@pytest.fixture
def site(store):
    with web.site(web.Back(store.connection.execute("PRAGMA database_list").fetchone()[2])) as found:
        yield found


def test_exact_where_it_fits(site, make):
    """A series that fits comes as it was logged, over step or time; NaN is told apart."""
    make.run("r")
    values = [1.0, float("nan"), 3.0, float("inf"), -2.0]
    make.points("r", "loss", values)
    head, [(x, y)] = site.draw(of=[{"run": "r", "name": "loss"}], x="step", width=100)
    [one] = head["series"]
    assert (one["exact"], one["count"], one["nan"], one["since"]) == (True, 5, [1.0, 3.0], False)
    assert x.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(y, values)
    _, [(t, _)] = site.draw(of=[{"run": "r", "name": "loss"}], x="time", width=100)
    assert t.tolist() == [(BORN + n * SECOND) / 1e6 for n in range(5)]


def test_every_spike_stays(site, store):
    """A long series keeps lowest, highest, NaN, first and last at whatever width; zoomed in it is exact."""
    value = np.zeros(200_000)
    value[123_456], value[77_777], value[5_000] = 9.0, -7.0, np.nan
    _many(store, "r", value)
    for width in (1, 50, 800):
        head, [(x, y)] = site.draw(of=[{"run": "r", "name": "loss"}], width=width)
        [one] = head["series"]
        assert len(x) <= 4 * width + 4
        assert not one["exact"]
        assert (one["first_x"], one["last_x"], one["count"], one["nan"]) == (0, 199_999, 200_000, [5000.0])
        assert x[np.nanargmax(y)] == 123_456
        assert x[np.nanargmin(y)] == 77_777
    head, [(x, y)] = site.draw(of=[{"run": "r", "name": "loss"}], width=400, **{"from": 123_000, "to": 124_000})
    assert head["series"][0]["exact"] is True
    assert (x[0], x[-1]) == (122_999, 124_001)  # a neighbour on each side
    assert y[456 + 1] == 9.0


def test_only_what_is_new(site, store):
    """With the cursor of the answer before, only newer points come; when others came too, all come again."""
    _many(store, "r", np.arange(1000.0))
    wish = {"of": [{"run": "r", "name": "loss"}], "width": 800}
    head, _ = site.draw(**wish)
    again, [(x, _)] = site.draw(**wish, since=head["cursor"])
    assert again["series"][0]["since"] is True
    assert len(x) == 0
    _many(store, "r", np.arange(50.0), first=1000)
    again, [(x, y)] = site.draw(**wish, since=head["cursor"])
    assert again["series"][0]["since"] is True
    assert x.tolist() == list(range(1000, 1050))
    _many(store, "r", [5.0], first=500, origin="late")  # of another process, in the middle
    whole, [(x, y)] = site.draw(**wish, since=again["cursor"])
    assert whole["series"][0]["since"] is False
    assert len(x) == 1051
    assert y[500:502].tolist() == [500.0, 5.0]


def test_a_cursor_that_is_none_gets_everything(site, store):
    """A cursor that was never handed out is none: all points come."""
    _many(store, "r", np.arange(10.0))
    wish = {"of": [{"run": "r", "name": "loss"}], "width": 800}
    [number] = site.draw(**wish)[0]["cursor"]["counts"]
    for t in (1e308, -1e308, 9.3e12, -1):
        head, [(x, _)] = site.draw(**wish, since={"t": {number: t}, "counts": {number: 10}})
        assert (head["series"][0]["since"], len(x)) == (False, 10)


def test_over_another_metric(site, make):
    """A metric is drawn over another one, by the step at which both were logged."""
    make.run("r")
    make.points("r", "loss", [3.0, 2.0, 1.0])
    make.points("r", "epoch", [0.0, 0.5, 1.0])
    _, [(x, y)] = site.draw(of=[{"run": "r", "name": "loss"}], x="epoch")
    assert x.tolist() == [0.0, 0.5, 1.0]
    assert y.tolist() == [3.0, 2.0, 1.0]
    assert site.ask("POST", "/api/series", {"of": [{"run": "r", "name": "loss"}], "x": "nothing"})[0] == 404


def test_what_is_not_there_is_left_out(site, make):
    """Series that do not exist are left out of the answer; of tags, those that are asked for come."""
    make.run("r")
    make.points("r", "loss", [1.0], tags={"split": "a"})
    make.points("r", "loss", [2.0], tags={"split": "b"})
    head, _ = site.draw(of=[{"run": "r", "name": "loss"}, {"run": "nobody", "name": "x"}])
    assert [one["tags"] for one in head["series"]] == [{"split": "a"}, {"split": "b"}]
    head, [(_, y)] = site.draw(of=[{"run": "r", "name": "loss", "tags": {"split": "b"}}])
    assert y.tolist() == [2.0]
    for wrong in ({"of": [{"run": "r", "name": "l"}] * 501}, {"of": [], "width": 0}, {"of": [], "width": 10**6}):
        assert site.ask("POST", "/api/series", wrong)[0] == 400


_NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spikes=st.lists(st.tuples(st.integers(0, 99_999), _NUMBERS), max_size=20),
    width=st.integers(1, 300),
    window=st.none() | st.tuples(st.integers(0, 99_999), st.integers(0, 99_999)),
)
def test_a_curve_has_the_extremes_of_its_range(tmp_path_factory, spikes, width, window):
    """Whatever points, width and range: lowest and highest of the range are in the curve, and all are real points."""
    value = np.sin(np.arange(100_000) / 500)
    for place, number in spikes:
        value[place] = number
    store = SqliteStore(str(tmp_path_factory.mktemp("s") / "store.db"))
    try:
        _many(store, "r", value)
        low, high = (None, None) if window is None else (float(min(window)), float(max(window)))
        [row] = store.series(["r"], "loss")
        curve = Curves().draw(store, row, "step", Range(width, low, high))
    finally:
        store.close()
    first, last = (0, 99_999) if window is None else (min(window), max(window))
    inside = value[first : last + 1]
    finite = inside[np.isfinite(inside)]
    drawn = curve.y[(curve.x >= first) & (curve.x <= last)]
    assert set(curve.odd[(curve.odd >= first) & (curve.odd <= last)]) == {
        float(at) for at in np.flatnonzero(~np.isfinite(value)) if first <= at <= last
    }
    np.testing.assert_array_equal(curve.y, value[curve.x.astype(int)])
    if len(finite):
        assert np.max(drawn[np.isfinite(drawn)]) == np.max(finite)
        assert np.min(drawn[np.isfinite(drawn)]) == np.min(finite)
    if curve.exact:
        np.testing.assert_array_equal(drawn, inside)


def test_two_tries_are_drawn_as_they_stand(store):
    """Of a run that was resumed, the steps that a later try logged again come from that one alone."""
    from vedette.model import LANE_FACTS, Span

    make = Maker(store)
    make.run("r")
    for n in (1, 2):
        who = Origin(f"o{n}", span="r", process=f"r/{n}/p")
        span = Span(f"r/{n}", BORN, "done", kind="try", parent="r", attrs={"n": n})
        step = np.arange(5 if n == 2 else 0, 10, dtype=np.int64)
        block = Block("r", {}, ("loss",), step + 1, BORN + step * SECOND + n, step, (np.full(len(step), float(n)),))
        store.keep([Batch(who, LANE_FACTS, 1, facts=[(1, span)]), Batch(who, LANE_SAMPLES, 99, columns=[block])])
    [row] = store.series(["r"], "loss")
    assert Curves().draw(store, row, "step", Range(100)).y.tolist() == [1.0] * 5 + [2.0] * 5
