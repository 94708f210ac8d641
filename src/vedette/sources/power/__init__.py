"""Power and energy of the host, from whatever tells of it here: rails of a board, RAPL, batteries, `tegrastats`.

Each of the four is a sensor of its own, in a file of its own; this is the one that stands in the table.

- `rails`: the rails of a Jetson board, from /sys
- `tegrastats`: the same by the program `tegrastats`
- `board`: which rails add up to what
- `rapl`: energy as x86 processors count it
- `battery`: what batteries give and take
- `attribute`: one file of /sys
"""

from collections.abc import Callable, Mapping

from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target
from vedette.sources.power import battery, rails, rapl, tegrastats
from vedette.sources.power.board import METRICS


class Power:
    """All that tell of power here, looked at together."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, parts: dict[str, Sensor], absent: dict[str, str]) -> None:
        """Look at these, the one that is to be trusted most first; `absent` says why others are not here."""
        self.parts = parts
        self.absent = absent
        self._tellers: dict[str, str] = {}  # by group: who tells of it, so that its energy is counted by one alone

    def look(self) -> list[Reading]:
        """Return what each of them sees, and of each group what one of them says."""
        found = []
        for name, part in self.parts.items():
            for reading in part.look():
                group = reading.tags.get("group")
                if group is None or self._tellers.setdefault(group, name) == name:
                    found.append(reading)
        return found

    def close(self) -> None:
        """Let go of what is open."""
        for part in self.parts.values():
            part.close()


def sensor(target: Target) -> Power | Absent:
    """Return what tells of power here; `tegrastats` is begun only where /sys has no rails of a board."""
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
