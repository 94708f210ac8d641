"""The work of a monitor in either form: read the sensors when they are due, and give the samples to the sinks."""

import time
from collections.abc import Callable

from vedette.ids import of_watched
from vedette.model import Sample
from vedette.monitor.guarded_sinks import GuardedSink, open_all
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.sensing.schedule import Grid
from vedette.sensing.sensor import Target
from vedette.sources import sampler

_LEAST_S = 0.02  # a last look covers at least this: the kernel's clock ticks are too coarse for less
_SHORT_S = 0.5  # a moment that covers less does not count for maxima, unless the interval is shorter


class Rounds:
    """One period of measuring: from the first look, which primes the sensors, to the last, which covers the rest."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        record: Record,
        say: Callable[[str], None],
        opened: list[GuardedSink] | None = None,
    ) -> None:
        """Find the sensors, open the sinks (unless `opened` has them), and take the first look.

        Raise SettingError for a sink that cannot be opened; later nothing raises.
        """
        self._say, self._record, self._interval_s = say, record, plan.interval_s
        self._span = of_watched(target.pid)
        self._t = 0
        self._sinks: list[GuardedSink] = opened or []
        self._broken: dict[str, str] = {}
        self._sensors, self.absent = sampler.find(plan.sensors, target)
        metrics = sampler.metrics(self._sensors)
        if opened is None:
            try:
                self._sinks = open_all(plan, metrics, target.pid)
            except BaseException:
                self._close()
                raise
        self.closed = False
        self._at = time.monotonic()
        self._grid = Grid(plan.interval_s, self._at)
        self.primed = self._samples()
        record.begin(metrics, self.primed)
        for guarded in self._sinks:
            guarded.prime(self.primed)

    @property
    def ports(self) -> list[int]:
        """The ports on which sinks listen."""
        return [guarded.sink.port for guarded in self._sinks if hasattr(guarded.sink, "port")]

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong, by place."""
        return {**self._broken, **{one.label: text for one in self._sinks if (text := one.trouble)}}

    def wait_s(self) -> float:
        """Return how many seconds it is until the next look is due."""
        return self._grid.wait_s(time.monotonic())

    def turn(self) -> None:
        """Take a look if one is due. Nothing raises."""
        now = time.monotonic()
        if not self.closed and self._grid.due(now):
            self._look(now)

    def finish(self) -> None:
        """Take a last look, which covers the rest of the interval, and close the sinks. Nothing raises."""
        if self.closed:
            return
        now = time.monotonic()
        if now - self._at >= min(_LEAST_S, self._interval_s / 2):
            self._look(now)
        self.closed = True
        self._close()

    def _look(self, now: float) -> None:
        try:
            taken = self._samples()
            seconds, self._at = now - self._at, now
            short = seconds < min(_SHORT_S, self._interval_s / 2)
            self._record.add(taken, self._t, seconds, self._grid.missed, short=short)
        except Exception as error:
            self._fails("monitor", error)
            return
        for guarded in self._sinks:
            guarded.put(taken, self._say)

    def _samples(self) -> list[Sample]:
        self._t = max(time.time_ns(), self._t + 1)  # times must grow, even if the clock is set back
        return sampler.samples(self._sensors, self._t, self._span, self._fails)

    def _fails(self, name: str, error: Exception) -> None:
        if name not in self._broken:
            self._broken[name] = f"{name} fails: {type(error).__name__}: {error}"
            self._say(self._broken[name])

    def _close(self) -> None:
        for guarded in self._sinks:
            guarded.close(self._say)
        for name, sensor in self._sensors.items():
            try:
                sensor.close()
            except Exception as error:
                self._fails(name, error)
