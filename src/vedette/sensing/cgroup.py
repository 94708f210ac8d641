"""The cgroups of a process, in versions 1 and 2: their directories and their limits."""

import os

_UNLIMITED = 1 << 60  # version 1 writes "no limit" as a very large number
_MOST_BYTES = 1 << 20


def paths(pid: int, controller: str, proc: str = "/proc", sys: str = "/sys") -> list[str]:
    """Return the directories of a process's cgroup and its parents, the nearest first; empty if none is found."""
    mounts = _mounts(controller, proc, sys)
    for line in read(f"{proc}/{pid}/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 1 if controller in controllers.split(",") else 2 if (number, controllers) == ("0", "") else 0
        if version not in mounts or (version == 2 and 1 in mounts):
            continue
        point, root = mounts[version]
        inside = path[len(root) :] if root != "/" and (path + "/").startswith(root + "/") else path
        parts = [part for part in inside.split("/") if part not in ("", "..")]
        return [os.path.join(point, *parts[:depth]) for depth in range(len(parts), -1, -1)]
    return []


def cores(pid: int, proc: str = "/proc", sys: str = "/sys") -> float | None:
    """Return how many cores a process may use, by the lowest quota of its cgroups; None if there is no quota."""
    found = [allowed for path in paths(pid, "cpu", proc, sys) if (allowed := _quota(path)) is not None]
    return min(found, default=None)


def memory(pid: int, proc: str = "/proc", sys: str = "/sys") -> int | None:
    """Return the lowest memory limit of a process's cgroups, in bytes; None if there is no limit."""
    found = [limit for path in paths(pid, "memory", proc, sys) if (limit := memory_limit(path)) is not None]
    return min(found, default=None)


def memory_limit(path: str) -> int | None:
    """Return the memory limit of one cgroup itself, in bytes; None if it has none."""
    limit = number(path + "/memory.limit_in_bytes")
    if limit is None:
        limit = number(path + "/memory.max")
    return None if limit is None or not 0 < limit < _UNLIMITED else limit


def number(path: str) -> int | None:
    """Return the number in a file that holds nothing else; None otherwise."""
    text = read(path).strip()
    return int(text) if text.isdecimal() and len(text) < 25 else None


def read(path: str) -> str:
    """Return the text of a small file; empty if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _quota(path: str) -> float | None:
    words = read(path + "/cpu.max").split() or [
        read(path + "/cpu.cfs_quota_us").strip(),
        read(path + "/cpu.cfs_period_us").strip(),
    ]
    try:
        quota, period = (float(word) for word in words)
    except ValueError:  # "max 100000", or none of these files
        return None
    return quota / period if quota > 0 and period > 0 else None  # -1 is no quota


def _mounts(controller: str, proc: str, sys: str) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for line in read(f"{proc}/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        point = sys + fields[4][4:] if fields[4].startswith("/sys/") else fields[4]
        if kind[0] == "cgroup" and controller in kind[2].split(","):
            found.setdefault(1, (point, fields[3]))
        elif kind[0] == "cgroup2":
            found.setdefault(2, (point, fields[3]))
    return found
