"""The sensor of disks: bytes read and written, and how busy each disk is. A partition counts with its disk."""

import os
import re
import time
from collections.abc import Mapping

from vedette.sensing.probe import Counter, OpenFile, number, sound
from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target, tried

_SECTOR_BYTES = 512  # the kernel always counts in these, whatever the disk's own sector size is
_NO_DISK = re.compile(r"(loop|ram|zram|fd|sr)\d")
_PART = re.compile(r"((sd|hd|vd|xvd)[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+|nbd\d+)p\d+)$")  # in case /sys/block is missing
_FIELDS = {"read": 5, "written": 9, "busy": 12}

METRICS: Mapping[str, Metric] = {
    "disk_read_bytes": Metric("counter", "bytes read from the disk"),
    "disk_written_bytes": Metric("counter", "bytes written to the disk"),
    "disk_read_bytes_per_s": Metric("gauge", "bytes read from the disk per second"),
    "disk_written_bytes_per_s": Metric("gauge", "bytes written to the disk per second"),
    "disk_busy_percent": Metric("gauge", "share of the time in which the disk was busy"),
}


def sensor(target: Target) -> Sensor | Absent:
    """Return the sensor, if the kernel lists any disk."""
    if not os.path.isfile(f"{target.proc}/diskstats"):
        return Absent(f"there is no {target.proc}/diskstats")
    return tried(lambda: _Disks(target), f"{target.proc}/diskstats lists no disk")


class _Disks:
    """The disks in /proc/diskstats."""

    metrics = METRICS

    def __init__(self, target: Target) -> None:
        self._file = OpenFile(f"{target.proc}/diskstats")
        self._blocks = f"{target.sys}/block"
        self._whole: dict[str, bool] = {}
        self._counters: dict[str, dict[str, Counter]] = {}
        self._at_s: dict[str, float] = {}

    def look(self) -> list[Reading]:
        """Return the counters of each disk, and its rates since the last look."""
        at_s, found = time.monotonic(), []
        for line in self._file.read().splitlines():
            words = line.split()
            if len(words) <= _FIELDS["busy"]:
                continue
            name = words[2].decode(errors="replace")
            if not self._is_disk(name):
                continue
            try:
                counts = {key: number(words[index]) for key, index in _FIELDS.items()}
            except ValueError:
                continue
            found.append(Reading(self._values(name, counts, at_s), {"disk": name}))
        return found

    def _values(self, name: str, counts: Mapping[str, int], at_s: float) -> dict[str, float | int]:
        counters = self._counters.setdefault(name, {key: Counter() for key in _FIELDS})
        grown = {key: counters[key].take(count) for key, count in counts.items()}
        values: dict[str, float | int | None] = {
            "disk_read_bytes": counters["read"].total * _SECTOR_BYTES,
            "disk_written_bytes": counters["written"].total * _SECTOR_BYTES,
        }
        seconds = at_s - self._at_s.get(name, at_s)
        self._at_s[name] = at_s
        if seconds > 0:
            values["disk_read_bytes_per_s"] = grown["read"] * _SECTOR_BYTES / seconds
            values["disk_written_bytes_per_s"] = grown["written"] * _SECTOR_BYTES / seconds
            values["disk_busy_percent"] = min(100.0, grown["busy"] / seconds / 10)  # busy is in ms
        return sound(values)

    def _is_disk(self, name: str) -> bool:
        if name not in self._whole:
            is_part = os.path.isdir(self._blocks) and not os.path.isdir(f"{self._blocks}/{name.replace('/', '!')}")
            self._whole[name] = not (_NO_DISK.match(name) or is_part or _PART.match(name))
        return self._whole[name]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
