"""Whether the kernel killed for want of memory: the counters of a process's cgroups, and the kernel's log."""

import os
import re
import time
from typing import NamedTuple

_UNLIMITED = 1 << 60  # version 1 writes "no limit" as a very large number
_KILLED = re.compile(r"out of memory[^\n]*: Killed process (\d+)", re.IGNORECASE)
_LOG = "/dev/kmsg"
_SLACK_S = 5.0  # between the clock of the log and ours


class Level(NamedTuple):
    """One cgroup on the way from a process's own up to the root."""

    path: str
    kills: int | None  # processes in it that were killed for want of memory
    hits: int | None  # how often its own limit was reached
    limit: int | None


class Baseline(NamedTuple):
    """How the counters stood when a process began, for a look back at its end."""

    pid: int
    levels: tuple[Level, ...]
    since_s: float  # on the clock of the kernel's log


class Shortage(NamedTuple):
    """What was short: the limit of a cgroup, or else (`limit` is None) the machine's memory."""

    limit: int | None
    peak: int | None


def begin(pid: int, proc: str = "/proc") -> Baseline:
    """Take down how the counters of a process's cgroups stand now; nothing of it raises."""
    return Baseline(pid, tuple(_level(path) for path in _paths(pid, proc)), time.clock_gettime(time.CLOCK_MONOTONIC))


def shortage(before: Baseline, log: str = _LOG) -> Shortage | None:
    """Tell whether one of the cgroups, or the kernel, has killed for want of memory since then; None: no sign of it."""
    now = [(old, _level(old.path)) for old in before.levels]
    if not any(_rose(old.kills, new.kills) for old, new in now) and not _in_log(before, log):
        return None
    limited = [(old, new) for old, new in now if new.limit is not None]
    hit = [new for old, new in limited if _rose(old.hits, new.hits)] or [new for _, new in limited]
    return Shortage(hit[0].limit, _peak(hit[0].path)) if hit else Shortage(None, None)


def _rose(old: int | None, new: int | None) -> bool:
    return new is not None and new > (old or 0)


def _paths(pid: int, proc: str) -> list[str]:
    """Return the directories of a process's memory cgroup and of those above it, the nearest first."""
    mounts = _mounts(proc)
    for line in _read(f"{proc}/{pid}/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 1 if "memory" in controllers.split(",") else 2 if (number, controllers) == ("0", "") else 0
        if version not in mounts or (version == 2 and 1 in mounts):
            continue
        point, root = mounts[version]
        inside = path[len(root) :] if root != "/" and (path + "/").startswith(root + "/") else path
        parts = [part for part in inside.split("/") if part not in ("", "..")]
        return [os.path.join(point, *parts[:depth]) for depth in range(len(parts), -1, -1)]
    return []


def _mounts(proc: str) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for line in _read(f"{proc}/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup" and "memory" in kind[2].split(","):
            found.setdefault(1, (fields[4], fields[3]))
        elif kind[0] == "cgroup2":
            found.setdefault(2, (fields[4], fields[3]))
    return found


def _level(path: str) -> Level:
    old = _table(path + "/memory.oom_control")
    if old:
        limit = _number(path + "/memory.limit_in_bytes")
        limit = None if limit is None or limit >= _UNLIMITED else limit
        return Level(path, old.get("oom_kill"), _number(path + "/memory.failcnt"), limit)
    events, local = _table(path + "/memory.events"), _table(path + "/memory.events.local")
    return Level(path, events.get("oom_kill"), (local or events).get("oom"), _number(path + "/memory.max"))


def _peak(path: str) -> int | None:
    old = _number(path + "/memory.max_usage_in_bytes")
    return old if old is not None else _number(path + "/memory.peak")


def _table(path: str) -> dict[str, int]:
    pairs = (line.split() for line in _read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _number(path: str) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _in_log(before: Baseline, log: str) -> bool:
    """Look for the process in the kernel's log, where we may read it."""
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
