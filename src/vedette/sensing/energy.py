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

    def __init__(self, began_s: float | None = None) -> None:
        """Start at 0 joules; `began_s`: the first power has held since then, unless that is too long ago."""
        self.joules = 0.0
        self._last: tuple[float, float] | None = None  # watts, and when
        self._began_s = began_s
        self._usual_s = 0.0
        self._told = 0.0

    def add(self, power_w: float, at_s: float) -> float:
        """Add the power at one moment, and return the joules so far. An impossible power is ignored."""
        if not 0 <= power_w < _MOST_W:  # also true for NaN
            return self.joules
        if self._last is None and self._began_s is not None and 0 < at_s - self._began_s <= _GAP_S:
            self.joules += power_w * (at_s - self._began_s)
        self._began_s = None
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

    def until(self, now_s: float) -> float:
        """Return the joules until now, with the last power for the time since; a result never falls below an earlier.

        The next power may be lower: then the joules that were told too early are not told again.
        """
        held = self.joules
        if self._last is not None:
            held += self._last[0] * min(max(0.0, now_s - self._last[1]), _GAP_S)
        self._told = max(self._told, held)
        return self._told

    def cut(self) -> None:
        """Forget the last look: the time between it and the next one is not counted."""
        self._last = None
