"""The power rails of a board: which of them add up to the whole input, to the cores, and to the rest of the chip.

A board is recognised by the names of its rails. A group that a board does not measure separately is left out: the AGX
Orin has GPU and SoC on one rail, so it has neither group, and the Nano has no rail for its SoC.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from vedette.sensing.energy import Energy
from vedette.sensing.sensor import Metric, Reading

METRICS = {
    "power_w": Metric("gauge", "Power, in watts"),
    "energy_j": Metric("counter", "Energy since the first look, in joules", from_zero=True),
}
_MOST_RAILS = 64


class Groups(NamedTuple):
    """The rails that add up to each group on one kind of board; empty if the group is not measured."""

    whole: tuple[str, ...]
    cores: tuple[str, ...] = ()
    soc: tuple[str, ...] = ()


BOARDS = (
    Groups(("VDD_IN",), ("VDD_CPU_GPU_CV",), ("VDD_SOC",)),  # Xavier NX, Orin NX, Orin Nano
    Groups(("VDD_IN",), ("VDD_CPU_GPU",), ("VDD_SOC",)),  # TX2 NX
    Groups(("VDD_IN",), ("VDD_SYS_CPU", "VDD_SYS_GPU"), ("VDD_SYS_SOC",)),  # TX2
    Groups(("VDD_IN",), ("VDD_CPU", "VDD_GPU")),  # TX1
    Groups(("POM_5V_IN",), ("POM_5V_CPU", "POM_5V_GPU")),  # Nano
    Groups(("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"), ("CPU", "GPU", "CV"), ("SOC",)),  # AGX Xavier
    Groups(("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO")),  # AGX Orin
    Groups(("VIN",)),  # Thor: its other rails mix CPU and SoC
    Groups(("VDD_IN",)),  # an unknown board that measures its whole input
    Groups(("POM_5V_IN",)),
)


def groups(powers: Mapping[str, float]) -> dict[str, float]:
    """Return the power of each group from the power of the rails; a group with a missing rail is left out."""
    for board in BOARDS:
        if powers.keys() >= {*board.whole, *board.cores}:
            rails_of = {"in": board.whole, "cpu_gpu_cv": board.cores, "soc": board.soc}
            return {
                group: sum(powers[rail] for rail in rails)
                for group, rails in rails_of.items()
                if rails and powers.keys() >= {*rails}
            }
    return {}


class Board:
    """Holds the newest power of each rail of a board, and its energy; one thread may write, another read."""

    def __init__(self, by: str, began_s: float | None = None) -> None:
        """Start without readings; `by`: the name of the sensor, for the tags.

        `began_s`: when the time began that the energy covers, if the first powers come later than that.
        """
        self._by = by
        self._began_s = began_s
        self._lock = threading.Lock()
        self._energies: dict[tuple[str, str], Energy] = {}
        self._newest: list[Reading] = []
        self._at_s = 0.0

    def take(self, powers: Mapping[str, float], at_s: float) -> None:
        """Set the power of all rails at one moment."""
        measured = [("rail", name, power_w) for name, power_w in list(powers.items())[:_MOST_RAILS]]
        measured += [("group", name, power_w) for name, power_w in groups(powers).items()]
        newest = []
        with self._lock:
            for kind, name, power_w in measured:
                if (kind, name) not in self._energies:
                    self._energies[kind, name] = Energy(self._began_s)
                joules = self._energies[kind, name].add(power_w, at_s)
                tags = {"by": self._by, "rail": name} if kind == "rail" else {"group": name}
                newest.append(Reading({"power_w": power_w, "energy_j": joules}, tags))
            self._newest, self._at_s = newest, at_s
            self._began_s = None  # a rail that comes later has not been there all the time

    def readings(self, since_s: float) -> list[Reading]:
        """Return the newest readings, or nothing if they are older than `since_s`."""
        with self._lock:
            return self._newest if self._at_s >= since_s else []

    def readings_until(self, now_s: float, since_s: float) -> list[Reading]:
        """Return the same with the energy until now: the power has held since it was set."""
        with self._lock:
            if self._at_s < since_s:
                return []
            return [
                reading._replace(values=reading.values | {"energy_j": self._energy(reading).until(now_s)})
                for reading in self._newest
            ]

    def _energy(self, reading: Reading) -> Energy:
        kind = "rail" if "rail" in reading.tags else "group"
        return self._energies[kind, reading.tags[kind]]
