"""The sensor of the host's power and energy: rails of a board, RAPL, batteries, `tegrastats`.

Each of the four is a sensor in a file of its own; this one combines them, and is the one listed in `SENSORS`.

- `rails`: the rails of a Jetson board, from /sys
- `tegrastats`: the same, printed by the program `tegrastats`
- `board`: which rails add up to what
- `rapl`: energy of x86 processors, by their own counters
- `battery`: the power of batteries
- `attribute`: one file of /sys
"""

from collections.abc import Callable, Mapping

from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target
from vedette.sources.power import battery, rails, rapl, tegrastats
from vedette.sources.power.board import METRICS


class Power:
    """All power sensors of this machine, read together."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, parts: dict[str, Sensor], absent: dict[str, str]) -> None:
        """Read these sensors, the most trusted first; `absent` says why the others are missing."""
        self.parts = parts
        self.absent = absent
        self._chosen: dict[str, str] = {}  # which sensor reports each group, so that no energy is counted twice

    def look(self) -> list[Reading]:
        """Return the readings of all sensors; a group is reported by only one of them."""
        found = []
        for name, part in self.parts.items():
            for reading in part.look():
                group = reading.tags.get("group")
                if group is None or self._chosen.setdefault(group, name) == name:
                    found.append(reading)
        return found

    def close(self) -> None:
        """Close all parts."""
        for part in self.parts.values():
            part.close()


def sensor(target: Target) -> Power | Absent:
    """Return the sensor; the program `tegrastats` is started only if /sys has no rails of a board."""
    parts: dict[str, Sensor] = {}
    absent: dict[str, str] = {}
    for name, find in _KINDS.items():
        if name == "tegrastats" and "ina3221" in parts:
            continue
        found = find(target)
        if isinstance(found, Absent):
            absent[name] = found.why
        else:
            parts[name] = found
    return Power(parts, absent) if parts else Absent("; ".join(absent.values()))


_KINDS: dict[str, Callable[[Target], Sensor | Absent]] = {
    "ina3221": rails.sensor,
    "tegrastats": tegrastats.sensor,
    "rapl": rapl.sensor,
    "battery": battery.sensor,
}
