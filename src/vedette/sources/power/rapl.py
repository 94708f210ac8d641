"""Energy of x86 processors, by their own counters (RAPL), from /sys/class/powercap.

Zones are nested: a package includes its cores and its uncore. Its memory is listed below it too, but is not included
in its count. So the total is packages plus memory. The zone psys, if there is one, is the whole platform, and is not
added.
"""

import re
import time
from collections.abc import Callable, Mapping

from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources.power.attribute import Number, names, tag, word
from vedette.sources.power.board import METRICS

_ZONE = re.compile(r"(intel-rapl(?:-mmio)?)(:[0-9]+)+")
_MOST_W = 5000.0  # the most power of one zone: more than this means that the counter was reset, not wrapped


class Zone:
    """One counter of microjoules, which wraps around at its range."""

    def __init__(self, rail: str, kind: str, counter: Number, range_uj: int) -> None:
        """Start at 0 joules; `kind` is the zone's name without its number."""
        self.rail = rail
        self.kind = kind
        self.counter = counter
        self.joules = 0.0
        self._range_uj = range_uj
        self._last: tuple[int, float] | None = None

    def look(self, at_s: float) -> dict[str, float | int]:
        """Return the energy since the first look, and from the second look on the power; {} if it cannot be read."""
        now = self.counter.read()
        if now is None or now < 0:
            return {}
        values: dict[str, float | int] = {}
        if self._last is not None:
            before, before_s = self._last
            passed_s = at_s - before_s
            if passed_s <= 0:
                return {"energy_j": self.joules}
            grown_j = (now - before + (self._range_uj if now < before else 0)) / 1e6
            if 0 <= grown_j <= _MOST_W * passed_s:
                self.joules += grown_j
                values["power_w"] = grown_j / passed_s
        self._last = now, at_s
        values["energy_j"] = self.joules
        return values


class Rapl:
    """The zones of this machine."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, zones: list[Zone], clock: Callable[[], float] = time.monotonic) -> None:
        """Read these zones."""
        self._zones = zones
        self._clock = clock

    def look(self) -> list[Reading]:
        """Return power and energy of each zone, of packages and memory together, and of the whole input (psys)."""
        found, summed, platform = [], [], []
        for zone in self._zones:
            values = zone.look(self._clock())
            if values:
                found.append(Reading(values, {"by": "rapl", "rail": zone.rail}))
            if zone.kind in ("package", "dram"):
                summed.append((zone, values))
            elif zone.kind == "psys" and values:
                platform.append(values)
        if summed and any(values for _, values in summed):
            total: dict[str, float | int] = {"energy_j": sum(zone.joules for zone, _ in summed)}
            if all("power_w" in values for _, values in summed):
                total["power_w"] = sum(values["power_w"] for _, values in summed)
            found.append(Reading(total, {"by": "rapl", "rail": "total"}))
        if len(platform) == 1:  # with several we do not know which one is the input
            found.append(Reading(dict(platform[0]), {"group": "in"}))
        return found

    def close(self) -> None:
        """Close the files."""
        for zone in self._zones:
            zone.counter.close()


def sensor(target: Target, clock: Callable[[], float] = time.monotonic) -> Rapl | Absent:
    """Return the zones of this machine that can be read."""
    root = f"{target.sys}/class/powercap"
    found = [(match[1], name) for name in names(root) if (match := _ZONE.fullmatch(name))]
    # Two drivers (MSR and MMIO) may show the same package: read only one of them.
    driver = min((driver for driver, _ in found), default="")
    zones: dict[str, Zone] = {}
    for name in [name for one, name in found if one == driver]:
        rail = _name(root, name)
        if rail in zones:
            rail = f"{rail}.{name.rpartition(':')[2]}"
        counter = Number(f"{root}/{name}/energy_uj")
        if rail in zones or counter.read() is None:
            counter.close()
            continue
        range_uj = Number(f"{root}/{name}/max_energy_range_uj")
        kind = re.split(r"[^a-z]", rail.rpartition("/")[2], maxsplit=1)[0]
        if kind == "package" and name.count(":") > 1:
            kind = "part"  # of the package above it, which includes it
        zones[rail] = Zone(rail, kind, counter, max(0, range_uj.read() or 0))
        range_uj.close()
    if zones:
        return Rapl(list(zones.values()), clock)
    if found:
        return Absent("RAPL cannot be read: on most systems only root may read /sys/class/powercap/*/energy_uj")
    return Absent("no RAPL in /sys/class/powercap")


def _name(root: str, zone: str) -> str:
    """Return the name of a zone, prefixed by the names of the zones that contain it."""
    own = tag(word(f"{root}/{zone}/name")).replace("/", "_") or tag(zone)
    above = zone.rpartition(":")[0]
    return f"{_name(root, above)}/{own}" if ":" in above else own
