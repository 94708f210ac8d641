"""How near the CPU time of a tree is to the kernel's own count, and what a look costs."""

import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import psutil

from bench.report import Part
from vedette.sensing.sensor import Target
from vedette.sources import process
from vedette.sources.sampler import find, known

_JOB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "rooms", "tree_job.py")
_KINDS = ("own", "threads", "short", "long", "nested", "zombies", "orphans", "root")
_DONE = b"finished"
_INTERVALS_S = (5.0, 1.0, 0.1)


def measure(*, quick: bool, times: int | None) -> Part:
    """Watch trees of every kind at three intervals, then look at a quiet process again and again."""
    part = Part("sensors: CPU time of trees, and the cost of a look")
    seconds = 2.0 if quick else 6.0
    for every_s in _INTERVALS_S:
        off = {kind: 100 * _off(kind, seconds, every_s) for kind in _KINDS}
        worst = max(off, key=lambda kind: abs(off[kind]))
        part.most(
            f"CPU time at {every_s:g} s against rusage, the worst of {len(off)} kinds of trees", abs(off[worst]), 3.0,
            f"{off[worst]:+.2f} % ({worst})", " %",
        )  # fmt: skip
    looks = times or (20 if quick else 100)
    with subprocess.Popen(["sleep", "1000"]) as job:
        try:
            _judge_cost(part, job.pid, looks)
        finally:
            job.kill()
    part.note(
        f"Jobs of {seconds:g} s of CPU time: in the process itself, in threads, in children of 30 ms, in long and"
        " in nested ones, in zombies, in orphans, below a root that dies. Costs are the mean CPU time of a look, 0.1 s"
        " after the last one, when caches are cold; in a tight loop it is a tenth of that."
    )
    return part


def _judge_cost(part: Part, pid: int, looks: int) -> None:
    found, _ = find(known(), Target(pid))
    costs = {name: 1e3 * _cost(sensor.look, looks) for name, sensor in found.items()}
    part.most("a look at one process, all of its numbers", costs["process"], 1.0, f"{costs['process']:.2f} ms", " ms")
    for name, cost in costs.items():
        if name != "process":
            part.know(f"a look by the sensor {name}", f"{cost:.2f} ms")
    watched = psutil.Process(pid)

    def by_psutil() -> None:
        with watched.oneshot():
            watched.cpu_percent(), watched.memory_info(), watched.num_threads(), watched.io_counters()
        watched.children(recursive=True)

    part.know(
        "the same by psutil, with its children, without quota and limit", f"{1e3 * _cost(by_psutil, looks):.2f} ms"
    )


def _cost(look: Callable[[], object], looks: int) -> float:
    look()
    found = []
    for _ in range(looks):
        time.sleep(0.1)
        before = time.process_time()
        look()
        found.append(time.process_time() - before)
    return float(np.mean(found))


def _off(kind: str, seconds: float, every_s: float) -> float:
    """Return by which part of it the CPU time of a job was counted too high."""
    ear, mouth = os.pipe()
    argv = [sys.executable, _JOB, kind, str(seconds), str(mouth)]
    with subprocess.Popen(argv, stdin=-1, pass_fds=[mouth], start_new_session=True) as job:
        os.close(mouth)
        sensor = process.sensor(Target(job.pid))
        sensor.look()
        job.stdin.write(b"x")
        job.stdin.flush()
        heard, due_s = b"", time.monotonic() + every_s
        while not heard.endswith(_DONE):
            if select.select([ear], [], [], max(0.0, due_s - time.monotonic()))[0]:
                heard += os.read(ear, 1 << 16)
            else:
                sensor.look()
                due_s += every_s
        counted_s = sensor.look()[0].values["cpu_s"]
        job.stdin.close()
    os.close(ear)
    sensor.close()
    told = heard.removesuffix(_DONE)
    return counted_s / sum(struct.unpack(f"{len(told) // 8}d", told)) - 1
