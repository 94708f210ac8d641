"""A monitor at work, whoever drives it: it looks at its sensors when they are due, and hands what they say to sinks."""

import time
from collections.abc import Callable

from vedette.model import Sample
from vedette.monitor.outlets import Outlet, open_all
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.sensing.schedule import Grid
from vedette.sensing.sensor import Target
from vedette.sources import sampler

_LEAST_S = 0.02  # that a last look must cover: of less the kernel's clock ticks make nonsense
_SHORT_S = 0.5  # what a moment must cover to say what the most was, unless the interval is shorter


class Rounds:
    """One period of looking, from its first look, which primes the sensors, to its last, which covers the rest."""

    def __init__(
        self, plan: Plan, target: Target, record: Record, say: Callable[[str], None], opened: list[Outlet] | None = None
    ) -> None:
        """Find the sensors, open the sinks unless they are, and take the first look.

        Raise SettingError for a sink that cannot be; from then on nothing raises.
        """
        self._say, self._record, self._interval_s = say, record, plan.interval_s
        self._span = f"pid-{target.pid}"
        self._t = 0
        self._outlets: list[Outlet] = opened or []
        self._broken: dict[str, str] = {}
        self._sensors, self.absent = sampler.find(plan.sensors, target)
        metrics = sampler.metrics(self._sensors)
        if opened is None:
            try:
                self._outlets = open_all(plan, metrics, target.pid)
            except BaseException:
                self._close()
                raise
        self.closed = False
        self._at = time.monotonic()
        self._grid = Grid(plan.interval_s, self._at)
        self.primed = self._samples()
        record.begin(metrics, self.primed)
        for outlet in self._outlets:
            outlet.prime(self.primed)

    @property
    def ports(self) -> list[int]:
        """The ports that sinks listen on."""
        return [outlet.sink.port for outlet in self._outlets if hasattr(outlet.sink, "port")]

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong, by where."""
        return {**self._broken, **{one.label: text for one in self._outlets if (text := one.trouble)}}

    def wait_s(self) -> float:
        """Return how long nothing is due."""
        return self._grid.wait_s(time.monotonic())

    def turn(self) -> None:
        """Take a look if one is due. Nothing raises."""
        now = time.monotonic()
        if not self.closed and self._grid.due(now):
            self._look(now)

    def finish(self) -> None:
        """Take a last look, at what is left of an interval, and close the sinks. Nothing raises; once is enough."""
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
        for outlet in self._outlets:
            outlet.put(taken, self._say)

    def _samples(self) -> list[Sample]:
        self._t = max(time.time_ns(), self._t + 1)  # a clock that was set back makes no moment come before another
        return sampler.samples(self._sensors, self._t, self._span, self._fails)

    def _fails(self, name: str, error: Exception) -> None:
        if name not in self._broken:
            self._broken[name] = f"{name} fails: {type(error).__name__}: {error}"
            self._say(self._broken[name])

    def _close(self) -> None:
        for outlet in self._outlets:
            outlet.close(self._say)
        for name, sensor in self._sensors.items():
            try:
                sensor.close()
            except Exception as error:
                self._fails(name, error)
