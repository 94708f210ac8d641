"""Writers that number their records, and the check of what is left of them after a power cut."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import vedette
from tests.journeys.disk import Cut, Disk, rebooted
from vedette.home import Home

MARK_EVERY = 20
_MOST = 1 << 20  # records of one writer
_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(vedette.__file__)))

_WRITER = f"""
import mmap, os, sys, time, vedette
from vedette import spool
name, path, per_second, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if size:
    spool._SIZES = (size,)
with open(path, "r+b") as file:
    returned = mmap.mmap(file.fileno(), 0)
run = vedette.init(name=name)
parent, begun = os.getppid(), time.monotonic()
for number in range({_MOST}):
    run.log({{"x": float(number), "y": 3 * number + 1}}, step=number)
    if number % {MARK_EVERY} == 0:
        run.mark(number)
    returned[8 * number : 8 * number + 8] = time.time_ns().to_bytes(8, "little")
    while number % 8 == 0 and time.monotonic() < begun + number / per_second:
        time.sleep(0.001)
        if os.getppid() != parent:
            sys.exit()
"""

# A faulty hub, which deletes committed segments before the disk has the commit.
_HASTY_HUB = """
import sys
from vedette.cli import main
from vedette.hub.turn.keeper import Keeper
def flush(self):
    self._unsynced = False
    for reader in self.readers.values():
        reader.free()
Keeper.flush = flush
sys.exit(main(["hub", "--quiet"]))
"""


class Writer(NamedTuple):
    """A process that logs without end; `returned` has the time at which each call returned, 0 if it has not."""

    name: str
    process: "subprocess.Popen[bytes]"
    returned: "np.ndarray[Any, Any]"

    def logged_by(self, t: int) -> int:
        """Return how many calls had returned at a time."""
        return int(np.count_nonzero((self.returned > 0) & (self.returned <= t)))


class Finding(NamedTuple):
    """What is left of one writer after a cut, compared with what must be left."""

    missing: int  # records and marks from before the horizon that are not there
    wrong: int  # wrong, doubled, disordered or invented records; losses that were not counted
    age_s: float  # the age, at the cut, of the newest record up to which none is missing

    def __str__(self) -> str:
        return f"{self.missing} missing, {self.wrong} wrong, the newest {self.age_s:.2f} s old"


@contextlib.contextmanager
def writing(disk: Disk, paces: dict[str, tuple[int, int]], *, hub: str, **environ: str) -> Iterator[list[Writer]]:
    """Run writers {name: (records a second, segment size or 0)} in the disk's home; `hub`: "real", "hasty", "none"."""
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("VEDETTE_")}
    surroundings |= {"VEDETTE_HOME": disk.home, "PYTHONPATH": _SOURCE, **environ}
    home = Home(disk.home)
    home.prepare()
    lock = home.take_lock() if hub == "none" else None
    running = []
    writers = []
    try:
        if hub == "hasty":
            running.append(subprocess.Popen([sys.executable, "-c", _HASTY_HUB], env=surroundings, cwd="/"))
            _wait(home.hub_pid)
        for name, (per_second, size) in paces.items():
            path = os.path.join(disk.root, name)
            with open(path, "wb") as file:
                file.truncate(8 * _MOST)
            argv = [sys.executable, "-c", _WRITER, name, path, str(per_second), str(size)]
            running.append(subprocess.Popen(argv, env=surroundings, cwd="/"))
            writers.append(Writer(name, running[-1], np.memmap(path, np.int64, "r")))
        for writer in writers:
            _wait(lambda writer=writer: writer.returned[0] > 0)
        if hub == "real":
            _wait(home.hub_pid)
        yield writers
    finally:
        for process in running:
            process.kill()
            process.wait()
        if lock is not None:
            os.close(lock)
        while pid := home.hub_pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _wait(check: Any) -> None:
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline, "it does not begin"
        time.sleep(0.01)


def read_after(disk: Disk, cut: Cut) -> dict[str, Any]:
    """Boot with what is left after a cut: return all that a new hub finds."""
    with disk.after(cut) as home:
        argv = rebooted(disk, sys.executable, os.path.join(_HERE, "survivors.py"))
        environ = {**os.environ, "VEDETTE_HOME": home, "PYTHONPATH": _SOURCE}
        done = subprocess.run(argv, env=environ, cwd="/", capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
    return found


def judge(writer: Writer, cut: Cut, found: dict[str, Any], horizon_s: float) -> Finding:
    """Compare what was found with what was logged; all that is older than the horizon must be there."""
    run = found["runs"].get(writer.name, {"series": {}, "marks": []})
    wanted = writer.logged_by(cut.begun - int(horizon_s * 1e9))
    steps, x = (np.array(part) for part in run["series"].get("x", ([], [])))
    y_steps, y = (np.array(part) for part in run["series"].get("y", ([], [])))
    marks = np.array(run["marks"])
    most = writer.logged_by(cut.done) + 1  # one call may not have returned yet
    wrong = np.count_nonzero(np.diff(steps) <= 0) + np.count_nonzero(np.diff(marks) <= 0)
    wrong += np.count_nonzero(x != steps) + np.count_nonzero(steps >= most) + np.count_nonzero(marks >= most)
    wrong += np.count_nonzero(marks % MARK_EVERY)
    wrong += 0 if np.array_equal(steps, y_steps) and np.array_equal(y, 3 * steps + 1) else 1
    holes = np.count_nonzero(np.diff(steps) > 1) + np.count_nonzero(np.diff(marks) > MARK_EVERY)
    wrong += max(0, int(holes) - found["damaged"])  # each hole is at least one damage
    missing = wanted - np.count_nonzero(steps < wanted)
    missing += -(-wanted // MARK_EVERY) - np.count_nonzero(marks < wanted)
    unbroken = int(np.count_nonzero(steps == np.arange(len(steps))))
    newest = int(writer.returned[unbroken - 1]) if unbroken else int(writer.returned[0])
    # Freezing stops writes at once, and then takes a while: the moment of the cut is its begin.
    return Finding(int(missing), int(wrong), max(0, cut.begun - newest) / 1e9)
