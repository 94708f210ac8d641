"""How much slower a training loop runs when it is monitored."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from bench.spread import median_interval, quartiles
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client.current import init
from vedette.client.run import Run
from vedette.home import Home

_STEPS = 20  # in a block


def measure(*, quick: bool, times: int | None) -> Part:
    """Run pairs of short blocks, one monitored and one not, in an order that chance decides."""
    pairs = times or (30 if quick else 300)
    part = Part("the slow-down of a training loop")
    with fresh_home(hub=True) as home:
        run = init(project="bench")
        ask(home, wire.AskHealth())
        slower, cpu_slower, step_ms, hub_share = _pairs(home, run, pairs)
        run.finish()
    for what, values in (("wall time", slower), ("CPU of the program", cpu_slower)):
        interval = median_interval(values)
        figure = (
            f"{interval.median * 100:+.2f} % (95 % interval {interval.low * 100:+.2f} to {interval.high * 100:+.2f})"
        )
        part.judge(f"median slow-down, {what}", figure, "< 1 %", interval.median < 0.01)
    part.know("a step of the loop, not monitored", quartiles(step_ms).show(".2f", " ms"))
    part.know("CPU of the hub while the loop was monitored, of one core", f"{hub_share * 100:.2f} %")
    part.note(
        f"{pairs} pairs of blocks of {_STEPS} steps in one process; a step is a small network's forward and backward"
        " pass in numpy on one thread. Monitored: 5 metrics logged per step, the hub at work. Not monitored: no call,"
        " the hub stopped by SIGSTOP, so that all that it has to do falls into the monitored blocks."
    )
    return part


def _pairs(home: Home, run: Run, pairs: int) -> tuple[list[float], list[float], list[float], float]:
    chance = random.Random(1)
    steps = _training()
    hub = home.hub_pid() or 0
    assert hub, "there is no hub"
    slower, cpu_slower, step_ms = [], [], []
    hub_cpu, monitored_s = _cpu_s(hub), 0.0
    number = 0
    for pair in range(pairs + 5):
        took = {}
        for monitored in chance.sample((False, True), 2):
            os.kill(hub, signal.SIGCONT if monitored else signal.SIGSTOP)
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(_STEPS):
                loss, norm = next(steps)
                if monitored:
                    number += 1
                    run.log({"loss": loss, "acc": 1 - loss, "lr": 0.01, "norm": norm, "epoch": 1.0}, number)
            took[monitored] = time.perf_counter() - wall, time.process_time() - cpu
        monitored_s += took[True][0]
        if pair >= 5:  # the first ones warm up
            slower.append(took[True][0] / took[False][0] - 1)
            cpu_slower.append(took[True][1] / took[False][1] - 1)
            step_ms.append(took[False][0] / _STEPS * 1e3)
    with contextlib.suppress(ProcessLookupError):
        os.kill(hub, signal.SIGCONT)
    return slower, cpu_slower, step_ms, (_cpu_s(hub) - hub_cpu) / monitored_s


def _training() -> Iterator[tuple[float, float]]:
    """Train a network of two layers, one step (about 5 ms) at a time; yield its loss and the norm of its gradient."""
    chance = np.random.default_rng(1)
    x, y = chance.normal(size=(256, 256)), chance.normal(size=(256, 10))
    first, second = chance.normal(size=(256, 800)) * 0.05, chance.normal(size=(800, 10)) * 0.05
    while True:
        hidden = np.maximum(x @ first, 0)
        error = hidden @ second - y
        of_second = hidden.T @ error / len(x)
        of_first = x.T @ ((error @ second.T) * (hidden > 0)) / len(x)
        second -= 0.01 * of_second
        first -= 0.01 * of_first
        yield float((error**2).mean()), float(np.linalg.norm(of_first))


def _cpu_s(pid: int) -> float:
    """Return the CPU that all threads of a process have used."""
    with open(f"/proc/{pid}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
