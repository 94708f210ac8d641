"""What it costs a program that `init` has what it is made of taken down, and how long that itself takes."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.query.runs import select
from vedette.store.sqlite_file import open_reader

_GOAL_MS = 50.0
_IMPORTED = "import vedette.client.capturing, vedette.client.hooks, vedette.client.current, vedette.settings\n"
_INIT = """\
import os, vedette
from time import perf_counter as wall, process_time as cpu
w, c = wall(), cpu()
run = vedette.init()
print(wall() - w, cpu() - c, flush=True)
os._exit(0)
"""
_FILES, _BYTES = 300, 8000


def measure(*, quick: bool, times: int | None) -> Part:
    """Start fresh programs in a repository, in turn with and without, while a hub lives."""
    rounds = times or (8 if quick else 40)
    part = Part("what a run is made of, taken down: the cost of `init`, and of the program beside it")
    took: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="vdb-") as folder, fresh_home(hub=True) as home:
        _repository(folder)
        for number in range(rounds + 1):
            for name, before, enable in (
                ("with", "", "true"),
                ("without", "", "false"),
                ("imported", _IMPORTED, "true"),
                ("imported-without", _IMPORTED, "false"),
            ):
                wall_s, cpu_s = _init(folder, before + _INIT, {"VEDETTE_CAPTURE_ENABLE": enable})
                if number:  # the first one starts the hub
                    took[name].append(wall_s * 1e3)
                    took[name + "-cpu"].append(cpu_s * 1e3)
                _settle(home)
        took["whole"] = [s * 1e3 for s in _taken_s(home)]
    whole = quartiles(took["with"])
    part.judge(
        "`vedette.init()` in a fresh process, with it", whole.show(".1f", " ms"), "< 50 ms", whole.median < _GOAL_MS
    )
    alone = quartiles(took["imported"])
    part.judge("the same, the client imported before", alone.show(".1f", " ms"), "< 50 ms", alone.median < _GOAL_MS)
    part.know("... without it", quartiles(took["imported-without"]).show(".1f", " ms"))
    part.know("in a fresh process without it (`capture.enable=false`)", quartiles(took["without"]).show(".1f", " ms"))
    added = quartiles([a - b for a, b in zip(took["with"], took["without"], strict=True)])
    part.know("what it adds to `init`, pair by pair", added.show(".1f", " ms"))
    added = quartiles([a - b for a, b in zip(took["with-cpu"], took["without-cpu"], strict=True)])
    part.know("... in CPU of the program itself", added.show(".1f", " ms"))
    part.know("from `init` until all is on record", quartiles(took["whole"]).show(".0f", " ms"))
    part.note(
        f"{rounds} fresh processes of each, in turn, in a git repository with {_FILES} files of {_BYTES} bytes; the hub"
        " lives, and what was begun before is over. The first `init` imports the client and msgspec: that is in the"
        " figures of fresh processes, and most of them."
    )
    return part


def _repository(folder: str) -> None:
    for number in range(_FILES):
        with open(os.path.join(folder, f"part_{number}.py"), "w") as file:
            file.write(f"x = {number}\ntoken = tokenizer.next()\n" * (_BYTES // 40))
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    for args in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


def _init(folder: str, program: str, said: dict[str, str]) -> tuple[float, float]:
    environ = os.environ | said
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )
    wall_s, cpu_s = done.stdout.split()[-2:]
    return float(wall_s), float(cpu_s)


def _settle(home: Home) -> None:
    """Wait until all that was begun is over: what is measured next is not to share the machine with it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(sqlite3.Error, VedetteError):  # it is only just being made
            store = open_reader(home.store)
            try:
                runs = select(store)
            finally:
                store.close()
            if runs and all(run.attrs.get("capture") != "begun" for run in runs):
                return
        time.sleep(0.05)
    raise TimeoutError("what a run is made of is not taken down in a minute")


def _taken_s(home: Home) -> list[float]:
    store = open_reader(home.store)
    try:
        born = {run.id: run.start_t or 0 for run in select(store)}
        return [(row.t - born[row.span]) / 1e9 for row in store.blobs() if row.name == "packages.json"]
    finally:
        store.close()
