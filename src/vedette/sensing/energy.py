"""Energy out of power: what is added up where no hardware counts it."""

_GAP_S = 10.0  # shorter ones are never called a gap
_GAP_TIMES = 4.0  # longer than the time between the last two looks by this: nobody was looking
_MOST_W = 1e5  # beyond it a driver has slipped; one such number would drown all others


class Energy:
    """Adds up joules by the trapezoid between two looks, over the time that really passed between them.

    Times are of the monotonic clock, which stands still while a machine is suspended: what it draws then is not
    counted. Nor is a gap in which nobody looked, because the process was stopped, say, or the sensor away: a power that
    stood before and one that stands after tell nothing of what was between. What is added up is what was seen.
    """

    def __init__(self) -> None:
        """Nothing is added up yet."""
        self.joules = 0.0
        self._last: tuple[float, float] | None = None  # watts, and when
        self._usual_s = 0.0

    def add(self, power_w: float, at_s: float) -> float:
        """Take the power of one moment, and return the joules so far. What is no power is passed over."""
        if not 0 <= power_w < _MOST_W:  # neither is NaN
            return self.joules
        if self._last is not None:
            before_w, before_s = self._last
            passed_s = at_s - before_s
            if passed_s <= 0:
                return self.joules
            if not self._usual_s or passed_s <= max(_GAP_S, _GAP_TIMES * self._usual_s):
                self.joules += (before_w + power_w) / 2 * passed_s
            self._usual_s = passed_s  # also after a gap: it may be a new, slower rhythm
        self._last = power_w, at_s
        return self.joules

    def cut(self) -> None:
        """Forget the last look: what is between it and the next is not to be counted."""
        self._last = None
