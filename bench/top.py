"""What `vedette top` costs while it is open, on a real terminal, with many runs that live and very many that do not."""

import os
import pty
import subprocess
import sys
import threading
import time

from bench.place import fresh_home
from bench.report import Part
from vedette.client.run import About, Run
from vedette.home import Home
from vedette.model import LANE_FACTS, Event, Origin, Span
from vedette.settings import load
from vedette.store import Batch
from vedette.store.sqlite import SqliteStore

_LIVING, _ENDED = 100, 10_000
_T = 1_790_000_000 * 10**9
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(*, quick: bool, times: int | None) -> Part:
    """Fill a home, let runs live in it, open the screen in a terminal of 160 x 50, and read its CPU from the kernel."""
    seconds = times or (10 if quick else 30)
    part = Part("`vedette top` while it is open")
    with fresh_home(hub=True) as home:
        _fill(home)
        crowd = subprocess.Popen([sys.executable, "-m", "bench.top", "crowd", str(_LIVING)], stdout=subprocess.PIPE)
        try:
            assert crowd.stdout is not None
            crowd.stdout.readline()
            for what, options in (("", []), (" and 200 that ended", ["--all"])):
                share, cells = _watch(seconds, options)
                part.judge(f"{_LIVING} living runs{what}: CPU", f"{share:.1f} %", "< 15 %", share < 15)
                part.know(f"{_LIVING} living runs{what}: written to the terminal", f"{cells / 1e3:.1f} kB/s")
        finally:
            crowd.kill()
            crowd.communicate()
    part.note(
        f"{seconds} s each, of one core, after 6 s to settle; {_ENDED} runs in the store have ended. Each living one"
        " logs two metrics ten times a second, says how far it is and a line every second, and is measured each second."
    )
    return part


def _watch(seconds: float, options: list[str]) -> tuple[float, float]:
    """Return which share of a core the screen takes, in percent, and the bytes that it draws in a second."""
    leader, follower = pty.openpty()
    environ = {**os.environ, "COLUMNS": "160", "LINES": "50", "TERM": "xterm-256color"}
    shown = subprocess.Popen(
        [sys.executable, "-m", "vedette", "top", *options],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environ,
    )
    os.close(follower)
    drawn = [0]

    def drain() -> None:
        try:
            while data := os.read(leader, 1 << 16):
                drawn[0] += len(data)
        except OSError:
            pass

    threading.Thread(target=drain, daemon=True).start()
    try:
        time.sleep(6)
        before, bytes_before, at = _cpu_s(shown.pid), drawn[0], time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - at
        assert drawn[0] > bytes_before, "nothing was drawn"
        return 100 * (_cpu_s(shown.pid) - before) / took, (drawn[0] - bytes_before) / took
    finally:
        shown.kill()
        shown.wait()
        os.close(leader)


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def _fill(home: Home) -> None:
    store = SqliteStore(home.store)
    for number in range(_ENDED):
        run, t = f"ended{number:05d}", _T + number * 10**9
        origin = Origin("origin-" + run, host="camp", span=run, process=run + "/1/p")
        facts = [
            Span(
                run, t, "created", kind="run", name=f"old-heron-{number}", attrs={"project": "bench", "config.lr": 0.1}
            ),
            Span(run, t + 10**9, "done"),
            Span(run + "/1", t, "running", kind="try", parent=run, attrs={"n": 1}),
            Span(run + "/1", t + 10**9, "done"),
            Span(run + "/1/p", t, "running", kind="process", parent=run + "/1", attrs={"host": "camp", "pid": 7}),
            Span(run + "/1/p", t + 10**9, "done"),
            Span(run + "/p-1", t, "running", kind="progress", parent=run, attrs={"total": 10}, at=10.0),
            Span(run + "/p-1", t + 10**9, "done"),
            Event(run, t, "log", 20, "an old line"),
        ]
        store.keep([Batch(origin, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1)))])
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


def crowd(count: int) -> None:
    """Be so many runs at once, until killed."""
    chosen = load({})
    home = Home.of(chosen)
    about = About("crowd", config={"lr": 0.1})
    runs = [
        Run._begin(home, chosen, about._replace(name=f"busy-otter-{number}"), script="crowd") for number in range(count)
    ]
    bars = [f"{run.id}/p-1" for run in runs]
    for run, bar in zip(runs, bars, strict=True):
        run._journal.begin(bar, "progress", "epoch", run.id, "running", {"total": 100_000})
    print("ready", flush=True)
    step = 0
    while True:
        begun = time.monotonic()
        for number, (run, bar) in enumerate(zip(runs, bars, strict=True)):
            run.log({"loss": 1 / (1 + step + number), "accuracy": step / (step + 10)}, step=step)
            if step % 10 == 0:
                run._journal._write(Span(bar, time.time_ns(), at=float(step)))
                run._journal.event("log", f"step {step}: so far, so good")
        step += 1
        time.sleep(max(0.0, 0.1 - (time.monotonic() - begun)))


if __name__ == "__main__":
    crowd(int(sys.argv[2]))
