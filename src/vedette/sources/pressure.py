"""The sensor of pressure: how long tasks had to wait for CPU, memory or storage, from /proc/pressure."""

import os
from collections.abc import Mapping

from vedette.sensing.probe import Counter, OpenFile, number, sound
from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target, tried

_RESOURCES = ("cpu", "memory", "io")
_KINDS = (b"some", b"full")

METRICS: Mapping[str, Metric] = {
    "pressure_percent": Metric("gauge", "share of the last 10 s in which some or all tasks waited for the resource"),
    "stalled_s": Metric("counter", "time in which some or all tasks waited for the resource"),
}


def sensor(target: Target) -> Sensor | Absent:
    """Return the sensor, if this kernel measures pressure."""
    folder = f"{target.proc}/pressure"
    if not os.path.isdir(folder):
        return Absent(f"there is no {folder}: the kernel is older than 4.20, or was built without it")
    return tried(lambda: _Pressure(folder), f"{folder} cannot be read: the kernel was started without psi=1")


class _Pressure:
    """The files of /proc/pressure."""

    metrics = METRICS

    def __init__(self, folder: str) -> None:
        self._files = {resource: OpenFile(f"{folder}/{resource}", 512) for resource in _RESOURCES}
        self._stalled: dict[tuple[str, bytes], Counter] = {}

    def look(self) -> list[Reading]:
        """Return pressure and stalled time for each resource and kind."""
        found = []
        for resource, file in self._files.items():
            for line in file.read().splitlines():
                kind, _, rest = line.partition(b" ")
                if kind not in _KINDS:
                    continue
                fields = dict(pair.split(b"=", 1) for pair in rest.split() if b"=" in pair)
                values = self._values(resource, kind, fields)
                if values:
                    found.append(Reading(values, {"resource": resource, "kind": kind.decode()}))
        return found

    def _values(self, resource: str, kind: bytes, fields: Mapping[bytes, bytes]) -> dict[str, float | int]:
        values: dict[str, float | int | None] = {}
        try:
            values["pressure_percent"] = float(fields[b"avg10"])
        except (ValueError, KeyError):
            pass
        try:
            counter = self._stalled.setdefault((resource, kind), Counter())
            counter.take(number(fields[b"total"]))
            values["stalled_s"] = counter.total / 1e6
        except (ValueError, KeyError):
            pass
        return sound(values)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
