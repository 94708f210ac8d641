"""kill -9 of the hub, again and again, while clients log: every point must be there, once."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from bench.witness import Finding, Witness, look, ways
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client.current import init
from vedette.home import Home
from vedette.query.finding import find
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader

_CLIENTS = 3
_STOP, _FIRST = 0, 1  # slots of the witness
_HURRY = {"SEAL": "0.05", "SHIP": "0.05", "SYNC": "0.05", "TURN": "0.02"}


class Tally(NamedTuple):
    """All kills together."""

    finding: Finding
    points: int
    records: int
    back_s: list[float]
    short_lived: int
    control: Finding


def measure(*, quick: bool, times: int | None) -> Part:
    """Kill the hub under load; when all is over, look for every point."""
    kills = times or (20 if quick else 200)
    part = Part("kill -9 of the hub under load")
    began = time.monotonic()
    with hurried_hub(), fresh_home(hub=True) as home:
        tally = _kill_many(home, kills)
    took = time.monotonic() - began
    lost, twice, extra, wrong = tally.finding
    part.judge(f"points lost, {kills} kills", f"{lost} of {tally.points}", "0", lost == 0)
    part.judge("points that are there twice", f"{twice}", "0", twice == 0)
    part.judge("points that nobody logged, that are wrong or out of order", f"{extra + wrong}", "0", extra + wrong == 0)
    part.know("from the kill to the new hub's first answer", quartiles(tally.back_s).show(".2f", " s"))
    caught = tally.control.lost > 0 and tally.control.twice > 0
    figure = f"{tally.control.lost} more lost, {tally.control.twice} more twice"
    part.judge("control: one chunk removed from the store, one doubled", figure, "> 0, > 0", caught)
    part.note(
        f"{_CLIENTS} clients log about 1000 records a second each (one metric, twenty, a handle), {tally.records} in"
        f" all; {tally.short_lived} short-lived ones started the hub again by beginning a run, at other times a reader"
        " did by asking it. It seals and flushes every 50 ms here, so that kills fall into that, and before each new"
        " hub the spools are made to look minutes old, as those of slow programs are;"
        f" {took:.0f} s in all."
    )
    return part


@contextlib.contextmanager
def hurried_hub() -> Iterator[None]:
    """Have hubs that are started here seal, ship and flush all the time."""
    said = {f"VEDETTE_HUB_{name}_S": pace for name, pace in _HURRY.items()}
    os.environ.update(said)
    try:
        yield
    finally:
        for key in said:
            del os.environ[key]


def _kill_many(home: Home, kills: int) -> Tally:
    chance = random.Random(kills)
    witness = Witness(_FIRST + _CLIENTS + kills)
    clients = [fork(witness, _FIRST + number, number % 3, 0) for number in range(_CLIENTS)]
    slots = {_FIRST + number: number % 3 for number in range(_CLIENTS)}
    back_s: list[float] = []
    try:
        ask(home, wire.AskHealth())
        for number in range(kills):
            time.sleep(chance.uniform(0, 0.4))
            killed_at = kill_hub(home)
            age_spools(home)
            if number % 4 == 3:
                slots[slot := _FIRST + _CLIENTS + number] = number % 3
                os.waitpid(fork(witness, slot, number % 3, 50), 0)
            ask(home, wire.AskHealth())
            back_s.append(time.monotonic() - killed_at)
    finally:
        witness[_STOP] = 1
        for pid in clients:
            os.waitpid(pid, 0)
    ask(home, wire.Seal(""))
    finding, points = check(home, witness, list(slots))
    records = sum(witness[slot] for slot in slots)
    control = damage(home, witness, list(slots))
    return Tally(finding, points, records, back_s, len(slots) - _CLIENTS, control)


def kill_hub(home: Home) -> float:
    """Kill the hub as soon as it can be named; return when."""
    while not (pid := home.hub_pid()):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    while home.hub_pid() == pid:
        time.sleep(0.001)
    return killed_at


def age_spools(home: Home) -> None:
    """Make the spools look as if their last segments had been begun minutes ago, as those of slow programs have."""
    then = time.time() - 300
    for name in os.listdir(home.spool):
        os.utime(os.path.join(home.spool, name), (then, then))


def fork(witness: Witness, slot: int, way: int, most: int) -> int:
    """Start a client that logs until it is told to stop, or `most` records; return its pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        run = init(project="bench", name=_name(slot))
        log = ways(run, "a")[way]
        number = 0
        while not witness[_STOP] and (not most or number < most) and os.getppid() == parent:
            for _ in range(10):
                log(number)
                number += 1
                witness[slot] = number
            time.sleep(0.01)
        run.finish()
    finally:
        os._exit(0)


def _name(slot: int) -> str:
    return f"client{slot:06d}"


def check(home: Home, witness: Witness, slots: list[int]) -> tuple[Finding, int]:
    """Compare what a home's store has with what the witness saw; return that, and how many points there are."""
    store = open_reader(home.store)
    total, points = Finding(), 0
    for slot in slots:
        run = find(store, _name(slot))
        finding, count = look(store, run.id, "a", witness[slot])
        beyond = max(0, count - witness[slot] * len(store.series([run.id])))  # nobody was killed here but the hub
        total, points = total + finding + (0, 0, beyond, 0), points + count
    store.close()
    return total, points


def damage(home: Home, witness: Witness, slots: list[int]) -> Finding:
    """Damage the store on purpose, without a hub, and look again."""
    if pid := home.hub_pid():
        os.kill(pid, signal.SIGKILL)
        while home.hub_pid() == pid:
            time.sleep(0.01)
    before, _ = check(home, witness, slots)
    store = SqliteStore(home.store)
    first, second = (store.series([find(store, _name(slot)).id])[0].id for slot in slots[:2])
    store.connection.execute("DELETE FROM chunks WHERE id = (SELECT min(id) FROM chunks WHERE series = ?)", (first,))
    store.connection.execute(
        "INSERT INTO chunks (series, axis, min, max, sum, value) SELECT series, axis, min, max, sum, value FROM chunks"
        " WHERE id = (SELECT min(id) FROM chunks WHERE series = ?)",
        (second,),
    )
    store.close()
    after, _ = check(home, witness, slots)
    return Finding(*(b - a for a, b in zip(before, after, strict=True)))
