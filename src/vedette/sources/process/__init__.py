"""Processes: the tree of one of them, added up, as a sensor; or many trees at once, process by process (`look`).

- `members`: who belongs to the tree of a process
- `ledger`: what a tree has used, each tick and byte once
- `rarely`: what is expensive to read
- `snapshot`: many trees at once
- `elsewhere`: the tree of a process without /proc, by psutil
"""

import os
import time
from collections.abc import Mapping

from vedette.sensing import cgroup
from vedette.sensing.probe import sound
from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target
from vedette.sources.process.elsewhere import Elsewhere
from vedette.sources.process.ledger import Ledger, Totals
from vedette.sources.process.members import Members
from vedette.sources.process.rarely import Rarely
from vedette.sources.process.snapshot import Process, Snapshot, look, rates

__all__ = ["METRICS", "Process", "Snapshot", "look", "rates", "sensor"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_LIMITS_EVERY_S = 60.0

METRICS: Mapping[str, Metric] = {
    "cpu_s": Metric("counter", "CPU time of the processes, and of all that have ended among them"),
    "cpu_percent": Metric("gauge", "CPU time by time; 100 is one core"),
    "cpu_share_percent": Metric("gauge", "CPU time by what the machine has, or the quota of the cgroup allows"),
    "memory_bytes": Metric("gauge", "memory that is resident; what processes share counts for each"),
    "memory_pss_bytes": Metric("gauge", "memory that is resident; what processes share is divided among them"),
    "memory_share_percent": Metric("gauge", "memory_bytes by the memory of the machine"),
    "memory_limit_percent": Metric("gauge", "memory_bytes by the limit of the cgroup"),
    "read_bytes": Metric("counter", "bytes that were fetched from storage"),
    "written_bytes": Metric("counter", "bytes that were sent to storage"),
    "read_bytes_per_s": Metric("gauge", "bytes that were fetched from storage, by time"),
    "written_bytes_per_s": Metric("gauge", "bytes that were sent to storage, by time"),
    "processes": Metric("gauge", "processes that run"),
    "threads": Metric("gauge", "threads of them"),
    "open_files": Metric("gauge", "files, sockets and pipes that they have open"),
    "switches": Metric("counter", "times that a thread waited of its own accord"),
    "forced_switches": Metric("counter", "times that a thread had to make room for another"),
}


def sensor(target: Target) -> Sensor | Absent:
    """Return what watches the process and all that descend from it."""
    if not os.path.isfile(f"{target.proc}/stat") and not os.path.isdir(f"{target.proc}/{target.pid}"):
        return Elsewhere.of(target.pid, METRICS, target.apart)
    members = Members(target.pid, target.proc, target.apart)
    return _Tree(target, members) if members.all else Absent(f"there is no process {target.pid}")


class _Tree:
    """The tree of a process, by /proc."""

    metrics = METRICS

    def __init__(self, target: Target, members: Members) -> None:
        self._target = target
        self._members = members
        self._ledger = Ledger()
        self._rarely = Rarely(target.proc)
        self._before: tuple[float, Totals] | None = None
        self._limits_s = float("-inf")
        self._cores = self._memory = self._memory_limit = None  # type: float | None

    def look(self) -> list[Reading]:
        """Return how the tree stands, and what it did since the last look."""
        at_s = time.monotonic()
        totals = self._ledger.take(self._members.look(at_s))
        if at_s - self._limits_s >= _LIMITS_EVERY_S:
            self._limits_s = at_s
            self._look_at_limits()
        living = [member for member in self._members.all.values() if not member.dead]
        values: dict[str, float | int | None] = {"cpu_s": totals.ticks / _TICKS_PER_S, "processes": len(living)}
        if living:  # else there is nothing that could have memory: none is not zero
            memory = sum(member.memory_bytes for member in living)
            values |= {
                "memory_bytes": memory,
                "memory_share_percent": _percent(memory, self._memory),
                "memory_limit_percent": _percent(memory, self._memory_limit),
                "threads": sum(member.threads for member in living),
            }
        tells_moved = any(member.tells_moved for member in self._members.all.values())
        if tells_moved or totals[1:] != (0, 0):
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
            values |= self._rarely.look((member.pid for member in living), at_s)
        return [Reading(sound(values), scope="process")]

    def _look_at_limits(self) -> None:
        """See what the machine has, and what a cgroup leaves of it; either may change while we watch."""
        pid, proc, sys = self._target.pid, self._target.proc, self._target.sys
        if pid not in self._members.all:
            return
        cores, quota = _cores(proc), cgroup.cores(pid, proc, sys)
        self._cores = min((one for one in (cores, quota) if one), default=None)
        self._memory, limit = _memory(proc), cgroup.memory(pid, proc, sys)
        self._memory_limit = limit

    def close(self) -> None:
        """Let go of all files."""
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
