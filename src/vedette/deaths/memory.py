"""Finds out whether the kernel killed a process because memory ran out: cgroup counters, and the kernel's log."""

import os
import re
import signal
import time
from typing import NamedTuple

from vedette.deaths.evidence import Shortage
from vedette.sensing import cgroup

_KILLED = re.compile(r"out of memory[^\n]*: Killed process (\d+)", re.IGNORECASE)
_LOG = "/dev/kmsg"
_SLACK_S = 5.0  # how far the clock of the kernel's log may be from ours


class Level(NamedTuple):
    """One cgroup on the way from a process's own up to the root."""

    path: str
    kills: int | None  # how many of its processes the out-of-memory killer has killed
    hits: int | None  # how often its own limit was reached
    limit: int | None


class Baseline(NamedTuple):
    """The counters when a process began, to compare with those at its end."""

    pid: int
    levels: tuple[Level, ...]
    since_s: float  # on the clock of the kernel's log


def begin(pid: int, proc: str = "/proc") -> Baseline:
    """Read the counters of a process's cgroups as they are now; never raise."""
    return Baseline(
        pid, tuple(_level(path) for path in cgroup.paths(pid, "memory", proc)), time.clock_gettime(time.CLOCK_MONOTONIC)
    )


def look_back(before: Baseline | None, status: int | None) -> Shortage | None:
    """Return which memory ran out, if the end was SIGKILL, or a shell's exit code for it; else None.

    Other ends are not examined, because reading the kernel's log takes a while.
    """
    if before is None or status is None or (status & 0x7F or (status >> 8) - 128) != signal.SIGKILL:
        return None
    return shortage(before)


def shortage(before: Baseline, log: str = _LOG) -> Shortage | None:
    """Return which memory ran out, if the out-of-memory killer was at work since then; else None."""
    now = [(old, _level(old.path)) for old in before.levels]
    if not any(_rose(old.kills, new.kills) for old, new in now) and not _in_log(before, log):
        return None
    limited = [(old, new) for old, new in now if new.limit is not None]
    hit = [new for old, new in limited if _rose(old.hits, new.hits)] or [new for _, new in limited]
    return Shortage(hit[0].limit, _peak(hit[0].path)) if hit else Shortage(None, None)


def _rose(old: int | None, new: int | None) -> bool:
    return new is not None and new > (old or 0)


def _level(path: str) -> Level:
    old = _table(path + "/memory.oom_control")
    if old:
        return Level(path, old.get("oom_kill"), cgroup.number(path + "/memory.failcnt"), cgroup.memory_limit(path))
    events, local = _table(path + "/memory.events"), _table(path + "/memory.events.local")
    return Level(path, events.get("oom_kill"), (local or events).get("oom"), cgroup.memory_limit(path))


def _peak(path: str) -> int | None:
    old = cgroup.number(path + "/memory.max_usage_in_bytes")
    return old if old is not None else cgroup.number(path + "/memory.peak")


def _table(path: str) -> dict[str, int]:
    pairs = (line.split() for line in cgroup.read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _in_log(before: Baseline, log: str) -> bool:
    """Tell whether the kernel's log says that the process was killed; False if we may not read the log."""
    try:
        fd = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for _ in range(100_000):
            try:
                record = os.read(fd, 8192).decode(errors="replace")  # one record at a time
            except BrokenPipeError:  # overwritten while we read
                continue
            except BlockingIOError:
                return False
            if not record:
                return False
            for line in record.splitlines():
                head, _, text = line.partition(";")
                stamp = head.split(",")[2:3]
                if not stamp or not stamp[0].isdigit() or int(stamp[0]) / 1e6 < before.since_s - _SLACK_S:
                    continue
                found = _KILLED.search(text)
                if found is not None and int(found[1]) == before.pid:
                    return True
        return False
    except OSError:
        return False
    finally:
        os.close(fd)
