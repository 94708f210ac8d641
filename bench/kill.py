"""kill -9 of the client at any moment: nothing that a returned call has logged may be missing."""

import os
import random
import signal
import time
from typing import NamedTuple

from bench.place import fresh_home, wait_for_burials
from bench.report import Part
from bench.witness import Finding, Witness, look, lossy, ways
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client.current import init
from vedette.home import Home
from vedette.store import SpanQuery
from vedette.store.sqlite_file import open_reader

_BATCH = 100
_MOST_S = 0.03  # how long a client lives


class Tally(NamedTuple):
    """All kills together."""

    finding: Finding
    points: int
    silent: int  # killed before a call had returned
    damaged: int
    left: int  # spools with a segment that were not buried
    open: int  # runs that are not known to have ended


def measure(*, quick: bool, times: int | None) -> Part:
    """Kill clients, and compare; then see that a lossy client is caught."""
    os.environ["VEDETTE_CAPTURE_ENABLE"] = "false"  # a thousand of its programs at once would be the whole load
    kills = times or (100 if quick else 1000)
    part = Part("kill -9 of the client")
    tally = _kill_many(kills, deliberately_lossy=False)
    lost, twice, extra, wrong = tally.finding
    part.judge(f"points lost of calls that had returned, {kills} kills", f"{lost} of {tally.points}", "0", lost == 0)
    figure = f"{twice}, {extra}, {wrong}"
    others = "points that are there twice, that nobody logged, that are wrong or out of order"
    part.judge(others, figure, "0, 0, 0", not twice + extra + wrong)
    part.judge("damaged records", f"{tally.damaged}", f"<= {kills}, one per kill", tally.damaged <= kills)
    part.judge("spools that the hub has not buried", f"{tally.left}", "0", tally.left == 0)
    part.judge("runs that are not known to have ended", f"{tally.open}", "0", tally.open == 0)
    part.know("clients killed before their first call had returned", f"{tally.silent}")
    few = max(20, kills // 10)
    control = _kill_many(few, deliberately_lossy=True)
    caught = control.finding.lost
    part.judge(f"control: a client that buffers 1000 records, {few} kills", f"{caught} points lost", "> 0", caught > 0)
    part.note(
        f"Each client is forked, begins a run in one shared home, and logs in a tight loop until it is killed after 0"
        f" to {_MOST_S * 1e3:.0f} ms; by turns one metric, twenty, a handle. A third of them have a child of their own"
        " that logs too, and the whole process group is killed. A counter in shared memory says which calls had"
        " returned; the store is asked after every hundred kills."
    )
    return part


def _kill_many(kills: int, *, deliberately_lossy: bool) -> Tally:
    chance = random.Random(kills)
    total, points, silent = Finding(), 0, 0
    witness = Witness(2 * kills)
    with fresh_home(hub=True) as home:
        ask(home, wire.AskHealth())
        for first in range(0, kills, _BATCH):
            batch = range(first, min(first + _BATCH, kills))
            for number in batch:
                _kill_one(witness, number, chance, deliberately_lossy=deliberately_lossy)
            ask(home, wire.Seal(""))
            for number in batch:
                finding, count = _check(home, witness, number)
                total, points, silent = total + finding, points + count, silent + (witness[2 * number] == 0)
        left = wait_for_burials(home)
        store = open_reader(home.store)
        still_open = sum(run.end_t is None for run in store.spans(SpanQuery(kind="run")))
        damaged = sum(row.damaged for row in store.origins())
        store.close()
    return Tally(total, points, silent, damaged, left, still_open)


def _kill_one(witness: Witness, number: int, chance: random.Random, *, deliberately_lossy: bool) -> None:
    grouped = number % 3 == 2
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _be_client(witness, number, with_child=grouped, deliberately_lossy=deliberately_lossy)
        finally:
            os._exit(1)
    try:
        os.setpgid(pid, pid)  # whoever is first: parent or child
    except OSError:
        pass
    time.sleep(chance.uniform(0, _MOST_S))
    if grouped:
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _be_client(witness: Witness, number: int, *, with_child: bool, deliberately_lossy: bool) -> None:
    run = init(project="bench", name=_name(number))
    slot, series = 2 * number, "a"
    if with_child and os.fork() == 0:
        slot, series = slot + 1, "b"
    signal.alarm(20)  # should the bench itself be killed, nobody is left behind
    log = ways(run, series)[number // 3 % 3]
    witness.log_for_ever(slot, lossy(log) if deliberately_lossy else log)


def _name(number: int) -> str:
    return f"client{number:06d}"


def _check(home: Home, witness: Witness, number: int) -> tuple[Finding, int]:
    store = open_reader(home.store)
    try:
        runs = store.spans(SpanQuery(kind="run", name=_name(number)))
        total, points = Finding(), 0
        for slot, series in ((2 * number, "a"), (2 * number + 1, "b")):
            if runs:
                finding, count = look(store, runs[0].id, series, witness[slot])
            else:
                finding, count = Finding(lost=witness[slot]), 0
            total, points = total + finding, points + count
        return total, points
    finally:
        store.close()
