"""What the meter records of the whole machine: which sensors it reads, and which of their numbers it writes.

A hub runs for weeks, and each series takes space. So single cores, single network interfaces, and counters
other than energy are left out; pressure, each disk, the network as a whole and the power of each part are recorded.
"""

import os

from vedette.model import Sample
from vedette.sensing.sensor import Target
from vedette.sources import SENSORS
from vedette.sources.sampler import find, samples

# by sensor: the names that are recorded, and with which tags; None is any
_RECORDED = {
    "host": ({"cpu_percent", "memory_bytes", "memory_share_percent", "swap_bytes", "load_1"}, ({},)),
    "pressure": ({"pressure_percent"}, tuple({"resource": one, "kind": "some"} for one in ("cpu", "memory", "io"))),
    "disks": ({"disk_read_bytes_per_s", "disk_written_bytes_per_s", "disk_busy_percent"}, None),
    "network": ({"net_sent_bytes_per_s", "net_received_bytes_per_s"}, ({},)),
    "power": ({"power_w", "energy_j"}, tuple({"group": one} for one in ("in", "cpu_gpu_cv", "soc"))),
}
_MOST = 8  # devices of one kind: a machine may have a hundred disks


class Machine:
    """The sensors of the machine."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        """Look for the sensors that are there."""
        target = Target(os.getpid(), proc, sys)
        self._sensors, self.absent = find([name for name in _RECORDED if name in SENSORS], target)

    def look(self, t: int) -> list[Sample]:
        """Return the samples to record now."""
        found = []
        for name, sensor in self._sensors.items():
            names, tags = _RECORDED[name]
            found_here = [sample for sample in samples({name: sensor}, t, "") if sample.span and _wanted(sample, tags)]
            for sample in found_here[:_MOST]:
                values = {key: value for key, value in sample.values.items() if key in names}
                found += [Sample(t, sample.step, values, sample.span, sample.tags)] if values else []
        return found

    def close(self) -> None:
        """Close the sensors."""
        for sensor in self._sensors.values():
            sensor.close()


def _wanted(sample: Sample, tags: tuple[dict[str, str], ...] | None) -> bool:
    return tags is None or dict(sample.tags) in tags
