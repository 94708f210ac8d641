"""Energy as x86 processors count it (RAPL), from /sys/class/powercap.

Zones lie in each other: a package holds its cores and its uncore. Its memory is shown below it too, but is not in its
count. The total is therefore packages and memory; psys, where there is one, is the whole platform, and no part of it.
"""

import re
import time
from collections.abc import Callable, Mapping

from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources.power.attribute import Number, names, tag, word
from vedette.sources.power.board import METRICS

_ZONE = re.compile(r"(intel-rapl(?:-mmio)?)(:[0-9]+)+")
_MOST_W = 5000.0  # of one zone: beyond it a counter was not wrapped but set back


class Zone:
    """One counter of microjoules. It begins anew at zero once it has reached its range."""

    def __init__(self, rail: str, kind: str, counter: Number, range_uj: int) -> None:
        """Nothing is counted yet; `kind` is its name without number."""
        self.rail = rail
        self.kind = kind
        self.counter = counter
        self.joules = 0.0
        self._range_uj = range_uj
        self._last: tuple[int, float] | None = None

    def look(self, at_s: float) -> dict[str, float | int]:
        """Return energy since the first look, and from the second one on power; nothing when it cannot be read."""
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
        """Look at these zones."""
        self._zones = zones
        self._clock = clock

    def look(self) -> list[Reading]:
        """Return power and energy of each zone, of all packages and memory, and, where there is psys, of the input."""
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
        if len(platform) == 1:  # of several nobody knows which one counts
            found.append(Reading(dict(platform[0]), {"group": "in"}))
        return found

    def close(self) -> None:
        """Let go of the files."""
        for zone in self._zones:
            zone.counter.close()


def sensor(target: Target, clock: Callable[[], float] = time.monotonic) -> Rapl | Absent:
    """Return the zones of this machine that may be read."""
    root = f"{target.sys}/class/powercap"
    found = [(match[1], name) for name in names(root) if (match := _ZONE.fullmatch(name))]
    # The same package can be asked by a register of the processor or by memory: it is one package all the same.
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
            kind = "part"  # of the package that it lies in, which has counted it
        zones[rail] = Zone(rail, kind, counter, max(0, range_uj.read() or 0))
        range_uj.close()
    if zones:
        return Rapl(list(zones.values()), clock)
    if found:
        return Absent("RAPL cannot be read: by its mode /sys/class/powercap/*/energy_uj is mostly for root alone")
    return Absent("no RAPL in /sys/class/powercap")


def _name(root: str, zone: str) -> str:
    """Return what a zone is called, behind the name of the one that it lies in."""
    own = tag(word(f"{root}/{zone}/name")).replace("/", "_") or tag(zone)
    above = zone.rpartition(":")[0]
    return f"{_name(root, above)}/{own}" if ":" in above else own
