"""How evenly the processes of a run are measured, however many there are and whatever else goes on, at what cost."""

import os
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np

from bench.pair import cpu_s, most_memory_mb
from bench.place import fresh_home
from bench.report import Part
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.query import runs as query_runs
from vedette.sources.process import look
from vedette.store.sqlite_file import open_reader

_CHILDREN = (0, 8, 64)
_SETTLE_S = 3
_LOUD = 1_000_000  # points a second that are taken in meanwhile
_JOB = """
import subprocess, sys, vedette
vedette.init(name="job")
children = [subprocess.Popen(["sleep", "1000"]) for _ in range(int(sys.argv[1]))]
print("ready", flush=True)
sys.stdin.read()
for child in children:
    child.kill()
"""
_LOUD_JOB = """
import time, vedette
run = vedette.init(name="loud", usage=False)
values = {f"metric{n}": float(n) for n in range(20)}
begun, step = time.monotonic(), 0
while True:
    for _ in range(500):
        run.log(values, step)
        step += 1
    time.sleep(max(0.0, begun + step * 20 / POINTS - time.monotonic()))
""".replace("POINTS", str(_LOUD))


class Watched(NamedTuple):
    """What was seen of one run: its periods in s, the share of a core and the most memory of hub and meter."""

    periods: "np.ndarray"
    taken_in: float  # points a second of the loud one
    share: float
    hub_mb: float
    meter_mb: float


def measure(*, quick: bool, times: int | None) -> Part:
    """Watch runs with more and more children, then one while another floods the hub."""
    seconds = times or (6 if quick else 30)
    part = Part("usage: the sampling period, and what it costs")
    found = {children: _watch(children, seconds) for children in _CHILDREN}
    for children, one in found.items():
        _judge(part, f"{children} children", one)
    flooded = _watch(64, seconds, loud=True)
    _judge(part, f"64 children, while {flooded.taken_in / 1e6:.2f} M points a second are taken in", flooded)
    most = found[_CHILDREN[-1]]
    part.most(
        "hub and meter while 65 processes are measured at 1 s", 100 * most.share, 5.0,
        f"{100 * most.share:.1f} % of a core", " % of a core",
    )  # fmt: skip
    part.know("their memory at most", f"hub {most.hub_mb:.0f} MB, meter {most.meter_mb:.0f} MB")
    part.note(
        f"Each watched for {seconds} s at an interval of 1 s; the median (and worst) time between two samples of the"
        " main process, without the first, which is taken at once. A monitor that asks each process in turn, as the"
        " original did, has a period of (children + 1) x 1 s: 1, 9 and 65 s, and values of one sample from different"
        " seconds."
    )
    return part


def _judge(part: Part, what: str, one: Watched) -> None:
    worst = float(one.periods[np.argmax(np.abs(one.periods - 1))])
    median = float(np.median(one.periods))
    met = bool(np.all(np.abs(one.periods - 1) <= 0.1))
    part.judge(what, f"{median:.3f} s (worst {worst:.3f} s of {len(one.periods)})", "1.0 s +- 10 %", met)


def _watch(children: int, seconds: int, *, loud: bool = False) -> Watched:
    with fresh_home(hub=True) as home:
        environ = {**os.environ, "VEDETTE_HOME": home.asked, "PYTHONPATH": os.pathsep.join(sys.path)}
        job = subprocess.Popen(
            [sys.executable, "-c", _JOB, str(children)], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        others = [subprocess.Popen([sys.executable, "-c", _LOUD_JOB], env=environ)] if loud else []
        born = time.monotonic()
        try:
            job.stdout.readline()
            time.sleep(_SETTLE_S)
            pids = [home.hub_pid(), _meter(home)]
            before, begun = sum(map(cpu_s, pids)), time.monotonic()
            time.sleep(seconds)
            share = (sum(map(cpu_s, pids)) - before) / (time.monotonic() - begun)
            memory = [most_memory_mb(pid) for pid in pids]
        finally:
            for other in others:
                other.kill()
                other.wait()
            job.communicate()
        lived_s = time.monotonic() - born
        ask(home, wire.Seal(""))
        store = open_reader(home.store)
        uses = query_runs.view(store, "job").usage()
        points = sum(row.count for row in store.series() if row.name.startswith("metric"))
        main = next(one for one in uses if one.pid == job.pid)
        periods = np.diff(main.series["memory_bytes"][0])[1:] / 1e9
        return Watched(periods, points / lived_s, share, *memory)


def _meter(home: Home) -> int:
    """Return the pid of the meter of a home's hub."""
    hub = home.hub_pid()
    assert hub
    [meter] = look([hub]).processes.keys() - {hub}
    return meter
