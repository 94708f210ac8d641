"""The power of batteries, from /sys/class/power_supply; batteries of mice and keyboards are left out."""

import time
from collections.abc import Callable, Mapping

from vedette.sensing.energy import Energy
from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources.power.attribute import Number, names, tag, word
from vedette.sources.power.board import METRICS

_FLOWS = {"charging": "charging", "discharging": "discharging", "full": "idle", "not charging": "idle"}


class Battery:
    """One battery."""

    def __init__(self, folder: str, rail: str) -> None:
        """Read the battery in this folder."""
        self.rail = rail
        self.flow = ""
        self.energies: dict[str, Energy] = {}
        self._folder = folder
        self._power = Number(f"{folder}/power_now")
        self._current, self._voltage = Number(f"{folder}/current_now"), Number(f"{folder}/voltage_now")

    def read_w(self) -> float | None:
        """Return the present power, whatever its direction: drivers do not agree on the sign."""
        power_uw = self._power.read()
        if power_uw is not None:
            return abs(power_uw) / 1e6
        current_ua, voltage_uv = self._current.read(), self._voltage.read()
        return None if current_ua is None or voltage_uv is None else abs(current_ua * voltage_uv) / 1e12

    def look(self, at_s: float) -> Reading | None:
        """Return power, and energy for the present direction of flow."""
        power_w = self.read_w()
        if power_w is None:
            return None
        flow = _FLOWS.get(word(f"{self._folder}/status").lower(), "unknown")
        if flow != self.flow and self.flow:
            self.energies[self.flow].cut()
        self.flow = flow
        joules = self.energies.setdefault(flow, Energy()).add(power_w, at_s)
        return Reading({"power_w": power_w, "energy_j": joules}, {"by": "battery", "rail": self.rail, "flow": flow})

    def close(self) -> None:
        """Close the files."""
        for number in (self._power, self._current, self._voltage):
            number.close()


class Batteries:
    """The batteries of this machine."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, batteries: list[Battery], mains: list[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Read these batteries; `mains` are the attributes that say whether external power is connected."""
        self._batteries = batteries
        self._mains = mains
        self._clock = clock
        self._whole = Energy()

    def look(self) -> list[Reading]:
        """Return the power of each battery; on battery power, their sum is the whole input of the machine."""
        at_s = self._clock()
        found = [(battery, battery.look(at_s)) for battery in self._batteries]
        readings = [reading for _, reading in found if reading is not None]
        on_battery = not any(word(path) == "1" for path in self._mains)
        if on_battery and all(reading is not None and battery.flow != "unknown" for battery, reading in found):
            given_w = sum(reading.values["power_w"] for reading in readings if reading.tags["flow"] == "discharging")
            if given_w > 0 and not any(battery.flow == "charging" for battery, _ in found):
                joules = self._whole.add(given_w, at_s)
                return [*readings, Reading({"power_w": given_w, "energy_j": joules}, {"group": "in"})]
        self._whole.cut()
        return readings

    def close(self) -> None:
        """Close the files."""
        for battery in self._batteries:
            battery.close()


def sensor(target: Target, clock: Callable[[], float] = time.monotonic) -> Batteries | Absent:
    """Return the batteries of this machine that report their power."""
    root = f"{target.sys}/class/power_supply"
    batteries: dict[str, Battery] = {}
    mains = []
    for name in names(root):
        folder = f"{root}/{name}"
        if word(f"{folder}/type") != "Battery":
            mains.append(f"{folder}/online")
        elif word(f"{folder}/scope") != "Device" and tag(name) not in batteries:
            battery = Battery(folder, tag(name))
            if battery.read_w() is not None:
                batteries[battery.rail] = battery
            else:
                battery.close()
    if batteries:
        return Batteries(list(batteries.values()), mains, clock)
    return Absent("no battery in /sys/class/power_supply that reports its power")
