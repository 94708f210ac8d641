"""Points that wait in the hub, read together with the store's: each once, whatever is sealed meanwhile."""

import contextlib
import random

import numpy as np
import pytest

from tests import plain_means
from tests.rooms.streaming import RUN, SERIES, Stream
from vedette import wire
from vedette.hub.turn import requests
from vedette.query import unsealed
from vedette.query.curves import Curves, Range
from vedette.query.means import Grid, Means
from vedette.query.unsealed import UnsealedPoints, with_unsealed
from vedette.store.sqlite_file import open_reader


@pytest.fixture
def stream(home):
    made = Stream(home)
    yield made
    made.close()


@contextlib.contextmanager
def _whole(home, points, *, meanwhile=lambda: None, wrong=""):
    """Look at hub and store as the web server does. `meanwhile`: between the two; `wrong`: made wrong on purpose."""
    store = open_reader(home.store)
    if wrong == "late":  # the store first, and what waits in the hub after that
        store.connection.execute("BEGIN")
        store.series()
        meanwhile()
        waiting = points.now()
    else:
        waiting = points.now()
        meanwhile()
        store.connection.execute("BEGIN")
    if wrong == "blind":  # what is sealed is not left out
        store.marks = lambda _origins=None: {}
    yield with_unsealed(store, points, waiting)
    store.close()


def _check(stream, store, *, all_of_it=True):
    """Compare all that a reader tells of points with plain numpy over what was logged."""
    rows = {(row.name, str(row.tags)): row for row in store.series([RUN])}
    for name, tags in SERIES:
        step, t, value = stream.columns(name, tags)
        row = rows.get((name, str(tags)))
        if row is None:
            assert not len(step), f"{name} is not there at all"
            continue
        points = store.points([row.id])[row.id]
        count = len(points)
        if all_of_it:
            assert count == len(step)
        np.testing.assert_array_equal(points.step, step[:count])
        np.testing.assert_array_equal(points.t, t[:count])
        np.testing.assert_array_equal(points.value.astype(float), value[:count])
        told = Means().read(store, row, "step", Grid(64), None)
        plain_means.check(told, step[:count], value[:count], None, None)
        numbers = value[:count][~np.isnan(value[:count])]
        assert (row.count, row.min, row.max) == (count, numbers.min(), numbers.max())
        newest = int(np.argmax(t[:count]))
        np.testing.assert_array_equal((row.last_step, row.last), (step[newest], value[newest]))
        by_process = store.parts([row.id])[row.id]
        assert sum(len(part.points) for part in by_process) == count
        pieces = store.outline(row.id)
        assert sum(piece.count for piece in pieces) == count
        assert sum(len(points) for _, points in store.chunks(pieces)) == count
        curve = Curves().draw(store, row, "step", Range(4096))
        np.testing.assert_array_equal(curve.y, value[:count])
        half = int(t[count // 2])
        assert len(store.points([row.id], (half, 1 << 62))[row.id]) == int((t[:count] >= half).sum())
        assert store.recent([row.id], 3)[row.id].step[-1] == step[count - 1]
    assert store.last_values([RUN])[RUN].keys() == {row.label for row in store.series([RUN])} >= {"loss", "acc"}


@pytest.mark.parametrize("seed", range(12))
def test_each_point_is_seen_once(stream, seed):
    """While two processes log, points are sealed and merged and hubs are killed, each point is seen once."""
    chance, points = random.Random(seed), UnsealedPoints()
    stream.log(5)
    for _ in range(30):
        act = chance.choice(["log", "log", "log", "turn", "seal", "tidy", "restart", "look", "look"])
        if act == "log":
            stream.log(chance.randint(1, 40), chance.randint(0, 1))
        elif act == "turn":
            stream.turn()
        elif act == "seal":
            stream.turn(seal=True)
        elif act == "tidy":
            stream.tidy()
        elif act == "restart":
            stream.restart()
        else:
            stream.turn()
            stream.gather(points)
            later = chance.choice([lambda: None, lambda: stream.turn(seal=True)])
            with _whole(stream.home, points, meanwhile=later) as store:
                _check(stream, store)


@pytest.mark.parametrize("wrong", ["blind", "late"])
def test_the_check_finds_what_is_doubled_or_lost(stream, wrong):
    """The check above is not blind: who ignores the store's marks, or asks in the wrong order, is caught."""
    points = UnsealedPoints()
    stream.log(20)
    stream.turn()
    stream.gather(points)

    def seal():
        stream.turn(seal=True)
        stream.gather(points)

    with _whole(stream.home, points, meanwhile=seal) as store:
        _check(stream, store)
    stream.log(20)
    stream.turn()
    stream.gather(points)
    with _whole(stream.home, points, meanwhile=seal, wrong=wrong) as store, pytest.raises(AssertionError):
        _check(stream, store)


def test_old_answers_show_a_beginning_and_nothing_twice(stream):
    """Who asked the hub a while ago sees what was there then, and what was sealed since: a beginning, without gaps."""
    points = UnsealedPoints()
    for _ in range(6):
        stream.log(10)
        stream.turn()
        stream.gather(points)
        stream.log(10)
        stream.turn(seal=True)
        stream.log(10)
        with _whole(stream.home, points) as store:
            _check(stream, store, all_of_it=False)


def test_ids_of_series_are_forgotten_when_all_of_them_is_sealed(stream, monkeypatch):
    """While a series waits it has one id, whatever else is forgotten; of what was sealed none is left."""
    monkeypatch.setattr(unsealed, "_LEAST_IDS", 0)
    points, ids = UnsealedPoints(), []
    for _ in range(3):
        stream.log(5)
        stream.turn()
        stream.gather(points)
        with _whole(stream.home, points) as store:
            ids.append({row.label: row.id for row in store.series([RUN])})
    assert ids[0].items() <= ids[-1].items()
    assert all(number < 0 for number in ids[-1].values())
    points._looked_through = 0  # not only when there are twice as many
    stream.turn(seal=True)
    stream.gather(points)
    assert not points._keys
    assert not points._made_up
    stream.log(5)
    stream.turn()
    stream.gather(points)
    with _whole(stream.home, points) as store:
        _check(stream, store)


def test_only_what_is_new_is_asked_for(stream):
    """The second question brings the points that came since the first, and what is sealed is not held any more."""
    points = UnsealedPoints()
    stream.log(50)
    stream.turn()
    stream.gather(points)
    stream.log(7)
    stream.turn()
    answer = stream.answer(wire.AskUnsealed([RUN], points.ends()))
    assert sum(block.count for parcel in answer.parcels for block in parcel.blocks if len(block.names) == 2) == 7
    stream.gather(points)
    stream.turn(seal=True)
    stream.gather(points)
    assert not any(origin.groups for origin in points.now().values())
    assert stream.answer(wire.AskUnsealed(["another"], {})).parcels == []


def test_much_comes_in_several_answers(stream, monkeypatch):
    """An answer that would be too long is cut, and says so; asking on brings the rest."""
    monkeypatch.setattr(requests, "_MOST_UNSEALED_BYTES", 1)
    stream.log(100, 0)
    stream.log(100, 1)
    stream.turn()
    points = UnsealedPoints()
    first = stream.answer(wire.AskUnsealed([RUN], {}))
    assert first.more
    assert len(first.parcels) == 1
    for _ in range(3):
        stream.gather(points)
    assert not stream.answer(wire.AskUnsealed([RUN], points.ends())).more
    with _whole(stream.home, points) as store:
        _check(stream, store)


def test_an_origin_that_is_gone_is_forgotten(stream):
    """An origin that the hub does not know any more is held for a moment, and then no longer."""
    points = UnsealedPoints()
    stream.log(10)
    stream.turn()
    stream.gather(points)
    for _ in range(2):
        points.take([], {})
        assert points.ends()
    points.take([], {})
    assert points.ends() == {}
    stream.gather(points)
    assert points.clear() == {RUN}
    assert points.now() == {}
