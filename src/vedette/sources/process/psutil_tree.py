"""A process tree measured with psutil, for systems without /proc."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from vedette.sensing.probe import sound
from vedette.sensing.sensor import Absent, Metric, Reading
from vedette.sources.process.ledger import Account, Key, Ledger, Totals

_RESCAN_S = 1.0
_SLOW_METRICS_S = 5.0
_PER_S = 1000  # ticks in a second: the ledger counts CPU time in whole ticks


class PsutilTree:
    """The same numbers as from /proc, as far as the system has them."""

    def __init__(self, psutil: Any, root: Any, metrics: Mapping[str, Metric], apart: tuple[int, ...] = ()) -> None:
        """Measure a process and its descendants; the processes in `apart` are left out."""
        self.metrics = metrics
        self._psutil = psutil
        self._root = root
        self._all: dict[Key, Any] = {_key(root): root}
        self._ledger = Ledger()
        self._scanned_s = self._slow_metrics_s = float("-inf")
        self._before: tuple[float, Totals] | None = None
        self._sums: dict[str, int] = {}
        self._accounts: dict[Key, Account] = {}
        self._has_io = hasattr(root, "io_counters")
        self._apart = {*apart, os.getpid()} - {root.pid}

    @staticmethod
    def of(pid: int, metrics: Mapping[str, Metric], apart: tuple[int, ...] = ()) -> "PsutilTree | Absent":
        """Return the sensor of a process, if psutil is installed and the process exists."""
        try:
            import psutil  # noqa: PLC0415 - only where it is needed
        except ImportError:
            return Absent("there is no /proc, and psutil is not installed")
        try:
            return PsutilTree(psutil, psutil.Process(pid), metrics, apart)
        except (psutil.Error, OSError, ValueError):
            return Absent(f"there is no process {pid}")

    def look(self) -> list[Reading]:
        """Return the present values of the tree, and its rates since the last look."""
        at_s = time.monotonic()
        is_slow_turn = at_s - self._slow_metrics_s >= _SLOW_METRICS_S
        if is_slow_turn:
            self._slow_metrics_s = at_s
        totals = self._ledger.take(self._read(at_s, with_slow=is_slow_turn))
        values: dict[str, float | int | None] = {"cpu_s": totals.ticks / _PER_S, **self._sums}
        if "memory_bytes" in self._sums:
            whole = self._psutil.virtual_memory().total
            values["memory_share_percent"] = 100 * self._sums["memory_bytes"] / whole if whole else None
        if self._has_io:
            values |= {"read_bytes": int(totals.read_bytes), "written_bytes": int(totals.written_bytes)}
        if self._before is not None and at_s > self._before[0]:
            seconds = at_s - self._before[0]
            ticks, read, written = (now - then for now, then in zip(totals, self._before[1], strict=True))
            cpu = 100 * ticks / _PER_S / seconds
            values |= {"cpu_percent": cpu, "cpu_share_percent": cpu / (self._psutil.cpu_count() or 1)}
            if self._has_io:
                values |= {"read_bytes_per_s": read / seconds, "written_bytes_per_s": written / seconds}
        self._before = at_s, totals
        return [Reading(sound(values), scope="process")]

    def _read(self, at_s: float, *, with_slow: bool) -> dict[Key, Account]:
        if at_s - self._scanned_s >= _RESCAN_S:
            self._scanned_s = at_s
            for child in self._try(lambda: self._root.children(recursive=True)) or ():
                if child.pid not in self._apart:
                    self._all.setdefault(_key(child), child)
        self._sums = sums = {"processes": 0, "threads": 0, "memory_bytes": 0}
        found: dict[Key, Account] = {}
        for key, process in list(self._all.items()):
            if not self._try(process.is_running):
                del self._all[key]
                self._accounts.pop(key, None)
                continue
            account = self._try(lambda process=process: self._account(process, found))  # type: ignore[misc]
            if account is not None:
                self._accounts[key] = account
            if key in self._accounts:
                found[key] = self._accounts[key]
            values = {"processes": 1, "threads": self._try(process.num_threads)}
            values["memory_bytes"] = self._try(lambda process=process: process.memory_info().rss)  # type: ignore[misc]
            if with_slow:
                values |= self._try(lambda process=process: _slow_values(process)) or {}  # type: ignore[misc]
            for name, number in values.items():
                sums[name] = sums.get(name, 0) + (number or 0)
        return found

    def _account(self, process: Any, found: Mapping[Key, Account]) -> Account:
        times, ppid = process.cpu_times(), process.ppid()
        io = (self._try(process.io_counters) if self._has_io else None) or (0, 0, 0, 0)
        own, waited = (
            (int(getattr(times, kind + "user", 0) * _PER_S), int(getattr(times, kind + "system", 0) * _PER_S), 0)
            for kind in ("", "children_")
        )
        parent = next((other for other in found if other[0] == ppid), None)
        return Account(parent, own, waited, (int(io[2]), int(io[3])), has_faults=False)

    def _try(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (self._psutil.Error, OSError):
            return None

    def close(self) -> None:
        """Do nothing: psutil keeps no files open."""


def _key(process: Any) -> Key:
    return process.pid, int(process.create_time() * 1000)


def _slow_values(process: Any) -> dict[str, int]:
    switches = process.num_ctx_switches()
    files = process.num_fds() if hasattr(process, "num_fds") else process.num_handles()
    return {"open_files": files, "switches": switches.voluntary, "forced_switches": switches.involuntary}
