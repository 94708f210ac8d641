"""The sensor of the whole machine: its cores, its memory, its load."""

import os
import time
from collections.abc import Mapping
from typing import Any

from vedette.sensing.probe import OpenFile, number, sound
from vedette.sensing.sensor import Absent, Metric, Reading, Sensor, Target

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_MALFORMED = (ValueError, IndexError, KeyError)

METRICS: Mapping[str, Metric] = {
    "cpu_percent": Metric("gauge", "CPU use of all cores together; 100 is one core"),
    "cpu_share_percent": Metric("gauge", "CPU use as a share of all cores; 100 is the whole machine"),
    "memory_bytes": Metric("gauge", "memory in use: the total minus what is available"),
    "memory_share_percent": Metric("gauge", "memory in use, as a share of the total"),
    "swap_bytes": Metric("gauge", "swap space in use"),
    "load_1": Metric("gauge", "tasks that run or wait, on average over 1 minute"),
    "load_5": Metric("gauge", "tasks that run or wait, on average over 5 minutes"),
    "load_15": Metric("gauge", "tasks that run or wait, on average over 15 minutes"),
}


def sensor(target: Target) -> Sensor | Absent:
    """Return the sensor: it reads /proc, or uses psutil where there is no /proc."""
    if os.path.isfile(f"{target.proc}/stat"):
        return _Host(_Proc(target.proc))
    try:
        return _Host(_Psutil())
    except ImportError:
        return Absent(f"there is no {target.proc}/stat, and psutil is not installed")


class _Proc:
    """Numbers of the machine from /proc."""

    def __init__(self, proc: str) -> None:
        self._files = [OpenFile(f"{proc}/{name}") for name in ("stat", "meminfo", "loadavg")]

    def busy_s(self) -> dict[str, float]:
        """Return the CPU time that was not idle, by core; the sum of all cores has the key ""."""
        found = {}
        for line in self._files[0].read().split(b"\nintr", 1)[0].splitlines():
            words = line.split()
            if len(words) < 5 or not words[0].startswith(b"cpu"):
                continue
            try:
                ticks = [number(word) for word in words[1:9]]
                ticks += [0] * (8 - len(ticks))  # old kernels have fewer columns
                user, nice, system, _idle, _waiting, irq, soft, steal = ticks
            except _MALFORMED:
                continue
            busy = user + nice + system + irq + soft + steal
            found[words[0][3:].decode(errors="replace")] = busy / _TICKS_PER_S
        return found

    def current(self) -> dict[str, float | None]:
        """Return the present values of memory, swap and load."""
        values: dict[str, float | None] = {}
        lines = dict(line.split(b":", 1) for line in self._files[1].read().splitlines() if b":" in line)
        sizes = {}
        for name, rest in lines.items():
            try:
                sizes[name] = number(rest.split()[0]) * 1024
            except _MALFORMED:
                continue
        total, available = sizes.get(b"MemTotal"), sizes.get(b"MemAvailable")
        if available is None and b"MemFree" in sizes:  # a kernel older than 3.14
            available = sizes[b"MemFree"] + sizes.get(b"Buffers", 0) + sizes.get(b"Cached", 0)
        if total and available is not None:
            values["memory_bytes"] = max(0, total - available)
            values["memory_share_percent"] = 100 * max(0, total - available) / total
        if b"SwapTotal" in sizes and b"SwapFree" in sizes:
            values["swap_bytes"] = max(0, sizes[b"SwapTotal"] - sizes[b"SwapFree"])
        for load, word in zip(("load_1", "load_5", "load_15"), self._files[2].read().split(), strict=False):
            try:
                values[load] = float(word)
            except ValueError:
                continue
        return values

    def close(self) -> None:
        for file in self._files:
            file.close()


class _Psutil:
    """The same numbers from psutil, where there is no /proc."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only where it is needed

        self._psutil: Any = psutil

    def busy_s(self) -> dict[str, float]:
        try:
            cores = {str(core): _busy(times) for core, times in enumerate(self._psutil.cpu_times(percpu=True))}
            return {"": sum(cores.values()), **cores}
        except (self._psutil.Error, OSError):
            return {}

    def current(self) -> dict[str, float | None]:
        values: dict[str, float | None] = {}
        try:
            memory = self._psutil.virtual_memory()
            values["memory_bytes"] = memory.total - memory.available
            values["memory_share_percent"] = 100 * (memory.total - memory.available) / memory.total
            values["swap_bytes"] = self._psutil.swap_memory().used
        except (self._psutil.Error, OSError):
            pass
        try:
            values |= zip(("load_1", "load_5", "load_15"), os.getloadavg(), strict=True)
        except (OSError, AttributeError):
            pass
        return values

    def close(self) -> None:
        pass


def _busy(times: Any) -> float:
    named = times._asdict()
    idle = ("idle", "iowait", "guest", "guest_nice")  # the time of guests is already in user
    return float(sum(seconds for name, seconds in named.items() if name not in idle))


class _Host:
    """The sensor: present values, and CPU use since the last look."""

    metrics = METRICS

    def __init__(self, numbers: "_Proc | _Psutil") -> None:
        self._numbers = numbers
        self._before: tuple[float, dict[str, float]] | None = None

    def look(self) -> list[Reading]:
        """Return the present values, and the CPU use since the last look."""
        at_s, busy = time.monotonic(), self._numbers.busy_s()
        values, cores = self._numbers.current(), []
        if self._before is not None and at_s > self._before[0]:
            seconds, then = at_s - self._before[0], self._before[1]
            percent = {core: max(0.0, 100 * (busy[core] - then[core]) / seconds) for core in busy if core in then}
            if "" in percent:
                values["cpu_percent"] = whole = percent.pop("")
                values["cpu_share_percent"] = whole / (len(busy) - 1) if len(busy) > 1 else None
            cores = [Reading(sound({"cpu_percent": share}), {"core": core}) for core, share in percent.items()]
        if busy:
            self._before = at_s, busy
        return [Reading(sound(values)), *cores]

    def close(self) -> None:
        """Close all files."""
        self._numbers.close()
