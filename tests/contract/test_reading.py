"""What every store answers to those who list, page and draw, as the Reader protocol says it."""

import msgspec
import numpy as np
import pytest

from tests.contract.test_store import T
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.store import Batch, Block, Compare, EventQuery, Not, SpanQuery

SECOND = 10**9


@pytest.fixture
def store(store):
    """A store with three runs, their events, and one series in two chunks."""
    for number, (name, lr) in enumerate((("b", 0.1), ("c", None), ("a", 0.3))):
        run = f"run{number}"
        attrs = {"project": f"p{number % 2}", **({} if lr is None else {"config.lr": lr})}
        facts = [Span(run, T + number * SECOND, "created", kind="run", name=name, attrs=attrs)]
        facts += [Event(run, T + n * SECOND, "log", 20 + 10 * (n % 2), f"Line {n}") for n in range(6)]
        origin = Origin(f"o-{run}", host="camp", span=run, process=f"{run}/1/p")
        store.keep([Batch(origin, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1)))])
        for first in (0, 4) if number == 0 else ():
            step = np.arange(first, first + 4, dtype=np.int64)
            block = Block(run, {}, ("loss",), step + 1, T + step * SECOND, step, (step * 1.5,))
            store.keep([Batch(origin, LANE_SAMPLES, first + 4, columns=[block])])
    return store


def _ids(store, **query):
    return [row.id for row in store.spans(SpanQuery(kind="run", **query))]


def test_spans_in_another_order(store):
    """Spans come by any field, rising or falling; what has no such value comes last either way."""
    assert _ids(store) == ["run2", "run1", "run0"]
    assert _ids(store, order=("name",)) == ["run2", "run0", "run1"]
    assert _ids(store, order=("-name",)) == ["run1", "run0", "run2"]
    assert _ids(store, order=("config.lr",)) == ["run0", "run2", "run1"]
    assert _ids(store, order=("-config.lr",)) == ["run2", "run0", "run1"]
    assert _ids(store, order=("-metric.loss",))[0] == "run0"
    assert _ids(store, order=("project", "-name")) == ["run0", "run2", "run1"]
    assert _ids(store, order=("'; DROP TABLE spans; --",)) == ["run2", "run1", "run0"]


def test_spans_by_their_ids(store):
    """Of these ids the spans that there are; of none, none."""
    assert _ids(store, ids=("run0", "run2", "nobody")) == ["run2", "run0"]
    assert _ids(store, ids=()) == []


def test_events_in_pages(store):
    """Events before and after an id, so many, of a time, with a text, by a process."""
    every = store.events(EventQuery("run0"))
    assert [event.text for event in every] == [f"Line {n}" for n in range(6)]
    assert store.events(EventQuery("run0", every[1].id, first=2)) == every[2:4]
    assert store.events(EventQuery("run0", before=every[4].id, last=2)) == every[2:4]
    assert store.events(EventQuery("run0", from_t=T + SECOND, to_t=T + 2 * SECOND)) == every[1:3]
    assert store.events(EventQuery("run0", contains="lINE 5", last=10)) == every[5:]
    assert store.events(EventQuery("run0", process="run0/1/p", last=1)) == every[5:]
    assert store.events(EventQuery("run0", process="run1/1/p")) == []


def test_a_series_in_outline(store):
    """The chunks of a series are told without their points, and handed out one by one."""
    [row] = store.series(["run0"], "loss")
    outline = store.outline(row.id)
    assert [(one.count, one.first_t, one.last_t, one.min, one.max) for one in outline] == [
        (4, T, T + 3 * SECOND, 0.0, 4.5),
        (4, T + 4 * SECOND, T + 7 * SECOND, 6.0, 10.5),
    ]
    [(piece, points)] = store.chunks(outline[1:])
    assert piece == outline[1]
    assert points.step.tolist() == [4, 5, 6, 7]
    assert points.value.tolist() == [6.0, 7.5, 9.0, 10.5]


def test_what_runs_can_be_listed_by(store):
    """Attributes and series of the newest runs, with how many have each; projects, by name."""
    nowhere = Not(Compare("state", "=", "nowhere"))
    told = dict(store.columns(nowhere, 10))
    assert (told["config.lr"], told["project"], told["metric.loss"]) == (2, 3, 1)
    assert dict(store.columns(nowhere, 1)).get("metric.loss") is None
    assert store.projects() == ["p0", "p1"]


def test_how_densely_events_lie(store):
    """Events are counted by equal parts of a time, and level."""
    found = store.density("run0", T, T + 5 * SECOND, 2)
    assert sorted(found) == [(0, 20, 2), (0, 30, 1), (1, 20, 1), (1, 30, 2)]
    assert store.density("nobody", T, T + SECOND, 5) == []


def test_points_of_a_time(store):
    """Of a time come the points from its first to its last moment, over all chunks; of none, none."""
    [row] = store.series(["run0"], "loss")
    assert store.points([row.id], (T + 3 * SECOND, T + 5 * SECOND))[row.id].step.tolist() == [3, 4, 5]
    assert store.points([row.id], (T + 3 * SECOND + 1, T + 5 * SECOND - 1))[row.id].step.tolist() == [4]
    assert len(store.points([row.id], (T + 8 * SECOND, 1 << 62))[row.id]) == 0
    assert len(store.points([row.id], (0, 1 << 62))[row.id]) == 8


def test_a_piece_that_is_gone_is_left_out(store):
    """A chunk that was merged into another since it was told of is not handed out, nor is one of another series."""
    [row] = store.series(["run0"], "loss")
    outline = store.outline(row.id)
    assert store.tidy("o-run0") == 2
    assert list(store.chunks(outline)) == []
    [merged] = store.outline(row.id)
    assert [points.step.tolist() for _, points in store.chunks([merged])] == [list(range(8))]
    assert list(store.chunks([msgspec.structs.replace(merged, series=row.id + 1)])) == []
