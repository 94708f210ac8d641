"""A thousand origins on a far host, each of which says a number a second, and what they cost the two hubs."""

import os
import time
from typing import NamedTuple

import numpy as np

from bench.pair import cpu_s, hub_of, most_memory_mb, pair
from bench.witness import Witness
from vedette import kernel, wire
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.ids import new_id
from vedette.model import Origin, Span
from vedette.spool import Spool
from vedette.store.sqlite_file import open_reader

ORIGINS = 1000
_PROCESSES = 4
_SETTLE_S = 5
_STOP, _FIRST = 0, 1  # slots of the witness


class Cost(NamedTuple):
    """What was logged and what came of it; for each hub its most memory in MB and its share of a core."""

    logged: int
    kept: int
    wrong: int
    receiver: tuple[float, float]
    sender: tuple[float, float]


def watch(seconds: int) -> Cost:
    """Have the crowd speak for so long while two hubs pass it on; then look for every point."""
    with pair(hub=True) as (far, receiver), hub_of(far) as sender:
        witness = Witness(_FIRST + _PROCESSES)
        each = ORIGINS // _PROCESSES
        readers = [_fork(witness, _FIRST + n, range(n * each, (n + 1) * each), far) for n in range(_PROCESSES)]
        try:
            time.sleep(_SETTLE_S)
            hubs = (receiver.pid, sender)
            before, begun = [cpu_s(pid) for pid in hubs], time.monotonic()
            time.sleep(seconds)
            took_s = time.monotonic() - begun
            shares = [(cpu_s(pid) - cpu) / took_s for pid, cpu in zip(hubs, before, strict=True)]
        finally:
            witness[_STOP] = 1
            for pid in readers:
                os.waitpid(pid, 0)
        rounds = [witness[_FIRST + n] for n in range(_PROCESSES)]
        kept, wrong = _settle(receiver.home, [rounds[n // each] for n in range(ORIGINS)])
        memory = [most_memory_mb(pid) for pid in hubs]
        costs = list(zip(memory, shares, strict=True))
        return Cost(sum(rounds) * each, kept, wrong, costs[0], costs[1])


def _fork(witness: Witness, slot: int, numbers: range, home: Home) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        spools = [_begin(number, home) for number in numbers]
        begun, step = time.monotonic(), 0
        while not witness[_STOP] and os.getppid() == parent:
            for place, spool in enumerate(spools):
                if place % 25 == 0:  # spread over the second, as the points of strangers are
                    time.sleep(max(0.0, begun + step + place / len(spools) - time.monotonic()))
                spool.samples.append(wire.frame(wire.encode((time.time_ns(), step, {"loss": float(step)}))))
            step += 1
            witness[slot] = step
        for spool in spools:
            spool.close()
    finally:
        os._exit(0)


def _begin(number: int, home: Home) -> Spool:
    run, name = f"crowd{number:04d}", new_id(10)
    pid = os.getpid()
    origin = Origin(
        name, kernel.host(), kernel.boot(), pid, kernel.start_ticks(pid) or 0, run, f"{run}/1/{name}",
        upstream=os.environ["VEDETTE_HUB"], main=True,
    )  # fmt: skip
    spool = Spool(home.spool, lambda: origin, 1 << 30, 0.1, home.prepare)
    t = time.time_ns()
    spans = (
        Span(run, t, kind="run", name=run, attrs={"project": "crowd"}),
        Span(f"{run}/1", t, "running", kind="try", parent=run),
        Span(origin.process, t, "running", kind="process", parent=f"{run}/1"),
    )
    for span in spans:
        spool.facts.append(wire.frame(wire.encode(span)))
    return spool


def _settle(home: Home, rounds: list[int]) -> tuple[int, int]:
    """Wait for what is on its way; return how many points there are, and how many runs are not as they should be."""
    deadline = time.monotonic() + 60
    while True:
        ask(home, wire.Seal(""))
        kept, wrong = _look(home, rounds)
        if not wrong or time.monotonic() > deadline:
            return kept, wrong
        time.sleep(1)


def _look(home: Home, rounds: list[int]) -> tuple[int, int]:
    store = open_reader(home.store)
    try:
        rows = {row.span: row.id for row in store.series(name="loss")}
        points = store.points(list(rows.values()))
        wrong = 0
        for number, count in enumerate(rounds):
            found = points.get(rows.get(f"crowd{number:04d}", -1))
            right = found is not None and np.array_equal(found.step, np.arange(count))
            wrong += not (right and np.array_equal(found.value, found.step))
        return sum(len(one) for one in points.values()), wrong
    finally:
        store.close()
