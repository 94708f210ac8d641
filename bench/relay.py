"""Hubs that relay to hubs: how fast a backlog is taken in, what a thousand far origins cost, and kill -9 of either."""

import os
import random
import sqlite3
import time
from typing import NamedTuple

from bench import crowd
from bench.hub_kill import age_spools, check, damage, fork, hurried_hub, kill_hub
from bench.ingest import write_spool
from bench.pair import Receiver, cpu_s, hub_of, most_memory_mb, pair
from bench.report import Part
from bench.spread import quartiles
from bench.witness import Finding, Witness
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.errors import HubError
from vedette.home import Home

# metrics in a record: far processes, records of each
_BACKLOGS = {20: (5, 100_000), 1: (4, 500_000)}
_CATCH_UP = 3e6  # points per CPU-second of the hub that receives
_CLIENTS = 3
_STOP, _FIRST = 0, 1  # slots of the witness


def measure(*, quick: bool, times: int | None) -> Part:
    """Catch up, keep up, and be killed; `times` counts the kills."""
    part = Part("hubs that relay to hubs, over TLS on one machine")
    for metrics, (processes, records) in _BACKLOGS.items():
        _catch_up(part, metrics, processes, records // (10 if quick else 1), 1 if quick else 3)
    _keep_up(part, 15 if quick else 75)
    _kill(part, times or (10 if quick else 100))
    return part


def _catch_up(part: Part, metrics: int, processes: int, records: int, rounds: int) -> None:
    points = metrics * processes * records
    rates, sending, took_s, memory = [], [], [], []
    for _ in range(rounds):
        spent = _ship_backlog(metrics, processes, records)
        rates.append(points / spent.receiving_s / 1e6)
        sending.append(points / spent.sending_s / 1e6)
        took_s.append(spent.wall_s)
        memory.append(spent.memory_mb)
    what = f"backlog of {points / 1e6:g} M points, {metrics} metric{'s' if metrics > 1 else ''} a record"
    rate = quartiles(rates)
    unit = " M points per CPU-second"
    part.least(f"{what}: the hub that receives, until all is sealed", rate.median, _CATCH_UP / 1e6,
               rate.show(".2f", unit), unit)  # fmt: skip
    part.know(f"{what}: the hub that ships", quartiles(sending).show(".2f", unit))
    part.know(f"{what}: wall time; most memory of the receiver", f"{max(took_s):.1f} s; {max(memory):.0f} MB")


class Spent(NamedTuple):
    """What it took to ship a backlog."""

    receiving_s: float
    sending_s: float
    wall_s: float
    memory_mb: float


def _ship_backlog(metrics: int, processes: int, records: int) -> Spent:
    with pair(hub=False) as (far, receiver):
        for _ in range(processes):
            write_spool(metrics, records)
        # A home of the same spools that nobody holds the lock of.
        moved = Home(far.root + "-moved")
        os.rename(far.root, moved.root)
        os.unlink(moved.lock)
        try:
            before, begun = cpu_s(receiver.pid), time.monotonic()
            with hub_of(moved) as sender:
                _wait_for(receiver.home, metrics * processes * records)
                wall_s = time.monotonic() - begun
                return Spent(
                    cpu_s(receiver.pid) - before, cpu_s(sender), wall_s, most_memory_mb(receiver.pid)
                )  # fmt: skip
        finally:
            os.rename(moved.root, far.root)


def _wait_for(home: Home, points: int) -> None:
    """Return when a store has so many points."""
    deadline = time.monotonic() + 600
    while (kept := points_in(home)) != points:
        if kept > points or time.monotonic() > deadline:
            raise AssertionError(f"{points} points were logged, and {kept} are in the store")
        time.sleep(0.1)


def points_in(home: Home) -> int:
    """Return how many points a store has."""
    connection = sqlite3.connect(f"file:{home.store}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT coalesce(sum(count), 0) FROM series").fetchone()[0]
    finally:
        connection.close()


def _keep_up(part: Part, seconds: int) -> None:
    cost = crowd.watch(seconds)
    what = f"{crowd.ORIGINS} far origins, a point a second each, {seconds} s"
    lost = f"{cost.logged - cost.kept} of {cost.logged}"
    part.judge(f"{what}: points lost or doubled", lost, "0", cost.kept == cost.logged and cost.wrong == 0)
    memory, share = cost.receiver
    part.judge(f"{what}: most memory of the hub that receives", f"{memory:.0f} MB", "< 200 MB", memory < 200)
    part.judge(f"{what}: its share of a core", f"{share:.1%}", "< 15 %", share < 0.15)
    memory, share = cost.sender
    part.know(f"{what}: the hub that ships, memory and share of a core", f"{memory:.0f} MB, {share:.1%}")


def _kill(part: Part, kills: int) -> None:
    with hurried_hub(), pair(hub=True) as (far, receiver):
        finding, points, control = _kill_many(far, receiver, kills)
    lost, twice, extra, wrong = finding
    part.judge(f"points lost, {kills} kills of either hub", f"{lost} of {points}", "0", lost == 0)
    part.judge("points that are there twice, that nobody logged, that are wrong or out of order",
               f"{twice}, {extra}, {wrong}", "0, 0, 0", twice == extra == wrong == 0)  # fmt: skip
    caught = control.lost > 0 and control.twice > 0
    figure = f"{control.lost} more lost, {control.twice} more twice"
    part.judge("control: one chunk removed from the store, one doubled", figure, "> 0, > 0", caught)
    part.note(
        f"Kills: {_CLIENTS} clients log about 1000 records a second each (one metric, twenty, a handle), and every"
        " fourth time a short-lived one too. Either hub is killed, at random, up to a second after the last: now and"
        " then before they are linked again. Both seal, ship and flush every 50 ms here, so that kills fall into that."
    )


def _kill_many(far: Home, receiver: Receiver, kills: int) -> tuple[Finding, int, Finding]:
    chance = random.Random(kills)
    witness = Witness(_FIRST + _CLIENTS + kills)
    clients = [fork(witness, _FIRST + number, number % 3, 0) for number in range(_CLIENTS)]
    slots = [_FIRST + number for number in range(_CLIENTS)]
    try:
        ask(far, wire.AskHealth())
        for number in range(kills):
            time.sleep(chance.uniform(0, 1.0))
            if chance.random() < 0.5:
                kill_hub(far)
                age_spools(far)
            else:
                receiver.kill()
                receiver.start()
            if number % 4 == 3:
                slots.append(slot := _FIRST + _CLIENTS + number)
                os.waitpid(fork(witness, slot, number % 3, 50), 0)
            ask(far, wire.AskHealth())
    finally:
        witness[_STOP] = 1
        for pid in clients:
            os.waitpid(pid, 0)
    finding, points = _settle(receiver.home, witness, slots)
    receiver.kill()
    return finding, points, damage(receiver.home, witness, slots)


def _settle(home: Home, witness: Witness, slots: list[int]) -> tuple[Finding, int]:
    """Wait for what is on its way, as long as that helps; return what has come."""
    deadline = time.monotonic() + 60
    while True:
        ask(home, wire.Seal(""))
        try:
            finding, points = check(home, witness, slots)
        except HubError:
            finding, points = Finding(lost=1), 0
        if not finding.lost or time.monotonic() > deadline:
            return finding, points
        time.sleep(0.5)
