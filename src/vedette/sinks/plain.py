"""The seven plain numbers of a resource monitor, computed from the samples of its sensors.

CPU in percent of one core, memory in percent of the machine, bytes sent and received since the last moment, and the
power of three rails in milliwatts.
"""

from collections.abc import Iterable, Mapping, Sequence

from vedette.ids import is_host
from vedette.model import Sample

KEYS = (
    "cpu_usage",
    "memory_usage",
    "network_bytes_sent",
    "network_bytes_recv",
    "power_vdd_in",
    "power_vdd_cpu_gpu_cv",
    "power_vdd_soc",
)
SENSORS = {
    "cpu": "process",
    "memory": "process",
    "network": "network",
    "power": "power",
}  # by metric: the sensor that measures it

_NOW = {"cpu": ("cpu_percent", KEYS[0]), "memory": ("memory_share_percent", KEYS[1])}
_COUNTS = {"net_sent_bytes": KEYS[2], "net_received_bytes": KEYS[3]}
_RAILS = {"in": KEYS[4], "cpu_gpu_cv": KEYS[5], "soc": KEYS[6]}


def line(numbers: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """Return the numbers of a moment as people read them: `CPU Usage: 37.2%, Bytes Sent: 4010, `."""
    return "".join(f"{labels[key]}: {_shown(key, value)}, " for key, value in numbers.items())


def _shown(key: str, value: float) -> str:
    if key in KEYS[:2]:
        return f"{float(value)}%"
    rounded = round(value, 3) if value - value == 0 else value  # false for the infinities and NaN
    return str(int(rounded) if rounded == rounded // 1 else rounded)


class Plain:
    """Computes the plain numbers of each moment."""

    def __init__(self, wanted: Iterable[str] = ("cpu", "memory", "network")) -> None:
        """`wanted`: some of cpu, memory, network and power."""
        self._now = {name: key for want, (name, key) in _NOW.items() if want in wanted}
        self._counts = _COUNTS if "network" in wanted else {}
        self._rails = _RAILS if "power" in wanted else {}
        self._before: dict[str, float] = {}

    def of(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Return the numbers of this moment, without unknown ones. The first call sets where the counts begin."""
        found: dict[str, float] = {}
        for sample in samples:
            if not sample.tags and not is_host(sample.span):
                found |= {key: sample.values[name] for name, key in self._now.items() if name in sample.values}
            if not sample.tags:
                found |= self._grown(sample.values)
            if (key := self._rails.get(sample.tags.get("group", ""), "")) and "power_w" in sample.values:
                found[key] = sample.values["power_w"] * 1000
        return {key: found[key] for key in KEYS if key in found}

    def _grown(self, values: Mapping[str, float]) -> dict[str, float]:
        grown = {}
        for name, key in self._counts.items():
            if name in values:
                if name in self._before:
                    grown[key] = max(0, values[name] - self._before[name])
                self._before[name] = values[name]
        return grown
