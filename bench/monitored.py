"""A job that one monitor watches: ours by the original's names, or the original itself; it says what both have seen.

It runs by itself, in whichever Python has the library: it prints one line of JSON when it is watched, and one at its
end, when its input is closed.
"""

import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

_SPIN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


def main(work: str, library: str, place: str, interval: str, seconds: str) -> None:
    """Do some work under a monitor; or, for `stops`, start and stop one again and again."""
    with tempfile.TemporaryDirectory(prefix="vdb-") as folder, contextlib.redirect_stdout(sys.stderr):
        monitors = importlib.import_module(f"{library}.monitor.{place}_monitor")
        make = lambda: monitors.FileMonitor(os.path.join(folder, "log.txt"), float(interval))  # noqa: E731
        (_stops if work == "stops" else _watched)(make, work, float(seconds))


def _say(**what: object) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")
    sys.__stdout__.flush()


def _watched(make, work: str, seconds: float) -> None:
    monitor = make()
    monitor.start()
    beside = getattr(monitor, "monitor_process", None)
    _say(beside=[beside.pid] if beside else [])
    wall, cpu = time.perf_counter(), _cpu_s()
    _WORK[work](seconds)
    wall, cpu = time.perf_counter() - wall, _cpu_s() - cpu
    monitor.stop()
    _say(
        true=100 * cpu / wall,
        said=monitor.summary()["avg_cpu_usage"],
        samples=len(monitor.stats()["cpu_usage"]),
        wall_s=wall,
    )


def _stops(make, _: str, times: float) -> None:
    started, took = [], []
    _say()
    for number in range(int(times)):
        monitor = make()
        began = time.perf_counter()
        monitor.start()
        started.append((time.perf_counter() - began) * 1000)
        time.sleep(0.05 + 0.01 * (number % 10))  # at no special place of its interval
        began = time.perf_counter()
        monitor.stop()
        took.append((time.perf_counter() - began) * 1000)
    _say(start_ms=started, stop_ms=took)


def _cpu_s() -> float:
    """Return what the kernel has counted for this process and all children that it has waited for."""
    of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in of)


def _main_process(seconds: float) -> None:
    """Work in bursts, for more of the first half than of the second."""
    begun = time.perf_counter()
    while (gone := time.perf_counter() - begun) < seconds:
        burst = time.process_time() + (0.04 if gone < seconds / 2 else 0.02)
        while time.process_time() < burst:
            sum(range(1000))
        time.sleep(0.02)


def _children(seconds: float) -> None:
    """Have two children work, the one from the beginning, the other for the second half."""
    first = subprocess.Popen([sys.executable, "-Sc", _SPIN.format(seconds * 0.3)])
    time.sleep(seconds / 2)
    second = subprocess.Popen([sys.executable, "-Sc", _SPIN.format(seconds * 0.2)])
    time.sleep(seconds / 2)
    first.wait()
    second.wait()


def _short_children(seconds: float) -> None:
    """Have one child after another work for a moment."""
    begun = time.perf_counter()
    while time.perf_counter() < begun + seconds:
        subprocess.run([sys.executable, "-ISc", _SPIN.format(0.03)], check=True)
        time.sleep(0.05)


def _hold_gil(seconds: float) -> None:
    """Stay within one call of C, which holds the interpreter to its end."""
    any(map((time.perf_counter() + seconds).__lt__, iter(time.perf_counter, None)))


def _sleep(_: float) -> None:
    """Do nothing until the input is closed: all that is used meanwhile is the monitor's."""
    os.read(0, 1)


def _crowd(_: float) -> None:
    """Have some children that do nothing either."""
    children = [subprocess.Popen(["sleep", "1000"]) for _ in range(8)]
    os.read(0, 1)
    for child in children:
        child.kill()
        child.wait()


_WORK = {
    "main": _main_process, "children": _children, "short": _short_children, "gil": _hold_gil, "sleep": _sleep,
    "crowd": _crowd,
}  # fmt: skip

if __name__ == "__main__":
    main(*sys.argv[1:])
