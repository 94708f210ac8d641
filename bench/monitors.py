"""What a resource monitor says against what the kernel has counted, and what it costs, beside the original."""

import contextlib
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from bench.report import Part

_PEERS = os.path.join(".peers", "bin", "python")
_JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "monitored.py")
_INTERVALS = (5.0, 1.0, 0.1)
_PLACES = ("thread", "process")
_WORK = {
    "main": "work in the main process",
    "children": "work in two children",
    "short": "work in one short-lived child after another",
    "gil": "one C call that holds the GIL",
}
_OVERHEAD = {5.0: 0.05, 1.0: 0.2, 0.1: 1.0}  # percent of a core
_OURS, _ORIGINAL = "vedette.compat.heflwr", "heflwr"
_STOP_TIMES = 30


class Case(NamedTuple):
    """A library's monitor in one of its forms, at an interval."""

    library: str
    place: str
    interval_s: float

    def __str__(self) -> str:
        return f"{self.place}, every {self.interval_s:g} s"


class Cost(NamedTuple):
    """What a monitor takes while nothing happens: of one core, to start, and in processes of its own."""

    percent: float
    start_cpu_ms: float
    own_mb: float
    resident_mb: float
    processes: int


def measure(*, quick: bool, times: int | None) -> Part:
    """Watch jobs that work in several ways; then one that sleeps, so that all that is used is the monitor's."""
    part = Part("resource monitors: what they say, and what they cost")
    with tempfile.TemporaryDirectory(prefix="vdb-") as folder:
        libraries = [_OURS, *([_ORIGINAL] if _without_torch(folder) else [])]
        _accuracy(part, libraries, folder, 2.0 if quick else 6.0)
        seconds = times or (6 if quick else 60)
        _costs(part, libraries, folder, seconds)
        _stops(part, libraries, folder)
    part.note(
        "Each job runs under `FileMonitor`, by the original's names; truth is getrusage of the job and of all children"
        " that it has waited for. Samples due: one for each interval that the job lasted."
    )
    part.note(
        f"Overhead: all CPU, by the scheduler's clock, of a job that sleeps for {seconds} s, of all its threads and"
        " children; the start is not in it, and stands for itself. Jobs of one library run at the same time."
    )
    part.note(
        "The original is 0.1.91, unchanged but for the `__init__` of its package, left out because it needs torch;"
        " its figures have no goal."
        if len(libraries) > 1
        else "The original is not in .peers: its figures are left out."
    )
    return part


def _without_torch(folder: str) -> bool:
    """Make a package by the original's name that has all its modules and imports none; tell whether there is one."""
    found = glob.glob(os.path.join(".peers", "lib", "python3*", "site-packages", "heflwr"))
    if found:
        os.mkdir(os.path.join(folder, "heflwr"))
        with open(os.path.join(folder, "heflwr", "__init__.py"), "w") as file:
            file.write(f"__path__ = [{os.path.abspath(found[0])!r}]\n")
    return bool(found)


@contextlib.contextmanager
def _job(folder: str, work: str, case: Case, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    original = case.library == _ORIGINAL
    environ = os.environ | {"PYTHONPATH": folder if original else os.pathsep.join(filter(None, sys.path))}
    with (
        open(os.path.join(folder, "errors"), "a") as errors,
        subprocess.Popen(
            [_PEERS if original else sys.executable, _JOB, work, case.library, case.place,
             str(case.interval_s), str(seconds)],
            env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        ) as process,
    ):  # fmt: skip
        yield process


def _hear(process: "subprocess.Popen[str]") -> dict[str, Any]:
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a job has died: {process.args}")
    return json.loads(line)


def _accuracy(part: Part, libraries: list[str], folder: str, seconds: float) -> None:
    cases = [
        (work, Case(library, place, interval_s))
        for work in _WORK
        for interval_s in _INTERVALS
        for place in _PLACES
        for library in libraries
    ]

    def run(one: tuple[str, Case]) -> dict[str, Any]:
        with _job(folder, *one, seconds) as process:
            return _hear(process) | _hear(process)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(cases, pool.map(run, cases), strict=True))
    for (work, case), one in found.items():
        if case.library != _OURS:
            continue
        other = found.get((work, case._replace(library=_ORIGINAL)))
        wrong, share = _wrong(one), _share(one, case)
        part.most(
            f"{_WORK[work]}; {case}: CPU against the kernel's {one['true']:.1f} %", abs(wrong), 3,
            f"{wrong:+.1f} %" + (f" (the original {_wrong(other):+.0f} %)" if other else ""), " %",
        )  # fmt: skip
        figure = f"{share:.0f} %" + (f" (the original {_share(other, case):.0f} %)" if other else "")
        what = f"{_WORK[work]}; {case}: samples of those due"
        if work == "gil" and case.place == "thread":
            part.know(f"{what} (no thread of Python runs in such a call)", figure)
        else:
            part.least(what, share, 95, figure, " %")


def _wrong(one: dict[str, Any]) -> float:
    return 100 * (one["said"] / one["true"] - 1)


def _share(one: dict[str, Any], case: Case) -> float:
    return 100 * min(1.0, one["samples"] / max(1, int(one["wall_s"] / case.interval_s)))


def _costs(part: Part, libraries: list[str], folder: str, seconds: float) -> None:
    found: dict[tuple[str, Case], Cost] = {}
    for library in libraries:
        cases = [("sleep", Case(library, place, s)) for place in _PLACES for s in _INTERVALS]
        cases += [("crowd", Case(library, place, 1.0)) for place in _PLACES]
        with ThreadPoolExecutor(len(cases)) as pool:
            costs = pool.map(lambda one: _cost(folder, *one, seconds), cases)
            found |= dict(zip(cases, costs, strict=True))
    for (work, case), cost in found.items():
        if case.library != _OURS:
            continue
        other = found.get((work, case._replace(library=_ORIGINAL)))
        figure = f"{cost.percent:.3f} % of a core" + (f" (the original {other.percent:.3f} %)" if other else "")
        if work == "sleep":
            part.most(f"overhead: {case}", cost.percent, _OVERHEAD[case.interval_s], figure, " % of a core")
        else:
            part.know(f"overhead: {case}, of a job with 8 children, which the original does not count", figure)
    for library in libraries:
        for place in _PLACES:
            one = found["sleep", Case(library, place, 1.0)]
            name = f"{'ours' if library == _OURS else 'the original'}, {place} form"
            if one.processes:
                part.know(f"{name}: CPU of its processes until they are ready", f"{one.start_cpu_ms:.0f} ms")
                memory = f"{one.own_mb:.1f} MB of their own, {one.resident_mb:.1f} MB resident"
                part.know(f"{name}: its processes", f"{one.processes}; {memory}")


def _cost(folder: str, work: str, case: Case, seconds: float) -> Cost:
    """Watch a job that sleeps: after a while to settle, all that it and others for it use is the monitor's."""
    with _job(folder, work, case, seconds) as process:
        told = _hear(process)
        start_cpu = _cpu_s(process.pid, told["beside"])
        time.sleep(max(2.0, 1.3 * case.interval_s))
        began, before = time.perf_counter(), _cpu_s(process.pid, told["beside"])
        time.sleep(seconds)
        percent = 100 * (_cpu_s(process.pid, told["beside"]) - before) / (time.perf_counter() - began)
        others = _others(process.pid, told["beside"])
        memory = [_memory_mb(pid) for pid in others]
        process.stdin.close()
        _hear(process)
    own, resident = (sum(found) for found in zip((0.0, 0.0), *memory, strict=True))
    return Cost(percent, start_cpu * 1000, own, resident, len(others))


def _others(pid: int, beside: list[int]) -> set[int]:
    """Return all that hangs below a process, and what it has started to be nobody's child."""
    found = set(beside)
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:  # a thread that has just ended
            found |= {int(word) for word in file.read().split()}
    return found.union(*(_others(child, []) for child in found))


def _cpu_s(pid: int, beside: list[int]) -> float:
    """Return what all threads of a process and of the others have run, but for its main thread, which sleeps."""
    ran = 0
    for one in (pid, *_others(pid, beside)):
        for path in glob.glob(f"/proc/{one}/task/*/schedstat"):
            if path != f"/proc/{pid}/task/{pid}/schedstat":
                with contextlib.suppress(OSError), open(path) as file:
                    ran += int(file.read().split()[0])
    return ran / 1e9


def _memory_mb(pid: int) -> tuple[float, float]:
    """Return what a process has for itself alone, and what of it is in memory, in MB."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in file.read().splitlines()[1:]}
    return (sizes["Private_Clean"] + sizes["Private_Dirty"]) * 1024 / 1e6, sizes["Rss"] * 1024 / 1e6


def _stops(part: Part, libraries: list[str], folder: str) -> None:
    """Start and stop one after another."""
    for place in _PLACES:
        took = {}
        for library in libraries:
            with _job(folder, "stops", Case(library, place, 5.0), _STOP_TIMES if library == _OURS else 3) as process:
                _hear(process)
                took[library] = _hear(process)
        worst = max(took[_OURS]["stop_ms"])
        middle = {library: statistics.median(found["stop_ms"]) for library, found in took.items()}
        other = f" (the original {middle[_ORIGINAL]:.0f} ms)" if _ORIGINAL in took else ""
        part.judge(
            f"stop(), {place} form, of an interval of 5 s",
            f"{middle[_OURS]:.1f} ms, worst {worst:.1f} ms of {_STOP_TIMES}{other}", "< 50 ms", worst < 50,
        )  # fmt: skip
        for library, found in took.items():
            first, *again = found["start_ms"]
            name = "ours" if library == _OURS else "the original"
            part.know(f"start(), {place} form, {name}", f"{first:.0f} ms, then {statistics.median(again):.1f} ms")
