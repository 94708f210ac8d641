"""Processes: a sensor that adds up one process tree, and `look`, which reads many trees process by process.

- `members`: the members of a process tree
- `ledger`: what a tree has used, each tick and byte counted once
- `slow_metrics`: values that are slow to read
- `snapshot`: many trees at once
- `psutil_tree`: a tree measured with psutil, without /proc
"""

import os
import time
from collections.abc import Mapping

from vedette.sensing import cgroup
from vedette.sensing.probe import sound
from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target
from vedette.sources.process.ledger import Ledger, Totals
from vedette.sources.process.members import Members
from vedette.sources.process.psutil_tree import PsutilTree
from vedette.sources.process.slow_metrics import SlowMetrics
from vedette.sources.process.snapshot import Process, Snapshot, look, rates

__all__ = ["METRICS", "Process", "Snapshot", "look", "rates", "sensor"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_LIMITS_EVERY_S = 60.0

METRICS: Mapping[str, Metric] = {
    "cpu_s": Metric("counter", "CPU time of the process tree, including processes that have ended"),
    "cpu_percent": Metric("gauge", "CPU use; 100 is one core"),
    "cpu_share_percent": Metric("gauge", "CPU use as a share of the machine's cores, or of the cgroup's quota"),
    "memory_bytes": Metric("gauge", "resident memory; shared pages count for each process"),
    "memory_pss_bytes": Metric("gauge", "resident memory; shared pages are divided among the processes"),
    "memory_share_percent": Metric("gauge", "memory_bytes as a share of the machine's memory"),
    "memory_limit_percent": Metric("gauge", "memory_bytes as a share of the cgroup's limit"),
    "read_bytes": Metric("counter", "bytes read from storage"),
    "written_bytes": Metric("counter", "bytes written to storage"),
    "read_bytes_per_s": Metric("gauge", "bytes read from storage per second"),
    "written_bytes_per_s": Metric("gauge", "bytes written to storage per second"),
    "processes": Metric("gauge", "live processes"),
    "threads": Metric("gauge", "threads of these processes"),
    "open_files": Metric("gauge", "open files, sockets and pipes"),
    "switches": Metric("counter", "voluntary context switches: a thread waited for something"),
    "forced_switches": Metric("counter", "involuntary context switches: a thread was preempted"),
}


def sensor(target: Target) -> Sensor | Absent:
    """Return the sensor of the target process and all its descendants."""
    if not os.path.isfile(f"{target.proc}/stat") and not os.path.isdir(f"{target.proc}/{target.pid}"):
        return PsutilTree.of(target.pid, METRICS, target.apart)
    members = Members(target.pid, target.proc, target.apart)
    return _Tree(target, members) if members.all else Absent(f"there is no process {target.pid}")


class _Tree:
    """A process tree, read from /proc."""

    metrics = METRICS

    def __init__(self, target: Target, members: Members) -> None:
        self._target = target
        self._members = members
        self._ledger = Ledger()
        self._slow_metrics = SlowMetrics(target.proc)
        self._before: tuple[float, Totals] | None = None
        self._limits_s = float("-inf")
        self._cores = self._memory = self._memory_limit = None  # type: float | None

    def look(self) -> list[Reading]:
        """Return the present values of the tree, and its rates since the last look."""
        at_s = time.monotonic()
        totals = self._ledger.take(self._members.look(at_s))
        if at_s - self._limits_s >= _LIMITS_EVERY_S:
            self._limits_s = at_s
            self._read_limits()
        living = [member for member in self._members.all.values() if not member.dead]
        values: dict[str, float | int | None] = {"cpu_s": totals.ticks / _TICKS_PER_S, "processes": len(living)}
        if living:  # a tree without processes has no value for memory, rather than 0
            memory = sum(member.memory_bytes for member in living)
            values |= {
                "memory_bytes": memory,
                "memory_share_percent": _percent(memory, self._memory),
                "memory_limit_percent": _percent(memory, self._memory_limit),
                "threads": sum(member.threads for member in living),
            }
        has_io = any(member.has_io for member in self._members.all.values())
        if has_io or totals[1:] != (0, 0):
            values |= {"read_bytes": int(totals.read_bytes), "written_bytes": int(totals.written_bytes)}
        if self._before is not None and at_s > self._before[0]:
            seconds = at_s - self._before[0]
            ticks, read, written = (now - then for now, then in zip(totals, self._before[1], strict=True))
            cpu = 100 * ticks / _TICKS_PER_S / seconds
            values |= {"cpu_percent": cpu, "cpu_share_percent": cpu / self._cores if self._cores else None}
            if "read_bytes" in values:
                values |= {"read_bytes_per_s": read / seconds, "written_bytes_per_s": written / seconds}
        if self._before is None or at_s > self._before[0]:
            self._before = at_s, totals
        if living:
            values |= self._slow_metrics.look((member.pid for member in living), at_s)
        return [Reading(sound(values), scope="process")]

    def _read_limits(self) -> None:
        """Read the machine's cores and memory, and the cgroup's limits; both may change while we watch."""
        pid, proc, sys = self._target.pid, self._target.proc, self._target.sys
        if pid not in self._members.all:
            return
        cores, quota = _cores(proc), cgroup.cores(pid, proc, sys)
        self._cores = min((one for one in (cores, quota) if one), default=None)
        self._memory, limit = _memory(proc), cgroup.memory(pid, proc, sys)
        self._memory_limit = limit

    def close(self) -> None:
        """Close all files."""
        self._members.close()


def _percent(part: float, whole: float | None) -> float | None:
    return 100 * part / whole if whole else None


def _cores(proc: str) -> float | None:
    lines = cgroup.read(f"{proc}/stat").splitlines()
    return sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines) or os.cpu_count()


def _memory(proc: str) -> float | None:
    for line in cgroup.read(f"{proc}/meminfo").splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and words[1:2] and words[1].isdigit():
            return int(words[1]) * 1024.0
    return None
