"""One round after another: on a grid, into sinks that may fail, from sensors that may too."""

import pytest

from vedette.monitor.guarded_sinks import GuardedSink
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.monitor.rounds import Rounds
from vedette.sensing.schedule import Grid
from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources import sampler


class Steady:
    """A sensor that says how often it was looked at."""

    def __init__(self):
        self.metrics = {"looks": Metric("gauge", "")}
        self.looks = 0
        self.closed = False

    def look(self):
        self.looks += 1
        return [Reading({"looks": self.looks}, scope="process"), Reading({"looks": -1}, {"core": "0"})]

    def close(self):
        self.closed = True


class Broken(Steady):
    def look(self):
        raise ValueError("loose wire")


class Kept:
    """A sink that keeps all in a list, and fails when told to."""

    lost = 0

    def __init__(self, *, fails=False):
        self.fails, self.moments, self.primed, self.closed = fails, [], [], 0

    def prime(self, samples):
        self.primed.append(samples)

    def put(self, samples):
        if self.fails:
            raise OSError(28, "No space left on device")
        self.moments.append(samples)

    def close(self):
        self.closed += 1


@pytest.fixture
def rounds(monkeypatch):
    """Make rounds over sensors and sinks of the test's own, with what was said."""
    said = []

    def make(sensors, *sinks, interval_s=0.001):
        monkeypatch.setattr(sampler, "find", lambda _names, _target: (sensors, {}))
        opened = [GuardedSink(f"sink {n}", sink) for n, sink in enumerate(sinks)]
        return Rounds(Plan(interval_s=interval_s), Target(1), Record(100), said.append, opened)

    make.said = said
    return make


def looks(rounds, count):
    import time

    for _ in range(count):
        time.sleep(rounds.wait_s())
        rounds.turn()


def test_the_first_look_is_no_moment(rounds):
    """It primes sensors and sinks, and what comes after it are moments."""
    sink = Kept()
    one = rounds({"steady": Steady()}, sink)
    looks(one, 2)

    assert [sample.values["looks"] for sample in sink.primed[0]] == [1, -1]
    assert [moment[0].values["looks"] for moment in sink.moments] == [2, 3]
    assert [sample.span.partition("-")[0] for sample in sink.moments[0]] == ["pid", "host"]


def test_a_sink_that_fails(rounds):
    """It is counted and said once; the others go on, and all are closed."""
    bad, good = Kept(fails=True), Kept()
    one = rounds({"steady": Steady()}, bad, good)
    looks(one, 3)
    one.finish()
    one.finish()

    assert len(good.moments) >= 3
    assert one.trouble == {"sink 0": f"sink 0 lacks {len(good.moments)} moments: No space left on device"}
    assert rounds.said == ["sink 0 cannot be written; missing moments are counted: No space left on device"]
    assert (bad.closed, good.closed) == (1, 1)


def test_what_a_sink_lacks():
    """A sink that counts something else than moments says what it is."""
    sink = Kept()
    sink.lost, sink.lost_what, sink.trouble = 17, "value", "there is no column for x"

    assert GuardedSink("csv:out", sink).trouble == "csv:out lacks 17 values: there is no column for x"


def test_a_sensor_that_raises(rounds):
    """It is left out and said once; the others are looked at."""
    sink = Kept()
    steady = Steady()
    one = rounds({"broken": Broken(), "steady": steady}, sink)
    looks(one, 3)
    one.finish()

    assert all(len(moment) == 2 for moment in sink.moments)
    assert rounds.said == ["broken fails: ValueError: loose wire"]
    assert one.trouble == {"broken": "broken fails: ValueError: loose wire"}
    assert steady.closed


def test_times_never_fall(rounds, monkeypatch):
    """A clock that is set back makes no moment come before another."""
    sink = Kept()
    one = rounds({"steady": Steady()}, sink)
    monkeypatch.setattr("time.time_ns", lambda: 5)
    looks(one, 3)
    times = [moment[0].t for moment in sink.moments]

    assert times == sorted(set(times))
    assert times[0] > sink.primed[0][0].t


def test_the_grid_neither_drifts_nor_catches_up():
    """However late a look is, the next is due on the grid; moments that were missed are counted."""
    grid = Grid(1.0, 100.25)
    assert not grid.due(101.2)
    for second in range(101, 110):
        assert grid.due(second + 0.30)
        assert not grid.due(second + 0.31)
        assert grid.wait_s(second + 0.30) == pytest.approx(0.95)
    assert grid.missed == 0
    assert grid.due(120.30)
    assert not grid.due(120.31)
    assert grid.missed == 10
    assert grid.wait_s(120.31) == pytest.approx(0.94)


@pytest.mark.parametrize("interval_s", [0.1, 0.3, 1 / 3, 0.7, 1e-3])
def test_the_grid_stands_rounding(interval_s):
    """Each moment is there once, though neither it nor the interval is a number that floats have."""
    grid = Grid(interval_s, 12345.678)
    now = 12345.678
    for _ in range(1000):
        now += grid.wait_s(now)
        while not grid.due(now):
            now = now + max(grid.wait_s(now), 1e-9)
    assert grid.missed == 0


def test_finding_sensors():
    """What is absent says why; what cannot be imported, or raises, is absent too."""
    found, absent = sampler.find(["process", "nonsense"], Target(1))

    assert list(found) == ["process"]
    assert list(absent) == ["nonsense"]
    assert set(sampler.metrics(found)) >= {"cpu_percent", "memory_bytes"}
    assert isinstance(Absent("x"), tuple)
