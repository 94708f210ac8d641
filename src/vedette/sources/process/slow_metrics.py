"""What of a tree of processes is dear to read, or disturbs it: read seldom, and more seldom the longer it takes."""

import os
import time
from collections.abc import Iterable

_LEAST_S = 15.0
_SHARE = 1000  # of our time at most one part in so many
_ODD = (OSError, ValueError, IndexError)
_Counts = tuple[int, int]


class Rarely:
    """Reads shares of memory, open files and switches when their time has come.

    The kernel holds up whoever maps memory while it adds up the shares of each page, and tells the switches of each
    thread by itself.
    """

    def __init__(self, proc: str) -> None:
        """Read for the first time at once."""
        self._proc = proc
        self._due_s = float("-inf")
        self._threads: dict[tuple[int, str], _Counts] = {}
        self._past = 0, 0  # of threads that are gone

    def look(self, pids: Iterable[int], at_s: float) -> dict[str, int | None]:
        """Return what is read now; empty when it is not yet time, without what nobody tells."""
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
            if key not in now or now[key] < before:  # gone, or its number is another's now
                self._past = self._past[0] + before[0], self._past[1] + before[1]
        self._threads = now
        both = [self._past, *now.values()]
        return (sum(one[0] for one in both), sum(one[1] for one in both)) if any(map(any, both)) else None


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Add up; where one is not known, nor is the sum."""
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
    except _ODD:
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
    except _ODD:
        return None
