"""Energy out of power: by the time that really passed."""

import math

import pytest

from vedette.sensing.energy import Energy

UNEVEN = (0.0, 0.5, 3.0, 3.2, 7.0)  # seconds at which somebody looks


class FixedEnergy(Energy):
    """Broken: believes that a second passes between any two looks."""

    def add(self, power_w, at_s):  # noqa: ARG002
        self.joules += power_w
        return self.joules


class StepEnergy(Energy):
    """Broken: takes the newest power for that of the whole time since the last look."""

    def add(self, power_w, at_s):
        self.joules += power_w * (at_s - self._last[1]) if self._last else 0
        self._last = power_w, at_s
        return self.joules


def adds_up(energy):
    """Tell whether a power that rises by a watt a second adds up to half the square of the seconds."""
    for at_s in UNEVEN:
        joules = energy.add(100 + at_s, 1000 + at_s)
    return joules == pytest.approx(100 * 7 + 7**2 / 2)


def test_uneven_looks():
    """Looks at uneven times give the same energy as even ones would; fixed intervals and steps are caught."""
    assert adds_up(Energy())
    assert not adds_up(FixedEnergy())
    assert not adds_up(StepEnergy())


def test_a_gap_is_not_made_up():
    """A time in which nobody looked is not counted; what comes after it is."""
    energy = Energy()
    found = [energy.add(10, at_s) for at_s in (0, 1, 2, 1000, 1001)]

    assert found == [0, 10, 20, 20, 20 + 10]


def test_a_slow_rhythm_is_no_gap():
    """Looks that are far apart from the first on are a rhythm, and one that becomes slower costs one interval."""
    energy = Energy()
    found = [energy.add(1, at_s) for at_s in (0, 60, 120, 600, 1080)]

    assert found == [0, 60, 120, 120, 600]


def test_a_short_pause_is_counted():
    """A look that is missed, or late by some seconds, costs nothing."""
    energy = Energy()
    found = [energy.add(2, at_s) for at_s in (0, 0.1, 5.1)]

    assert found == pytest.approx([0, 0.2, 10.2])


def test_after_a_cut():
    """What is between a look and the one after a cut is not counted."""
    energy = Energy()
    energy.add(5, 0)
    energy.cut()

    assert energy.add(5, 1) == 0
    assert energy.add(5, 2) == 5


@pytest.mark.parametrize("power_w", [math.nan, math.inf, -math.inf, -1.0, 1e9])
def test_what_is_no_power(power_w):
    """A number that is no power is passed over, and time that goes backward adds nothing."""
    energy = Energy()
    energy.add(1, 0)
    energy.add(power_w, 1)

    assert energy.add(1, 2) == 2
    assert energy.add(1, 1) == 2
    assert energy.add(1, 2) == 2


def test_until_now():
    """Between two looks the last power holds, but not beyond a gap; what was told never falls, nor is it doubled."""
    energy = Energy(began_s=0)
    energy.add(10, 1)
    assert [energy.until(at_s) for at_s in (1, 1.5, 2)] == [10, 15, 20]
    energy.add(0, 2)  # it fell meanwhile: 15 J by the trapezoid rule
    assert [energy.joules, energy.until(2.5)] == [15, 20]
    energy.add(10, 4)
    assert [energy.joules, energy.until(4)] == [25, 25]
    assert energy.until(1000) == 25 + 10 * 10


def test_the_first_power():
    """The first power holds since the beginning, unless that is too long ago, or unknown."""
    assert Energy(began_s=5).add(3, 7) == 6
    assert Energy(began_s=5).add(3, 700) == 0
    assert Energy().add(3, 7) == 0
