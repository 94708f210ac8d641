"""What a monitor remembers: means over real time, counters from where they began, the last moments alone."""

import pytest

from vedette.model import Sample
from vedette.monitor.record import Record
from vedette.sensing.sensor import Metric

METRICS = {"cpu_s": Metric("counter", ""), "cpu_percent": Metric("gauge", "")}


def moment(n, **values):
    return [Sample(n, n // 10**6, values, "pid-1")]


def test_a_mean_is_weighted_by_real_time():
    """Five seconds at 20 % and one at 80 % are 30 % of six seconds, not 50 %."""
    record = Record(10)
    record.begin(METRICS, moment(0, cpu_s=7.0))
    record.add(moment(1, cpu_percent=20.0), 1, 5.0)
    record.add(moment(2, cpu_percent=80.0), 2, 1.0)

    assert record.summary()["cpu_percent"] == {"mean": pytest.approx(30.0), "max": 80.0, "last": 80.0}
    assert record.summary()["seconds"] == 6.0


def test_a_counter_is_counted_from_the_first_look():
    """What a counter had before is none of ours, and one that was set back takes nothing away."""
    record = Record(10)
    record.begin(METRICS, moment(0, cpu_s=7.0))
    for n, value in enumerate((7.5, 9.0, 1.0, 2.0), 1):
        record.add(moment(n, cpu_s=value), n, 1.0)

    assert record.summary()["cpu_s"] == {"total": pytest.approx(3.0)}


def test_a_number_that_comes_and_goes():
    """Where a moment lacks a number there is None; integers stay integers, and a mean is of the time it was there."""
    record = Record(10)
    record.add(moment(1, a=1), 1, 1.0)
    record.add(moment(2, b=2.5), 2, 1.0)
    record.add(moment(3, a=3, b=1 << 70), 3, 1.0)

    assert record.stats() == {"t": [1, 2, 3], "a": [1, None, 3], "b": [None, 2.5, float(1 << 70)]}
    assert type(record.stats()["a"][0]) is int
    assert record.summary()["a"]["mean"] == 2.0
    assert [sample.values for [sample] in record.moments()] == [{"a": 1}, {"b": 2.5}, {"a": 3, "b": float(1 << 70)}]


def test_an_integer_column_that_turns_out_to_be_none():
    """A rate that began with a whole number goes on with fractions."""
    record = Record(10)
    for n, value in enumerate((0, 0.5, None, 1), 1):
        record.add(moment(n, **({} if value is None else {"a": value})), n, 1.0)

    assert record.stats()["a"] == [0, 0.5, None, 1]


def test_a_number_that_is_none_spoils_nothing():
    """NaN is no number: it is None in the moments, and in no sum."""
    record = Record(10)
    record.add(moment(1, a=1.5), 1, 1.0)
    record.add(moment(2, a=float("nan")), 2, 1.0)

    assert record.stats()["a"] == [1.5, None]
    assert record.summary()["a"]["mean"] == 1.5


def test_a_short_moment_does_not_say_what_the_most_was():
    """A last look at some milliseconds is weighed for what it is, and its rates are no peak."""
    record = Record(10)
    record.add(moment(1, cpu_percent=50.0), 1, 1.0)
    record.add(moment(2, cpu_percent=500.0), 2, 0.02, short=True)

    assert record.summary()["cpu_percent"]["max"] == 50.0


@pytest.mark.parametrize("keep", [1, 7, 100])
def test_only_the_last_moments_are_kept(keep):
    """The sums are of all moments, however few are kept; what is gone for good takes no room."""
    record = Record(keep)
    record.add([Sample(0, 0, {"a": 1}, "pid-1", {"interface": "veth1"})], 0, 1.0)
    for n in range(1, 1000):
        record.add(moment(n, a=n), n, 1.0)

    assert record.stats()["t"] == list(range(1000 - keep, 1000))
    assert record.stats()["a"] == list(range(1000 - keep, 1000))
    assert record.summary()["samples"] == 1000
    assert list(record._columns) == ["a"]
    assert len(record._t) <= keep * 5 // 4 + 1


def test_tags_and_hosts_have_names_of_their_own():
    """The numbers of the host and of each of its parts stand beside those of the process."""
    record = Record(10)
    samples = [
        Sample(1, 0, {"cpu_percent": 1}, "pid-1"),
        Sample(1, 0, {"cpu_percent": 2}, "host-a-b"),
        Sample(1, 0, {"cpu_percent": 3}, "host-a-b", {"core": "0"}),
    ]
    record.add(samples, 1, 1.0)

    assert record.stats() == {"t": [1], "cpu_percent": [1], "host_cpu_percent": [2], "host_cpu_percent[core=0]": [3]}
    assert record.moments() == [samples]


def test_what_one_record_tells_another():
    """A record that is told of another in parts, in whichever steps, has the same to say."""
    child, parent = Record(1000), Record(1000)
    child.begin(METRICS, moment(0, cpu_s=1.0))
    parent.begin({}, moment(0, cpu_s=1.0))
    heard = 0
    for n in range(1, 60):
        child.add(moment(n, cpu_s=1.0 + n, **({"late": n} if n > 20 else {}), mixed=n if n < 40 else n / 7), n, 1.0)
        if n % 13 == 0:
            heard = parent.absorb(child.part(heard))
    heard = parent.absorb(child.part(heard))

    assert heard == 59
    assert parent.stats() == child.stats()
    assert parent.summary() == child.summary()
    assert parent.moments() == child.moments()


def test_a_second_period_is_added_to_the_first():
    """A monitor that is started again goes on; what a counter did in between is not counted."""
    record = Record(10)
    for begin in (0.0, 100.0):
        record.begin(METRICS, moment(0, cpu_s=begin))
        record.add(moment(1, cpu_s=begin + 2.0, cpu_percent=begin), 1, 1.0, 3)

    assert record.summary() == {
        "cpu_s": {"total": 4.0},
        "cpu_percent": {"mean": 50.0, "max": 100.0, "last": 100.0},
        "seconds": 2.0,
        "samples": 2,
        "missed": 6,
    }
