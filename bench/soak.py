"""An hour of load with kills at random: the memory of hub, meter, page and a client does not grow, nothing is lost.

Two hubs: one keeps, and is measured; the other relays to it, and is killed at random. Programs come and go at both,
most of them by kill -9, with children that they fork; one program lives all the time, and begins runs.
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import vedette
from bench.report import Part
from vedette import kernel, wire
from vedette.access.hub_socket import ask
from vedette.home import Home

_EVERY_S = 10.0
_LEAST_MINUTES = 12
_MOST_MB_PER_HOUR = 5.0
_MOST_SPOOLS = 100
_LONG = """
    import time, vedette
    run, step = vedette.init(name="long", console=False), 0
    while True:
        for _ in range(20):
            run.log({"x": float(step), "y": 0.5 * step}, step=step)
            step += 1
        run.mark("here")
        print("a line", step)
        if step % 200 == 0:
            with vedette.init(name=f"short-{step}", console=False, resume=False) as short:
                short.log({"z": 1.0})
        time.sleep(0.1)
"""
_SHORT = """
    import mmap, os, sys, time, vedette
    file = open(sys.argv[1], "r+b")
    said = mmap.mmap(file.fileno(), 8)
    run, step = vedette.init(name="load", console=False), 0
    if os.fork() == 0:
        while True:
            run.log({"child": 1.0})
            time.sleep(0.01)
    bar = run.progress(10**9, "work")
    while True:
        run.log({"x": float(step), **{f"m{number}": 0.5 for number in range(step % 7)}})
        step += 1
        said[:] = step.to_bytes(8, "little")
        bar.advance(1)
        if step % 50 == 0:
            print("line", step)
            time.sleep(0.02)
"""


class Load:
    """Programs that come and go."""

    def __init__(self, homes: list[dict[str, str]], folder: str) -> None:
        self._homes = homes
        self._folder = folder
        self._chance = random.Random(1)
        self._running: list[tuple[subprocess.Popen[bytes], float, str]] = []
        self.said: list[str] = []  # files that have how much each had logged
        self.kills = 0

    def tend(self) -> None:
        """Begin a program, and kill those whose time has come."""
        now = time.monotonic()
        for process, _, _ in [item for item in self._running if item[1] < now]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.kills += 1
        self._running = [item for item in self._running if item[1] >= now]
        while len(self._running) < 3:
            path = os.path.join(self._folder, f"said-{len(self.said)}")
            with open(path, "wb") as file:
                file.write(bytes(8))
            environ = {**os.environ, **self._chance.choice(self._homes)}
            process = _start(_SHORT, environ, self._folder, path)
            self._running.append((process, now + self._chance.uniform(0.5, 8.0), path))
            self.said.append(path)

    def end(self) -> None:
        """Kill all of them."""
        for process, _, _ in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(code: str, environ: dict[str, str], folder: str, *words: str) -> "subprocess.Popen[bytes]":
    """Start a program in an empty directory: what is captured of its code must not be more than two cores can do."""
    command = [sys.executable, "-c", textwrap.dedent(code), *words]
    os.makedirs(cwd := os.path.join(folder, "code"), exist_ok=True)
    return subprocess.Popen(command, env=environ, cwd=cwd, stdout=subprocess.DEVNULL, start_new_session=True)


class Viewer:
    """Somebody who looks at the page: lists, and all about the newest run at once, as a browser asks."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._token = url.partition("token=")[2]
        self._over = threading.Event()
        self.asked = 0
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, IndexError):
                lists = "/api/runs?limit=50&columns=metric.x"
                runs = self._ask(lists)
                newest = runs["rows"][0]["id"] if runs.get("rows") else ""
                paths = [f"/api/runs/{newest}", f"/api/runs/{newest}/logs", f"/api/runs/{newest}/usage", lists]
                with concurrent.futures.ThreadPoolExecutor(len(paths)) as pool:
                    list(pool.map(self._ask, paths))
                self.asked += 1

    def _ask(self, path: str) -> dict[str, Any]:
        with contextlib.closing(
            http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=20)
        ) as link:
            link.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            found: dict[str, Any] = json.loads(link.getresponse().read())
            return found

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()


def measure(*, quick: bool, times: int | None) -> Part:
    """Load for so many minutes (`times`), and fit a line through the memory of each program."""
    minutes = 2 if quick else times or 60
    part = Part("an hour of load with kills at random")
    with tempfile.TemporaryDirectory(prefix="vds-", ignore_cleanup_errors=True) as folder:  # captures may still write
        samples, spools, load, kills, viewed, wrong = _soak(folder, minutes)
    first = min(10.0, minutes / 4) * 60
    for who, found in samples.items():
        late = np.array([(at, size) for at, size in found if at >= first])
        if len(late) < 3:
            part.know(f"{who}: memory", "it did not live long enough")
            continue
        slope = float(np.polyfit(late[:, 0] / 3600, late[:, 1] / 1e6, 1)[0])
        sizes = f"{late[0, 1] / 1e6:.1f} MB after {first / 60:.0f} min, {late[-1, 1] / 1e6:.1f} MB at the end"
        figure = f"{slope:+.2f} MB/h ({sizes})"
        part.judge(f"{who}: growth of its memory", figure, f"< {_MOST_MB_PER_HOUR:g} MB/h", slope < _MOST_MB_PER_HOUR)
    part.judge("spools that lie there, at most", f"{spools}", f"< {_MOST_SPOOLS}", spools < _MOST_SPOOLS)
    part.judge("points that were logged and are not there", f"{wrong}", "0", wrong == 0)
    part.note(
        f"{minutes} minutes, {load} programs killed with their children, {kills} kills of the hub that relays,"
        f" {viewed} rounds of a viewer. Memory is what is the program's own (Anonymous of smaps_rollup), every"
        f" {_EVERY_S:g} s; the line is fitted by least squares to what came after {first / 60:.0f} minutes."
    )
    return part


def _soak(folder: str, minutes: float) -> tuple[dict[str, list[tuple[float, int]]], int, int, int, int, int]:
    keeps, relays = Home(os.path.join(folder, "keeps")), Home(os.path.join(folder, "relays"))
    keeps.prepare()
    relays.prepare()
    plain = {**os.environ, "VEDETTE_HUB_IDLE_S": "3600", "VEDETTE_USAGE_INTERVAL_S": "1"}
    hub = subprocess.Popen(
        [sys.executable, "-m", "vedette", "hub", "--address", "127.0.0.1:0", "--home", keeps.root], env=plain,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    while not os.path.exists(keeps.connect):
        time.sleep(0.1)
    with open(keeps.connect) as file:
        upstream = file.read().strip()
    here = {**plain, "VEDETTE_HOME": keeps.root}
    there = {**plain, "VEDETTE_HOME": relays.root, "VEDETTE_HUB": upstream}
    page = subprocess.Popen(
        [sys.executable, "-m", "vedette", "ui", "--no-browser", "--port", "0", "--json", "--home", keeps.root],
        env=here, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert page.stdout is not None
    url = json.loads(page.stdout.readline())["url"]
    long = _start(_LONG, here, folder)
    viewer, load = Viewer(url), Load([here, there], folder)
    chance, begun, kills = random.Random(2), time.monotonic(), 0
    samples: dict[str, list[tuple[float, int]]] = {"hub": [], "meter": [], "page": [], "client": []}
    next_sample, next_kill, most_spools = 0.0, 30.0, 0
    while (at := time.monotonic() - begun) < minutes * 60:
        load.tend()
        if at >= next_sample:
            next_sample += _EVERY_S
            most_spools = max(most_spools, len(os.listdir(keeps.spool)))
            pids = {"hub": hub.pid, "meter": _meter_of(hub.pid), "page": page.pid, "client": long.pid}
            for who, pid in pids.items():
                if size := _own_bytes(pid):
                    samples[who].append((at, size))
        if at >= next_kill and (relaying := relays.hub()) is not None and relaying.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(relaying.pid, signal.SIGKILL)
            kills += 1
            next_kill += chance.uniform(20, 60)
        time.sleep(0.2)
    load.end()
    os.killpg(long.pid, signal.SIGKILL)
    long.wait()
    viewer.end()
    wrong = _missing(keeps, relays, load)
    for process in (page, hub):
        process.terminate()
        process.wait()
    return samples, most_spools, load.kills, kills, viewer.asked, wrong


def _meter_of(hub: int) -> int:
    return next((pid for pid, parent in kernel.parents().items() if parent == hub and _is_meter(pid)), 0)


def _is_meter(pid: int) -> bool:
    return any("processes.meter" in word for word in kernel.command(pid))


def _own_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous:"))
    except OSError:
        return 0


def _missing(keeps: Home, relays: Home, load: Load) -> int:
    """Return how many points programs had logged that are not in the store, once all is read and relayed."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and any(not name.startswith("hub-") for name in os.listdir(relays.spool)):
        with contextlib.suppress(Exception):
            ask(relays, wire.Seal(""))
        time.sleep(1)
    ask(keeps, wire.Seal("", within_s=120.0), answer_s=150)
    os.environ["VEDETTE_HOME"] = keeps.root
    said = sum(_number(path) for path in load.said)
    loads = [run for run in vedette.runs() if run.name == "load"]
    stored = sum(row.count for run in loads for row in run.series() if row.name == "x")
    return max(0, said - stored)


def _number(path: str) -> int:
    with open(path, "rb") as file:
        return int.from_bytes(file.read(8), "little")
