"""What a hub keeps of its whole machine: which sensors are looked at, and which of their numbers go on record.

A hub writes for weeks, and each series costs room: so no single cores and interfaces, and no counters, which the rates
tell too; but what was waited for, each disk, the network as a whole, and the power of each part.
"""

import os

from vedette.model import Sample
from vedette.sensing.sensor import Target
from vedette.sources import SENSORS
from vedette.sources.sampler import find, samples

# sensor: the numbers that are kept, and the tags with which they are
_KEPT = {
    "host": ({"cpu_percent", "memory_bytes", "memory_share_percent", "swap_bytes", "load_1"}, ({},)),
    "pressure": ({"pressure_percent"}, tuple({"resource": one, "kind": "some"} for one in ("cpu", "memory", "io"))),
    "disks": ({"disk_read_bytes_per_s", "disk_written_bytes_per_s", "disk_busy_percent"}, None),
    "network": ({"net_sent_bytes_per_s", "net_received_bytes_per_s"}, ({},)),
    "power": ({"power_w", "energy_j"}, tuple({"group": one} for one in ("in", "cpu_gpu_cv", "soc"))),
}
_MOST = 8  # of one kind: a machine may have a hundred disks


class Machine:
    """The machine, as its hub knows it."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        """Look for the sensors that are there."""
        target = Target(os.getpid(), proc, sys)
        self._sensors, self.absent = find([name for name in _KEPT if name in SENSORS], target)

    def look(self, t: int) -> list[Sample]:
        """Return what is to be kept of this moment."""
        found = []
        for name, sensor in self._sensors.items():
            names, tags = _KEPT[name]
            told = [sample for sample in samples({name: sensor}, t, "") if sample.span and _wanted(sample, tags)]
            for sample in told[:_MOST]:
                values = {key: value for key, value in sample.values.items() if key in names}
                found += [Sample(t, sample.step, values, sample.span, sample.tags)] if values else []
        return found

    def close(self) -> None:
        """Let go of what is open."""
        for sensor in self._sensors.values():
            sensor.close()


def _wanted(sample: Sample, tags: tuple[dict[str, str], ...] | None) -> bool:
    return tags is None or dict(sample.tags) in tags
