"""Five hosts as network namespaces: links are cut, slow and silent for minutes, hubs are killed, and all arrives."""

import os
import random
import signal
import sys
import time

from tests.journeys.hosts import Host, hosts

from bench.report import Part
from vedette.query.runs import RunView, select
from vedette.store.sqlite_file import open_reader

_VEDETTE = [sys.executable, "-m", "vedette"]
_JOB = """
    import os, sys, time, vedette
    run = vedette.init(project="bench")
    step = 0
    while not os.path.exists(sys.argv[1]):
        run.log({"x": step, "y": -step}, step=step)
        step += 1
        time.sleep(0.005)
    run.config["count"] = step
"""
_SILENT_S = 130
_PATIENCE_S = 180


def measure(*, quick: bool, times: int | None) -> Part:
    """Have four hosts relay to the fifth, one trouble after the other; then look for every point, in its place."""
    part = Part("five hosts with real addresses, one of which keeps everything")
    kills = times or (4 if quick else 100)
    silent_s = 5 if quick else _SILENT_S
    with hosts(5) as (*far, here):
        stop = os.path.join(os.path.dirname(here.home), "stop")
        hub = _listen(here)
        with open(os.path.join(here.home, "hub.connect")) as file:
            connect = file.read().strip()
        jobs = [host.start(_JOB, stop, VEDETTE_HUB=connect) for host in far]
        time.sleep(3)
        _trouble(far, here, silent_s)
        _kill(far, here, hub, kills)
        with open(stop, "w"):
            pass
        codes = [job.wait(60) for job in jobs]
        for host in far:
            host.run([*_VEDETTE, "doctor"])  # sees to it that there is a hub
        found = _arrived(here, len(far))
        lost, wrong, points = _look(found)
        control = _look(found, more=1)[0]
    part.judge("jobs that noticed anything", f"{sum(code != 0 for code in codes)} of {len(codes)}", "0", not any(codes))
    part.judge(
        "runs that are whole at the fifth host", f"{len(found)} of {len(far)}", f"{len(far)}", len(found) == len(far)
    )
    part.judge("points lost", f"{lost} of {points}", "0", lost == 0 and points > 0)
    part.judge("points twice, wrong or out of order", f"{wrong}", "0", wrong == 0)
    part.judge("control: one more is expected than was logged", f"{control} lost", "> 0", control > 0)
    part.note(
        "Each job logs two numbers 200 times a second throughout. Links are cut for 10 s, then for 20 s 40 ms slow with"
        " jitter, 20 % out of order and 2 % lost, then half-open (packets vanish, nobody is told): two far hosts'"
        f" for {silent_s} s, the fifth's for a quarter of that; then {kills} hubs are killed by -9, far ones and the"
        " fifth's by turns."
    )
    return part


def _listen(host: Host) -> "object":
    path = os.path.join(host.home, "hub.connect")
    if os.path.exists(path):
        os.unlink(path)
    hub = host.start([*_VEDETTE, "hub", "--address", ":7070"])
    while not os.path.exists(path):
        if hub.poll() is not None:
            raise RuntimeError(str(hub.communicate()))
        time.sleep(0.05)
    return hub


def _trouble(far: list[Host], here: Host, silent_s: float) -> None:
    far[0].cut()
    here.cut()
    time.sleep(10)
    far[0].heal()
    here.heal()
    for host in far[:2]:
        host.delay(40, jitter_ms=20, reorder_percent=20, loss_percent=2)
    time.sleep(20)
    for host in far[:2]:
        host.heal()
    far[2].half_open()
    far[3].half_open()
    time.sleep(silent_s)
    far[2].heal()
    far[3].heal()
    here.half_open()
    time.sleep(silent_s / 4)
    here.heal()


def _kill(far: list[Host], here: Host, hub: "object", kills: int) -> None:
    chance = random.Random(kills)
    for number in range(kills):
        time.sleep(chance.uniform(0.2, 1.5))
        if number % 2:
            chance.choice(far).end_hub()
        else:
            here.kill(hub, signal.SIGKILL)  # type: ignore[arg-type]
            hub.wait()  # type: ignore[attr-defined]
            hub = _listen(here)


def _arrived(here: Host, runs: int) -> list[RunView]:
    """Return the runs that have ended and have all their points, once they are so many or no more are waited for."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        here.run([*_VEDETTE, "ls", "--json"])
        found = [run for run in select(open_reader(os.path.join(here.home, "store.db"))) if run.end_t is not None]
        whole = [run for run in found if all(row.count >= run.config["count"] for row in run.series())]
        if len(whole) >= runs or time.monotonic() > deadline:
            return whole
        time.sleep(1)


def _look(found: list[RunView], more: int = 0) -> tuple[int, int, int]:
    lost = wrong = points = 0
    for run in found:
        steps = list(range(run.config["count"] + more))
        for name, sign in (("x", 1), ("y", -1)):
            series = run.history(name)
            got = list(zip(series.step.tolist(), series.value.tolist(), strict=True))
            points += len(steps)
            lost += len(set(steps) - {step for step, _ in got})
            wrong += sum(a != b for a, b in zip(got, [(step, sign * step) for step in steps], strict=False))
            wrong += max(0, len(got) - len(steps))
    return lost, wrong, points
