"""What a bar costs the program and the hub, against others' bars, and whether totals are exact whatever is killed."""

import io
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable

from rich.console import Console
from rich.progress import Progress as RichProgress
from tqdm import tqdm

from bench.hub_kill import hurried_hub, kill_hub
from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles, ratios
from bench.witness import Witness
from bench.workload import _cpu_s
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client.current import init
from vedette.client.progress import Progress, track
from vedette.client.usage import Usage
from vedette.home import Home
from vedette.query.progress import Bar, bars
from vedette.store.sqlite_file import open_reader

_CALLS = 2000
_TEAM = 8
_BARS = 64

Round = Callable[[int], None]


def measure(*, quick: bool, times: int | None) -> Part:
    """Alternate rounds of calls; then kill hubs and members of a team that advances one bar."""
    part = Part("bars: what they cost, and that they are exact")
    _calls(part, 40 if quick else 300)
    _hub(part, 3.0 if quick else 20.0)
    kills = times or (10 if quick else 100)
    with hurried_hub(), fresh_home(hub=True) as home:
        _team(part, home, kills)
    with fresh_home(hub=True) as home:
        _killed(part, home, 20 if quick else 200, lossy=False)
    with fresh_home(hub=True) as home:
        _killed(part, home, 5, lossy=True)
    part.note(
        f"Calls: rounds of {_CALLS} of each in turn, in one process, CPU of the calling thread, the loop included."
        " tqdm and rich write to memory, as they would to a terminal. The monitor that this one takes the place of"
        " costs 25 to 30 us a call, as measured before."
    )
    return part


def _calls(part: Part, rounds: int) -> None:
    with fresh_home(hub=True):
        run = init(project="bench", usage=False)
        bar = Progress.new(10**9, "bench")
        theirs = tqdm(total=10**9, file=io.StringIO())
        rich = RichProgress(console=Console(file=io.StringIO(), force_terminal=True))
        task = rich.add_task("bench", total=10**9)
        with rich, theirs:
            cases: dict[str, Round] = {
                "empty": _repeat(_empty),
                "advance": _repeat(bar.advance),
                "track": _track,
                "checkpoint": _repeat(Usage.checkpoint),
                "tqdm": _repeat(theirs.update),
                "rich": _repeat(lambda step: rich.advance(task, step)),
            }
            took = _alternate(cases, rounds)
        run.finish()
    ours = quartiles(took["advance"])
    part.most("`bar.advance()`", ours.median, 1000, ours.show(".0f", " ns"), " ns")
    off = quartiles(took["checkpoint"])
    part.most("`Usage.checkpoint(...)` with usage off", off.median, 200, off.show(".0f", " ns"), " ns")
    part.know("`vedette.track`, for each item", quartiles(took["track"]).show(".0f", " ns"))
    part.know("an empty call", quartiles(took["empty"]).show(".0f", " ns"))
    for peer in ("tqdm", "rich"):
        part.know(f"{peer}'s own", quartiles(took[peer]).show(".0f", " ns"))
        part.know(f"{peer}: its CPU over ours", ratios(took[peer], took["advance"]).show(".1f", "x"))


def _empty(step: float = 1, msg: str | None = None, distributed: bool = False) -> None:
    """Take what `advance` takes."""


def _repeat(call: Callable[..., object]) -> Round:
    def run(calls: int) -> None:
        for _ in range(calls):
            call(1)

    return run


def _track(calls: int) -> None:
    for _ in track(range(calls), "bench"):
        pass


def _alternate(cases: dict[str, Round], rounds: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = defaultdict(list)
    names = list(cases)
    for number in range(rounds + 3):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.thread_time_ns()
            cases[name](_CALLS)
            if number >= 3:  # the first ones warm up
                took[name].append((time.thread_time_ns() - began) / _CALLS)
    return took


def _hub(part: Part, seconds: float) -> None:
    """Measure what the hub does while many bars move at once."""
    with fresh_home(hub=True) as home:
        run = init(project="bench", usage=False)
        many = [Progress.new(10**9, f"bar {number}") for number in range(_BARS)]
        ask(home, wire.Seal(""))
        hub = home.hub_pid() or 0
        time.sleep(1)
        cpu, until = _cpu_s(hub), time.monotonic() + seconds
        while time.monotonic() < until:
            for bar in many:
                bar.advance()
            time.sleep(0.01)
        share = (_cpu_s(hub) - cpu) / seconds
        run.finish()
    part.judge(f"CPU of the hub while {_BARS} bars move, of one core", f"{share * 100:.1f} %", "< 5 %", share < 0.05)


def _bar(home: Home) -> Bar:
    ask(home, wire.Seal(""))
    store = open_reader(home.store)
    try:
        [bar] = bars(store)
    finally:
        store.close()
    return bar


def _team(part: Part, home: Home, kills: int) -> None:
    """Kill the hub while processes advance one bar and log, and some of them are killed too."""
    chance = random.Random(kills)
    witness = Witness(1 + _TEAM)
    run = init(project="bench")
    bar = Progress.new(None, "team")
    pids = []
    for slot in range(1, _TEAM + 1):
        pid = os.fork()
        if pid == 0:
            _advance_for_ever(witness, slot, bar.advance, lambda step: run.log({"x": step}, step))
        pids.append(pid)
    for _ in range(kills):
        time.sleep(chance.uniform(0, 0.3))
        kill_hub(home)
        ask(home, wire.AskHealth())
    witness[0] = 1
    for pid in pids:
        os.waitpid(pid, 0)
    made = sum(witness[slot] for slot in range(1, _TEAM + 1))
    done = _bar(home).done
    run.finish()
    part.judge(
        f"{_TEAM} processes advance one bar and log, {kills} kills of the hub: the total against what they did",
        f"{done:.0f} of {made}", "equal", done == made,
    )  # fmt: skip


def _advance_for_ever(witness: Witness, slot: int, advance: Callable[[], None], log: Callable[[int], None]) -> None:
    parent, number = os.getppid(), 0
    try:
        while not witness[0] and os.getppid() == parent:
            for _ in range(100):
                advance()
                number += 1
                witness[slot] = number
            log(number)
            time.sleep(0.001)
    finally:
        os._exit(0)


def _killed(part: Part, home: Home, kills: int, *, lossy: bool) -> None:
    """Kill members of a team in mid-advance; none of what they had done may be missing."""
    chance = random.Random(kills)
    witness = Witness(1 + kills)
    run = init(project="bench")
    bar = Progress.new(None, "killed")
    for slot in range(1, kills + 1):
        pid = os.fork()
        if pid == 0:
            advance = _empty if lossy else bar.advance
            _advance_for_ever(witness, slot, advance, lambda _: None)
        while witness[slot] < 100:
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    made = sum(witness[slot] for slot in range(1, kills + 1))
    done = _bar(home).done
    run.finish()
    lost = max(0, made - int(done))
    if lossy:
        part.judge("control: a bar that is told at the end alone", f"{lost} of {made} lost", "> 0", lost > 0)
        return
    part.judge(f"{kills} kill -9 in mid-advance: steps that are lost", f"{lost} of {made}", "0", lost == 0)
    beyond = int(done) - made
    part.judge("steps beyond the one that may have been under way", f"{beyond}", f"<= {kills}", beyond <= kills)
