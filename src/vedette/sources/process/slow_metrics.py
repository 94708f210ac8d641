"""Values of a process tree that are slow to read, or disturb the processes: read rarely, and less often if slower."""

import os
import time
from collections.abc import Iterable

_LEAST_S = 15.0
_SHARE = 1000  # reading takes at most 1/1000 of the time
_UNREADABLE = (OSError, ValueError, IndexError)
_Counts = tuple[int, int]


class SlowMetrics:
    """Reads PSS, open files and context switches when they are due.

    To compute PSS, the kernel visits each page, and meanwhile blocks the process from mapping memory. It has context
    switches only per thread, in one file each.
    """

    def __init__(self, proc: str) -> None:
        """The first look reads at once."""
        self._proc = proc
        self._due_s = float("-inf")
        self._threads: dict[tuple[int, str], _Counts] = {}
        self._past = 0, 0  # switches of threads that have ended

    def look(self, pids: Iterable[int], at_s: float) -> dict[str, int | None]:
        """Return the values, or {} when they are not due; a value that cannot be read is None."""
        if at_s < self._due_s:
            return {}
        begun = time.perf_counter()
        pids = list(pids)
        switches = self._switches(pids)
        values = {
            "memory_pss_bytes": _sum(_pss(f"{self._proc}/{pid}/smaps_rollup") for pid in pids),
            "open_files": _sum(_count(f"{self._proc}/{pid}/fd") for pid in pids),
            "switches": switches and switches[0],
            "forced_switches": switches and switches[1],
        }
        self._due_s = at_s + max(_LEAST_S, _SHARE * (time.perf_counter() - begun))
        return values

    def _switches(self, pids: list[int]) -> _Counts | None:
        now: dict[tuple[int, str], _Counts] = {}
        for pid in pids:
            tasks = f"{self._proc}/{pid}/task"
            try:
                threads = os.listdir(tasks)
            except OSError:
                continue
            for thread in threads:
                counts = _counts(f"{tasks}/{thread}/status")
                if counts is not None:
                    now[pid, thread] = counts
        for key, before in self._threads.items():
            if key not in now or now[key] < before:  # the thread has ended, or a new one has its number
                self._past = self._past[0] + before[0], self._past[1] + before[1]
        self._threads = now
        both = [self._past, *now.values()]
        return (sum(one[0] for one in both), sum(one[1] for one in both)) if any(map(any, both)) else None


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum, or None if one of the numbers is None."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _pss(path: str) -> int | None:
    try:
        with open(path, "rb", buffering=0) as file:
            for line in file.read(4096).splitlines():
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except _UNREADABLE:
        pass
    return None


def _count(path: str) -> int | None:
    try:
        return len(os.listdir(path))
    except OSError:
        return None


def _counts(path: str) -> _Counts | None:
    try:
        with open(path, "rb", buffering=0) as file:
            words = file.read(8192).rpartition(b"\nvoluntary_ctxt_switches:")[2].split()
        return int(words[0]), int(words[2])
    except _UNREADABLE:
        return None
