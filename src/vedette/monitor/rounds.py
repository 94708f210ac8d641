"""A monitor at work, whoever drives it: it looks at its sensors when they are due, and hands what they say to sinks."""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from vedette import sampler
from vedette.errors import SettingError
from vedette.model import Sample
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.sensor import Metric, Place
from vedette.sinks import SINKS, Sink

_LEAST_S = 0.02  # that a last look must cover: of less the kernel's clock ticks make nonsense
_SHORT_S = 0.5  # what a moment must cover to say what the most was, unless the interval is shorter
_GROUP = "vedette.sinks"  # of entry points


class Rounds:
    """One period of looking, from its first look, which primes the sensors, to its last, which covers the rest."""

    def __init__(
        self, plan: Plan, place: Place, record: Record, say: Callable[[str], None], also: Sequence[Sink] = ()
    ) -> None:
        """Find the sensors, open the sinks, take the first look; raise SettingError for a sink that cannot be."""
        self._say, self._record, self._interval_s = say, record, plan.interval_s
        self._span = f"pid-{place.pid}"
        self._t = 0
        self._outlets: list[_Outlet] = []
        self._broken: dict[str, str] = {}
        self._sensors, self.absent = sampler.find(plan.sensors, place)
        metrics = sampler.metrics(self._sensors)
        try:
            for name, config in plan.sinks:
                self._outlets.append(_Outlet(_label(name, config), _open(name, config, metrics)))
        except BaseException:
            self._close()
            raise
        self._outlets += [_Outlet("", sink) for sink in also]
        self.closed = False
        self._at = time.monotonic()
        self._grid = sampler.Grid(plan.interval_s, self._at)
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


class _Outlet:
    """A sink, and how often it failed: the others go on."""

    def __init__(self, label: str, sink: Any) -> None:
        self.label, self.sink = label, sink
        self._failed = 0
        self._why = ""

    @property
    def trouble(self) -> str:
        failed = self._failed + getattr(self.sink, "lost", 0)
        if not failed and not self._why:
            return ""
        return f"{self.label} lacks {failed} moment{'s' * (failed != 1)}" + (f": {self._why}" if self._why else "")

    def prime(self, samples: list[Sample]) -> None:
        """Hand over the first look, which has no rates yet, to a sink that has use for it."""
        if hasattr(self.sink, "prime"):
            self._guard(lambda: self.sink.prime(samples))

    def put(self, samples: list[Sample], say: Callable[[str], None]) -> None:
        if not self._guard(lambda: self.sink.put(samples)):
            self._failed += 1
            if self._failed == 1:
                say(f"{self.label} cannot be written, what it lacks is counted: {self._why}")

    def close(self, say: Callable[[str], None]) -> None:
        if not self._guard(self.sink.close):
            say(f"{self.label} could not be closed: {self._why}")

    def _guard(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as error:
            self._why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            return False
        return True


def _label(name: str, config: Mapping[str, Any]) -> str:
    where = next((str(config[key]) for key in ("path", "host", "home") if config.get(key)), "")
    return f"{name}:{where}" if where else name


def _open(name: str, config: Mapping[str, Any], metrics: Mapping[str, Metric]) -> Sink:
    try:
        module = importlib.import_module(SINKS[name]) if name in SINKS else _others(name)
        sink: Sink = module.open(msgspec.convert(config, module.Config), metrics)
        return sink
    except msgspec.ValidationError as error:
        raise SettingError(f"the sink {name} cannot take this: {error}") from None


def _others(name: str) -> Any:
    from importlib.metadata import entry_points  # noqa: PLC0415 - heavy, and seldom needed

    for point in entry_points(group=_GROUP, name=name):
        return point.load()
    raise SettingError(f"there is no sink {name!r}; there are {', '.join(SINKS)}")
