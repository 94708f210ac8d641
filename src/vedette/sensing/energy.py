"""Energy computed from power, for hardware that does not count energy itself."""

_GAP_S = 10.0  # a shorter pause is never a gap
_GAP_TIMES = 4.0  # a gap is longer than the usual interval by this factor
_MOST_W = 1e5  # more than this is an error of the driver, and would falsify the sum


class Energy:
    """Adds up joules: the mean power of two looks times the time that really passed between them (trapezoid rule).

    Times are of the monotonic clock, which does not advance while the machine is suspended, so that time is not
    counted. Neither is a gap between looks, such as when the process was stopped or the sensor was missing: the power
    before and after a gap does not tell what happened in it.
    """

    def __init__(self) -> None:
        """Start at 0 joules."""
        self.joules = 0.0
        self._last: tuple[float, float] | None = None  # watts, and when
        self._usual_s = 0.0

    def add(self, power_w: float, at_s: float) -> float:
        """Add the power at one moment, and return the joules so far. An impossible power is ignored."""
        if not 0 <= power_w < _MOST_W:  # also true for NaN
            return self.joules
        if self._last is not None:
            before_w, before_s = self._last
            passed_s = at_s - before_s
            if passed_s <= 0:
                return self.joules
            if not self._usual_s or passed_s <= max(_GAP_S, _GAP_TIMES * self._usual_s):
                self.joules += (before_w + power_w) / 2 * passed_s
            self._usual_s = passed_s  # also after a gap: it may be a new, longer interval
        self._last = power_w, at_s
        return self.joules

    def cut(self) -> None:
        """Forget the last look: the time between it and the next one is not counted."""
        self._last = None
