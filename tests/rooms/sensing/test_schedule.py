"""The schedule: a fixed period, whoever comes and goes."""

import pytest

from vedette.sensing.schedule import Schedule


def test_it_does_not_drift():
    """However late each look is, the next one is due on the grid."""
    schedule = Schedule()
    schedule.want("a", 1.0, 100.25)
    assert schedule.wait_s(100.25) == pytest.approx(0.75)
    for second in range(101, 110):
        late = second + 0.07
        assert schedule.due(late) == ["a"]
        assert schedule.due(late) == []
        assert schedule.wait_s(late) == pytest.approx(0.93)


def test_what_was_missed_is_not_made_up():
    """After a long pause there is one look, not one for each that was missed."""
    schedule = Schedule()
    schedule.want("a", 1.0, 100.0)
    assert schedule.due(107.5) == ["a"]
    assert schedule.due(107.6) == []
    assert schedule.wait_s(107.6) == pytest.approx(0.4)


def test_all_with_one_interval_are_due_together():
    """Whenever they came, one pass serves them; others have their own time."""
    schedule = Schedule()
    schedule.want("a", 1.0, 100.2)
    schedule.want("b", 1.0, 100.7)
    schedule.want("c", 0.5, 100.7)
    assert schedule.due(101.0) == ["a", "b", "c"]
    assert schedule.due(101.5) == ["c"]


def test_when_nobody_is_left_there_is_nothing_to_wait_for():
    """A schedule without wishes never wakes anybody."""
    schedule = Schedule()
    assert schedule.wait_s(1.0) is None
    schedule.want("a", 1.0, 1.0)
    schedule.want("b", 1.0, 1.0)
    schedule.drop("a")
    assert schedule.wait_s(1.5) == pytest.approx(0.5)
    schedule.drop("b")
    schedule.drop("b")
    assert schedule.wait_s(1.5) is None
    assert schedule.due(9.0) == []


@pytest.mark.parametrize("interval", [0.05, 0.1, 0.3, 1 / 3, 7.7])
def test_rounding_never_makes_two_of_one(interval):
    """At any interval the next moment lies ahead, by one interval at most."""
    schedule = Schedule()
    now = 12_345.678
    schedule.want("a", interval, now)
    for _ in range(1000):
        wait = schedule.wait_s(now)
        assert 0 <= wait <= interval * 1.001
        now += wait
        assert schedule.due(now) == ["a"]
        assert schedule.due(now) == []
