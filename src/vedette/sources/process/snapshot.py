"""Many process trees at once, process by process: one pass is a snapshot, and two snapshots give rates.

A process that has ended, or that we may not read, is left out. A value that cannot be read is None.
"""

import os
import time
from collections.abc import Container, Iterable
from typing import NamedTuple

from vedette import proc_stat
from vedette.proc_stat import MEMORY_PAGES, PARENT, STARTED_TICKS, SYSTEM_TICKS, THREADS, USER_TICKS

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_GONE = (OSError, ValueError, IndexError)


class Process(NamedTuple):
    """One process at one moment. Its identity is its pid and start time, since pids are reused."""

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
    """All processes of one pass, by pid."""

    at_s: float  # monotonic
    processes: dict[int, Process]


def look(roots: Iterable[int], apart: Container[int] = (), proc: str = "/proc") -> Snapshot:
    """Take a snapshot of the processes with these pids and of all their descendants.

    Each tree is read from its root downward; the last root comes first. The processes in `apart` are left out with
    their descendants, unless they are roots themselves. `proc` is the path of /proc.
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
    """Return the rates of a process between two snapshots: percent of a core, bytes per second."""
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
    """Return the pids of a process's children; None if this kernel has no list of children."""
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
                    return None if os.path.isdir(f"{tasks}/{pid}") else []  # the process has just ended
    except _GONE:
        return []
    return found


class _Walk:
    """One pass. Children come from the kernel's list; if there is none, all processes are read once."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._by_parent: dict[int, list[int]] | None = None

    def read(self, pid: int) -> Process | None:
        try:
            stat = proc_stat.read(pid, self._proc)
            fields = proc_stat.fields_of(stat)
            if proc_stat.has_ended(fields):
                return None
            cpu_s = (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / _TICKS_PER_S
            rss, threads = int(fields[MEMORY_PAGES]) * _PAGE_BYTES, int(fields[THREADS])
            started, parent = int(fields[STARTED_TICKS]), int(fields[PARENT])
            name = proc_stat.name_of(stat)
            return Process(pid, started, parent, name, cpu_s, rss, threads, *self._io_bytes(pid))
        except _GONE:
            return None

    def _io_bytes(self, pid: int) -> tuple[int | None, int | None]:
        """Return the bytes read from and written to storage; None for processes of other users."""
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
    """Read the same trees with psutil, where there is no /proc."""
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
                io = process.io_counters() if hasattr(process, "io_counters") else None
                found[pid] = Process(
                    pid, int(process.create_time() * _TICKS_PER_S), process.ppid(), process.name(),
                    times.user + times.system, process.memory_info().rss, process.num_threads(),
                    io and io.read_bytes, io and io.write_bytes,
                )  # fmt: skip
            todo += [(child.pid, False) for child in process.children()]
        except (psutil.Error, OSError):
            continue
    return found
