"""Finds processes that a try has started and that are nobody's descendants any more: their environment names the try.

`{ cmd & }` in a shell that ends, or `setsid cmd &`, leaves such a process; some executors start all their workers so.
"""

import os
import time

from vedette import ids, proc_stat
from vedette.deaths import tree

_AGAIN_S = 60.0  # a pid that was looked at may be another process by then
_SETTLED_S = 2.0  # a process that is younger may be about to execute its program, and only then has its environment
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Key = tuple[int, int]  # pid and start time


class Orphans:
    """Knows which tries processes name. Each environment is read once, as long as its process lives."""

    def __init__(self, proc: str = "/proc") -> None:
        """Look at nothing yet; `proc` is the kernel's view of processes."""
        self._proc = proc
        self._found: dict[Key, str] = {}
        self._settled: set[int] = set()
        self._newest = ""
        self._again_s = float("-inf")

    def look(self, at_s: float) -> dict[Key, str]:
        """Return the tries that processes of this user name, by pid and start time; also of such as are no orphans."""
        newest = self._newest_pid()
        if newest and newest == self._newest and at_s < self._again_s:
            return self._found
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        if at_s >= self._again_s:
            self._again_s = at_s + _AGAIN_S
            self._settled.clear()
        self._settled &= pids
        self._found = {key: attempt for key, attempt in self._found.items() if key[0] in self._settled}
        new = pids - self._settled
        for pid in new:
            self._meet(pid)
        self._newest = newest if new <= self._settled else ""  # otherwise some are looked at again
        return self._found

    def _meet(self, pid: int) -> None:
        try:
            started = int(proc_stat.fields_of(proc_stat.read(pid, self._proc))[proc_stat.STARTED_TICKS])
        except (OSError, ValueError, IndexError):
            return
        named = tree.named_try(pid, self._proc)
        if named is not None and not tree.is_a_users(pid, self._proc):
            self._found[pid, started] = ids.of_try(*named)
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started / _TICKS_PER_S
        if named is not None or age_s > _SETTLED_S:
            self._settled.add(pid)

    def _newest_pid(self) -> str:
        """Return the newest pid, which changes whenever a process is started; empty if the kernel does not tell."""
        try:
            with open(f"{self._proc}/loadavg") as file:
                return file.read().rpartition(" ")[2]
        except OSError:
            return ""
