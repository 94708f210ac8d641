"""The rails of a board: which of them add up to the whole input, to the cores and to the rest of the chip.

Boards are told apart by the names of their rails. What a board does not measure by itself is left out: the AGX Orin has
GPU and SoC on one rail, so that neither group can be told there, and the Nano has no rail for its SoC.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from vedette.sensing.energy import Energy
from vedette.sensing.sensor import Metric, Reading

METRICS = {
    "power_w": Metric("gauge", "Power, in watts"),
    "energy_j": Metric("counter", "Energy since the first look, in joules"),
}
_MOST_RAILS = 64


class Groups(NamedTuple):
    """Rails that add up to each group of one kind of board; empty: it cannot be told."""

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
    Groups(("VDD_IN",)),  # one that is not known, but says what its whole input is
    Groups(("POM_5V_IN",)),
)


def groups(powers: Mapping[str, float]) -> dict[str, float]:
    """Return the power of each group, of the rails of one moment; one of which a rail is missing is left out."""
    for board in BOARDS:
        if powers.keys() >= {*board.whole, *board.cores}:
            told = {"in": board.whole, "cpu_gpu_cv": board.cores, "soc": board.soc}
            return {
                group: sum(powers[rail] for rail in rails)
                for group, rails in told.items()
                if rails and powers.keys() >= {*rails}
            }
    return {}


class Board:
    """Keeps the rails of one board as they were last seen, and their energy; one thread may fill it, another read."""

    def __init__(self, by: str) -> None:
        """Nothing is seen yet; `by`: who measures."""
        self._by = by
        self._lock = threading.Lock()
        self._energies: dict[tuple[str, str], Energy] = {}
        self._newest: list[Reading] = []
        self._at_s = 0.0

    def take(self, powers: Mapping[str, float], at_s: float) -> None:
        """Take the watts of all rails at one moment."""
        told = [("rail", name, power_w) for name, power_w in list(powers.items())[:_MOST_RAILS]]
        told += [("group", name, power_w) for name, power_w in groups(powers).items()]
        newest = []
        with self._lock:
            for kind, name, power_w in told:
                joules = self._energies.setdefault((kind, name), Energy()).add(power_w, at_s)
                tags = {"by": self._by, "rail": name} if kind == "rail" else {"group": name}
                newest.append(Reading({"power_w": power_w, "energy_j": joules}, tags))
            self._newest, self._at_s = newest, at_s

    def readings(self, since_s: float) -> list[Reading]:
        """Return what was last seen, if that was not before a moment."""
        with self._lock:
            return self._newest if self._at_s >= since_s else []
