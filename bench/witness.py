"""A memory that outlives the killed: how many calls had returned; and what the store has of them."""

import mmap
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np

from vedette.client.run import Run
from vedette.store import Points
from vedette.store.sqlite_read import SqliteReader

_SLOT = 64  # bytes: a cache line each

Log = Callable[[int], None]


class Witness:
    """Counters in shared memory. Written by slice assignment: one copy, never half done as seen by a reader."""

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, slots * _SLOT)

    def __getitem__(self, slot: int) -> int:
        return int.from_bytes(self._memory[slot * _SLOT : slot * _SLOT + 8], "little")

    def __setitem__(self, slot: int, value: int) -> None:
        self._memory[slot * _SLOT : slot * _SLOT + 8] = value.to_bytes(8, "little")

    def log_for_ever(self, slot: int, log: Log) -> None:
        """Log 0, 1, 2 and so on; after each call that has returned, count it."""
        memory, begin, end = self._memory, slot * _SLOT, slot * _SLOT + 8
        for number in count():
            log(number)
            memory[begin:end] = (number + 1).to_bytes(8, "little")


def ways(run: Run, series: str) -> list[Log]:
    """Return the ways to log a number: one metric, twenty metrics, a handle."""
    handle = run.series(series)
    names = [series, *(f"{series}/{n}" for n in range(19))]
    return [
        lambda number: run.log({series: float(number)}, number),
        lambda number: run.log(dict.fromkeys(names, float(number)), number),
        lambda number: handle(float(number), number),
    ]


def lossy(log: Log) -> Log:
    """Return a client that keeps a thousand records in memory before it hands them on: what must be caught."""
    held: list[int] = []

    def append(number: int) -> None:
        held.append(number)
        if len(held) == 1000:
            for item in held:
                log(item)
            held.clear()

    return append


class Finding(NamedTuple):
    """What the store has of one slot, against what its witness saw."""

    lost: int = 0  # calls had returned, and their points are not there
    twice: int = 0  # points that are there more than once
    extra: int = 0  # points beyond the one call that may have been under way
    wrong: int = 0  # points with a wrong value, or out of order

    def __add__(self, other: tuple[int, ...]) -> "Finding":
        return Finding(*(a + b for a, b in zip(self, other, strict=True)))


def compare(points: Points, returned: int) -> Finding:
    """Compare the points of one series, logged as 0, 1, 2 and so on, with the count of calls that had returned."""
    steps = np.unique(points.step)
    twice = len(points) - len(steps)
    lost = returned - int(np.count_nonzero(steps < returned))
    extra = int(np.count_nonzero(steps > returned))
    wrong = int(np.count_nonzero(points.value != points.step))
    return Finding(lost, twice, extra, wrong + int(np.count_nonzero(np.diff(points.step) < 0)))


def look(store: SqliteReader, run: str, series: str, returned: int) -> tuple[Finding, int]:
    """Compare a series of a run, and those that were logged with it; return that, and how many points there are."""
    rows = [row for row in store.series([run]) if row.name == series or row.name.startswith(series + "/")]
    found = store.points([row.id for row in rows])
    if not found:
        return Finding(lost=returned), 0
    total = Finding()
    for points in found.values():
        total += compare(points, returned)
    return total, sum(len(points) for points in found.values())
