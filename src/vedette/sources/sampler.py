"""Sensors by name: which ones exist, here and in other packages, and what they measure at one moment."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vedette import kernel
from vedette.model import Sample
from vedette.sensing.sensor import Absent, Metric, Sensor, Target
from vedette.sources import SENSORS

_GROUP = "vedette.sensors"  # the group of entry points


def known() -> list[str]:
    """Return the names of all sensors, ours first."""
    return [*SENSORS, *sorted(set(_others()) - set(SENSORS))]


def find(names: Iterable[str], target: Target) -> tuple[dict[str, Sensor], dict[str, str]]:
    """Return the sensors of these names that work here, and why the others are absent. This never raises."""
    found: dict[str, Sensor] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            sensor = _module(name).sensor(target)
        except Exception as error:  # from a library that it needs, or from another package's sensor
            sensor = Absent(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        if isinstance(sensor, Absent):
            absent[name] = sensor.why
        else:
            found[name] = sensor
    return found, absent


def metrics(sensors: Mapping[str, Sensor]) -> dict[str, Metric]:
    """Return what the numbers of these sensors mean, by metric name."""
    return {name: metric for sensor in sensors.values() for name, metric in sensor.metrics.items()}


def samples(
    sensors: Mapping[str, Sensor], t: int, span: str, on_error: Callable[[str, Exception], None] | None = None
) -> list[Sample]:
    """Read all sensors; return their samples, which belong to `span` or to this host.

    No sensor should raise. If one does, it is left out this time, and `on_error` is called.
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
    from importlib.metadata import entry_points  # noqa: PLC0415 - a slow import, and rarely needed

    return {point.name: point for point in entry_points(group=_GROUP)}
