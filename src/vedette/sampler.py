"""How something is measured: sensors by their names, and the moments at which they are looked at.

The moments lie on a fixed grid of time, so that nothing drifts and nothing catches up.
"""

import importlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from vedette import kernel
from vedette.model import Sample
from vedette.sensor import Absent, Metric, Place, Sensor
from vedette.sources import SENSORS

K = TypeVar("K", bound=Hashable)
_GROUP = "vedette.sensors"  # of entry points


def known() -> list[str]:
    """Return the names of all sensors, ours first."""
    return [*SENSORS, *sorted(set(_others()) - set(SENSORS))]


def find(names: Iterable[str], place: Place) -> tuple[dict[str, Sensor], dict[str, str]]:
    """Return the sensors of these names that are there, and why the others are absent. Nothing raises."""
    found: dict[str, Sensor] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            sensor = _module(name).sensor(place)
        except Exception as error:  # of a library that it needs, or of somebody else's sensor
            sensor = Absent(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        if isinstance(sensor, Absent):
            absent[name] = sensor.why
        else:
            found[name] = sensor
    return found, absent


def metrics(sensors: Mapping[str, Sensor]) -> dict[str, Metric]:
    """Return what the numbers of these sensors mean, by their names."""
    return {name: metric for sensor in sensors.values() for name, metric in sensor.metrics.items()}


def samples(
    sensors: Mapping[str, Sensor], t: int, span: str, on_error: Callable[[str, Exception], None] | None = None
) -> list[Sample]:
    """Look at all sensors; return what they say, of `span` or of this host.

    A sensor that raises, which none should, is left out of this moment; `on_error` is told.
    """
    taken: list[Sample] = []
    host = kernel.host_span()
    for name, sensor in sensors.items():
        try:
            taken += [
                Sample(t, t // 10**6, reading.values, host if reading.scope == "host" else span, dict(reading.tags))
                for reading in sensor.look()
            ]
        except Exception as error:
            if on_error is not None:
                on_error(name, error)
    return taken


def _module(name: str) -> Any:
    if name in SENSORS:
        return importlib.import_module(SENSORS[name])
    return _others()[name].load()


def _others() -> dict[str, Any]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - heavy, and seldom needed

    return {point.name: point for point in entry_points(group=_GROUP)}


class Grid:
    """The moments of one who is measured: so many seconds after its beginning, and as many again."""

    def __init__(self, interval_s: float, now: float) -> None:
        """Begin now."""
        self._interval_s, self._begin, self._next = interval_s, now, 1
        self.missed = 0

    def wait_s(self, now: float) -> float:
        """Return how long it is until the next moment."""
        return max(0.0, self._begin + self._next * self._interval_s - now)

    def due(self, now: float) -> bool:
        """Tell whether a moment has come; those before it that were missed are counted, and passed over."""
        if self.wait_s(now) > 0:
            return False
        reached = max(self._next, math.floor((now - self._begin) / self._interval_s))
        self.missed += reached - self._next
        self._next = reached + 1
        return True


class Schedule(Generic[K]):
    """Says who is due when. All with the same interval are due at the same moments: one pass serves them all."""

    def __init__(self) -> None:
        """Nobody is due yet."""
        self._intervals: dict[K, float] = {}
        self._next: dict[float, float] = {}  # by interval

    def __len__(self) -> int:
        return len(self._intervals)

    def want(self, key: K, interval_s: float, now: float) -> None:
        """Have somebody measured every so often."""
        self._intervals[key] = interval_s
        self._next.setdefault(interval_s, _after(now, interval_s))

    def drop(self, key: K) -> None:
        """Have somebody not measured any more."""
        interval_s = self._intervals.pop(key, None)
        if interval_s is not None and interval_s not in self._intervals.values():
            del self._next[interval_s]

    def wait_s(self, now: float) -> float | None:
        """Return how long nobody is due; None: for ever."""
        return max(0.0, min(self._next.values()) - now) if self._next else None

    def due(self, now: float) -> list[K]:
        """Return who is due; a moment that was missed is passed over."""
        reached = {interval_s for interval_s, at in self._next.items() if at <= now}
        for interval_s in reached:
            self._next[interval_s] = _after(now, interval_s)
        return [key for key, interval_s in self._intervals.items() if interval_s in reached]


def _after(now: float, interval_s: float) -> float:
    """Return the first moment of the grid after now."""
    at = (math.floor(now / interval_s) + 1) * interval_s
    return at if at > now else at + interval_s  # rounding
