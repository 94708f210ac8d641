"""Many trees at once, process by process: one pass over the trees of some roots is a snapshot, two give rates.

A process that is gone, or that may not be looked at, is passed over. What cannot be read of one that is there is None.
"""

import os
import time
from collections.abc import Container, Iterable
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_GONE = (OSError, ValueError, IndexError)


class Process(NamedTuple):
    """One process at one moment. Its pid and the kernel's time of its start name it: pids are used again."""

    pid: int
    started: int  # clock ticks since boot
    ppid: int
    name: str
    cpu_s: float
    memory_bytes: int
    threads: int
    read_bytes: int | None = None
    written_bytes: int | None = None


class Snapshot(NamedTuple):
    """All that one pass has seen, by pid."""

    at_s: float  # monotonic
    processes: dict[int, Process]


def look(roots: Iterable[int], apart: Container[int] = (), proc: str = "/proc") -> Snapshot:
    """Take a snapshot of the processes with these pids and of all that descend from them.

    A tree is seen from its root downward, that of the last root first. Those in `apart` are left out with their
    descendants, unless they are roots themselves. `proc` is where the kernel shows its processes.
    """
    at_s = time.monotonic()
    if not os.path.isdir(os.path.join(proc, "self")) and proc == "/proc":
        return Snapshot(at_s, _by_psutil(roots, apart))
    walk = _Walk(proc)
    found: dict[int, Process] = {}
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid in found or (process := walk.read(pid)) is None:
            continue
        found[pid] = process
        todo += [child for child in walk.children(process) if child not in apart]
    return Snapshot(at_s, found)


def rates(before: Process, after: Process, seconds: float) -> dict[str, float]:
    """Return what a process did in the time between two looks at it: percent of a core, bytes a second."""
    values = {"cpu_percent": max(0.0, 100 * (after.cpu_s - before.cpu_s) / seconds)}
    pairs = {
        "read_bytes_per_s": (before.read_bytes, after.read_bytes),
        "written_bytes_per_s": (before.written_bytes, after.written_bytes),
    }
    for name, (first, last) in pairs.items():
        if first is not None and last is not None:
            values[name] = max(0.0, (last - first) / seconds)
    return values


def children(pid: int, proc: str = "/proc", *, one_thread: bool = False) -> list[int] | None:
    """Return the pids of a process's children; None where the kernel keeps no list of them."""
    tasks = f"{proc}/{pid}/task"
    found: list[int] = []
    try:
        threads = [str(pid)] if one_thread else os.listdir(tasks)
        for thread in threads:
            try:
                with open(f"{tasks}/{thread}/children", "rb", buffering=0) as file:
                    while chunk := file.read(1 << 16):
                        found += map(int, chunk.split())
            except FileNotFoundError:
                if thread == str(pid):
                    return None if os.path.isdir(f"{tasks}/{pid}") else []  # it has just gone
    except _GONE:
        return []
    return found


class _Walk:
    """One pass. Children come from the kernel's own list; a kernel without one has all processes read, once."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._by_parent: dict[int, list[int]] | None = None

    def read(self, pid: int) -> Process | None:
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:
                head, _, rest = file.read().rpartition(b")")
            fields = rest.split()
            if fields[0] in b"ZX":  # it has ended, and only its parent has not noticed
                return None
            name = head.partition(b"(")[2].decode(errors="replace")
            cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
            rss, threads, started = int(fields[21]) * _PAGE_BYTES, int(fields[17]), int(fields[19])
            return Process(pid, started, int(fields[1]), name, cpu_s, rss, threads, *self._moved(pid))
        except _GONE:
            return None

    def _moved(self, pid: int) -> tuple[int | None, int | None]:
        """Return the bytes that were read from and written to storage; others' processes do not tell."""
        read = written = None
        try:
            with open(f"{self._proc}/{pid}/io", "rb", buffering=0) as file:
                for line in file.read().splitlines():
                    if line.startswith(b"read_bytes:"):
                        read = int(line[11:])
                    elif line.startswith(b"write_bytes:"):
                        written = int(line[12:])
        except _GONE:
            pass
        return read, written

    def children(self, process: Process) -> list[int]:
        if self._by_parent is None:
            listed = children(process.pid, self._proc, one_thread=process.threads == 1)
            if listed is not None:
                return listed
            self._by_parent = self._scan()
        return self._by_parent.get(process.pid, [])

    def _scan(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and (process := self.read(int(name))) is not None:
                found.setdefault(process.ppid, []).append(process.pid)
        return found


def _by_psutil(roots: Iterable[int], apart: Container[int]) -> dict[int, Process]:
    """Do the same where there is no /proc."""
    import psutil  # noqa: PLC0415 - only where it is needed

    found: dict[int, Process] = {}
    todo = [(pid, True) for pid in roots]
    while todo:
        pid, is_root = todo.pop()
        if pid in found or (pid in apart and not is_root):
            continue
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                moved = process.io_counters() if hasattr(process, "io_counters") else None
                found[pid] = Process(
                    pid, int(process.create_time() * _TICKS_PER_S), process.ppid(), process.name(),
                    times.user + times.system, process.memory_info().rss, process.num_threads(),
                    moved and moved.read_bytes, moved and moved.write_bytes,
                )  # fmt: skip
            todo += [(child.pid, False) for child in process.children()]
        except (psutil.Error, OSError):
            continue
    return found
