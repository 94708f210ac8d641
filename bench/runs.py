"""Many runs of one process, at once and one after another: each has exactly its own, and nothing piles up."""

import asyncio
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import vedette
from bench.place import fresh_home
from bench.report import Part

_STEPS = 50


def measure(*, quick: bool, times: int | None) -> Part:
    """Begin runs in threads, tasks, pool workers and in sequence, and compare what is stored with what was said."""
    at_once, in_sequence = (8, 40) if quick else (64, times or 1000)
    part = Part("many runs of one process")
    for form in ("threads", "tasks", "workers"):
        with fresh_home(hub=True) as home:
            ids = _program(home.root, form, at_once)["ids"]
            wrong = sum(not _is_its_own(i, id_) for i, id_ in enumerate(ids))
            same = at_once - len(set(ids))
        part.judge(f"{at_once} runs at once in {form}: merged, wrong", f"{same}, {wrong}", "0, 0", not same + wrong)
    with fresh_home(hub=True) as home:
        found = _program(home.root, "sequence", in_sequence)
        wrong = sum(not _is_its_own(i, id_) for i, id_ in enumerate(found["ids"]))
    part.judge(f"{in_sequence} runs in sequence: wrong", f"{wrong}", "0", not wrong)
    for who in ("client", "hub"):
        early, late = found[who]
        figure = f"{early[0]} -> {late[0]}, {early[1] / 1e6:.1f} -> {late[1] / 1e6:.1f} MB"
        ok = late[0] <= early[0] + 5 and late[1] < early[1] + 8e6
        what = f"{who}, after a fifth of them and after all: descriptors, memory"
        part.judge(what, figure, "at most 5 more, 8 MB more", ok)
    part.note(f"Each run logs {_STEPS} points, prints a line, logs a line, and has a config of its own.")
    return part


def _program(home: str, form: str, count: int) -> dict[str, Any]:
    environ = {**os.environ, "VEDETTE_HOME": home, "VEDETTE_CAPTURE_ENABLE": "false"}
    words = [sys.executable, "-m", "bench.runs", form, str(count)]
    done = subprocess.run(words, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _is_its_own(i: int, id_: str) -> bool:
    run = vedette.get(id_)
    points = run.history("x").value.tolist() == [i * 1000 + step for step in range(_STEPS)]
    lines = sorted(line.text for line in run.logs()) == [f"logged by {i}", f"printed by {i}"]
    return points and lines and run.config == {"i": i} and run.state == "done"


def _trial(i: int) -> str:
    with vedette.init(name=f"t{i}", config={"i": i}) as run:
        for step in range(_STEPS):
            vedette.log({"x": i * 1000 + step})
        print(f"printed by {i}")
        logging.getLogger("bench").warning("logged by %d", i)
    return run.id


async def _task(i: int, gate: asyncio.Barrier) -> str:
    with vedette.init(name=f"t{i}", config={"i": i}) as run:
        await gate.wait()
        for step in range(_STEPS):
            vedette.log({"x": i * 1000 + step})
            await asyncio.sleep(0)
        print(f"printed by {i}")
        logging.getLogger("bench").warning("logged by %d", i)
    return run.id


def _gated(i: int, gate: threading.Barrier) -> str:
    with vedette.init(name=f"t{i}", config={"i": i}) as run:
        gate.wait()  # all of them are open now
        for step in range(_STEPS):
            vedette.log({"x": i * 1000 + step})
        print(f"printed by {i}")
        logging.getLogger("bench").warning("logged by %d", i)
    return run.id


async def _tasks(count: int) -> list[str]:
    gate = asyncio.Barrier(count)
    return await asyncio.gather(*(_task(i, gate) for i in range(count)))


def _weight(pid: int) -> tuple[int, int]:
    """Return the open descriptors of a process, and the memory that is its own."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        own = sum(int(line.split()[1]) for line in file if line.startswith(("Private_Dirty:", "Private_Clean:")))
    return len(os.listdir(f"/proc/{pid}/fd")), own * 1024


def _sequence(count: int) -> dict[str, Any]:
    from vedette.home import Home

    ids, weights = [], []
    for i in range(count):
        ids.append(_trial(i))
        if i in (count // 5, count - 1):
            time.sleep(2.0)  # the hub has read all of it, and removed the spools
            weights.append((_weight(os.getpid()), _weight(Home(os.environ["VEDETTE_HOME"]).hub_pid() or 1)))
    return {"ids": ids, "client": [w[0] for w in weights], "hub": [w[1] for w in weights]}


def _main(form: str, count: int) -> None:
    if form == "threads":
        gate = threading.Barrier(count)
        with ThreadPoolExecutor(count) as pool:
            found: dict[str, Any] = {"ids": list(pool.map(_gated, range(count), [gate] * count))}
    elif form == "tasks":
        found = {"ids": asyncio.run(_tasks(count))}
    elif form == "workers":
        with multiprocessing.get_context("spawn").Pool(4) as pool:
            found = {"ids": pool.map(_trial, range(count), 1)}
    else:
        found = _sequence(count)
    print(json.dumps(found))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
