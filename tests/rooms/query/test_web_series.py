"""Points for a screen: exact where they fit, with every spike where they do not, and only what is new."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rooms import web
from tests.rooms.conftest import BORN, SECOND, Maker
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query.curves import Curves, DrawnSoFar, Range
from vedette.store import Batch, Block
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_read import SqliteReader


def _many(store, run, value, *, first=0, origin="o"):
    """Keep a long series, a second apart."""
    step = np.arange(first, first + len(value), dtype=np.int64)
    block = Block(run, {}, ("loss",), (step + 1) * 10, BORN + step * SECOND, step, (np.asarray(value, float),))
    who = Origin(f"{origin}-{run}", host="camp", span=run, process=f"{run}/1/{origin}")
    store.keep([Batch(who, LANE_SAMPLES, int(block.n[-1]), columns=[block])])


@pytest.fixture
def site(store):
    with web.site(web.access(store)) as found:
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


def test_a_run_is_found_by_its_name(site, make):
    """A run may be named as everywhere: by its id, the beginning of one, or its name; a wrong request is refused."""
    make.run("run-1", "brisk-otter")
    make.points("run-1", "loss", [1.0, 2.0])
    for run in ("run-1", "run", "brisk-otter"):
        head, [(_, y)] = site.draw(of=[{"run": run, "name": "loss"}])
        assert (head["series"][0]["run"], y.tolist()) == ("run-1", [1.0, 2.0])
    make.run("run-2", "calm-otter")
    status, _, body = site.ask("POST", "/api/series", {"of": [{"run": "run", "name": "loss"}]})
    assert status == 400
    assert b"could be" in body


def test_many_runs_are_found_by_their_names(site, make):
    """Any number of runs may be named, of which some have no such series; too many that nobody knows are refused."""
    for n in range(30):
        make.run(f"run-{n}", f"otter-{n}")
        make.points(f"run-{n}", "loss" if n < 25 else "other", [float(n)])
    named = [{"run": f"otter-{n}", "name": "loss"} for n in range(30)]
    head, columns = site.draw(of=named)
    assert {one["run"]: y.tolist() for one, (_, y) in zip(head["series"], columns, strict=True)} == {
        f"run-{n}": [float(n)] for n in range(25)
    }
    by_id = [{"run": f"run-{n}", "name": "other"} for n in range(30)]
    assert [one["run"] for one in site.draw(of=by_id)[0]["series"]] == [f"run-{n}" for n in range(25, 30)]
    nobody = [{"run": f"nobody-{n}", "name": "loss"} for n in range(21)]
    assert len(site.draw(of=named + nobody[1:])[0]["series"]) == 25
    status, _, body = site.ask("POST", "/api/series", {"of": named + nobody})
    assert status == 400
    assert b"21 of these are no id and no name of a run: 20 at most can be looked for" in body


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


class Tidied(SqliteReader):
    """A reader that is always a moment late: whenever it was told of chunks, these are merged."""

    def __init__(self, store, times=1):
        super().__init__(store.connection)
        self._store = store
        self.left = times

    def outline(self, series):
        told = super().outline(series)
        if self.left:
            self.left -= 1
            start = told[-1].last_t // SECOND - BORN // SECOND + 1
            _many(self._store, "r", [float(start)], first=start)
            self._store.tidy("o-r")
        return told


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("count", [500, 100_000])
def test_chunks_that_are_merged_meanwhile_leave_no_hole(store, times, count):
    """However often chunks are merged between two looks at a series, its curve is whole, and stays so."""
    for first in range(0, count, count // 50):
        _many(store, "r", np.arange(first, first + count // 50, dtype=float), first=first)
    reader, curves, seen, shown = Tidied(store, times), Curves(), None, np.empty(0)
    [row] = reader.series(["r"], "loss")
    for _ in range(3):
        curve = curves.draw(reader, row, "step", Range(200), seen)
        shown = np.concatenate((shown, curve.x)) if curve.only_new else curve.x
        assert (shown[0], shown[-1], curve.last_step) == (0, curve.count - 1, curve.count - 1)
        assert np.diff(shown).max() <= max(1, curve.count / 100)
        seen = DrawnSoFar(curve.last_t, curve.count, curve.last_step)


def test_a_resumed_run_comes_whole_again(site, store):
    """A try that goes back to an earlier step stands in the place of what was sent: all comes again."""
    Maker(store).run("r")
    _try(store, 1, range(10))
    wish = {"of": [{"run": "r", "name": "loss"}], "width": 800}
    head, _ = site.draw(**wish)
    _try(store, 2, range(5, 8))
    for x in ("step", "time"):
        head, [(_, y)] = site.draw(**wish, x=x, since=head["cursor"])
        assert head["series"][0]["since"] is False
        assert sorted(y.tolist()) == [1.0] * 7 + [2.0] * 3
    _try(store, 2, range(8, 9))
    head, [(x, y)] = site.draw(**wish, since=head["cursor"])
    assert x.tolist() == list(range(10))
    assert y.tolist() == [1.0] * 5 + [2.0] * 4 + [1.0]


def test_steps_that_go_back_come_whole_again(site, store):
    """New points at earlier steps cannot be put behind what was sent over steps; over time they can."""
    _many(store, "r", np.arange(100.0), first=1000)
    wish = {"of": [{"run": "r", "name": "loss"}], "width": 800}
    head, _ = site.draw(**wish)
    step = np.arange(5, dtype=np.int64)
    block = Block("r", {}, ("loss",), step + 10**6, BORN + (step + 2000) * SECOND, step, (step * 1.0,))
    store.keep([Batch(Origin("o-r", span="r", process="r/1/o"), LANE_SAMPLES, 10**6 + 5, columns=[block])])
    timed, [(t, _)] = site.draw(**wish, x="time", since=head["cursor"])
    assert (timed["series"][0]["since"], len(t)) == (True, 5)
    whole, [(x, _)] = site.draw(**wish, since=head["cursor"])
    assert (whole["series"][0]["since"], len(x), x[:6].tolist()) == (False, 105, [0, 1, 2, 3, 4, 1000])
    after, [(x, _)] = site.draw(**wish, since=whole["cursor"])
    assert (after["series"][0]["since"], len(x)) == (True, 0)


def test_an_empty_series_that_begins(store):
    """Of a series that had no point at the last look, all are new."""
    _many(store, "r", [1.0, 2.0])
    [row] = store.series(["r"], "loss")
    curve = Curves().draw(store, row, "step", Range(100), DrawnSoFar(0, 0, float("-inf")))
    assert (curve.only_new, curve.x.tolist(), curve.last_step) == (True, [0, 1], 1)


def test_a_purged_run_leaves_no_shadow(store):
    """A chunk that has the number of one that was purged is drawn as itself, not as that one."""
    curves = Curves()
    for run, height in (("a", 1.0), ("b", 2.0)):
        Maker(store).run(run)
        _many(store, run, np.full(100_000, height))
        [row] = store.series([run], "loss")
        assert set(curves.draw(store, row, "step", Range(50)).y.tolist()) == {height}
        ids = {piece.id for piece in store.outline(row.id)}
        if run == "a":
            before = ids
            purge = Span("a", BORN + 1, "purged", by="user")
            store.keep([Batch(Origin("hub"), LANE_FACTS, 1, facts=[(1, purge)])])
            while store.reclaim():
                pass
    assert ids & before, "numbers did not come again: this shows nothing"


def _try(store, n, steps):
    """Keep some points of a try of run `r`, later than those before."""
    who = Origin(f"o{n}", span="r", process=f"r/{n}/p")
    span = Span(f"r/{n}", BORN, "running", kind="try", parent="r", attrs={"n": n})
    step = np.array(steps, dtype=np.int64)
    t = BORN + (step + 100 * n) * SECOND
    block = Block("r", {}, ("loss",), step + 1, t, step, (np.full(len(step), float(n)),))
    facts = Batch(who, LANE_FACTS, 1, facts=[(1, span)])
    store.keep([facts, Batch(who, LANE_SAMPLES, int(block.n[-1]), columns=[block])])
