"""What the console in a run's own process costs it: CPU of its thread, and what it adds to a start and to a print."""

import os
import pty
import sys

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles

_SPIN_S = 5
_CODE = """
import os, sys, time
mode, bars = sys.argv[1] == "on", int(sys.argv[2])
begun = time.perf_counter()
import vedette
run = vedette.init(console=mode)
started = time.perf_counter() - begun
journal = run._journal
for n in range(bars):
    attrs = {"total": 100, "msg": [f"bar {n}"]}
    journal.tell(f"{run.id}/p-{n}", state="running", kind="progress", parent=run.id, attrs=attrs, at=3.0)
time.sleep(1.5)
all_s, own_s = time.process_time(), time.thread_time()
end = time.perf_counter() + float(sys.argv[3])
while time.perf_counter() < end:
    sum(range(1000))
beside = time.process_time() - all_s - (time.thread_time() - own_s)
own_s = time.thread_time()
for n in range(2000):
    print("step", n)
printed = (time.thread_time() - own_s) / 2000
sys.stderr.write(f"\\nRESULT {started} {beside / float(sys.argv[3])} {printed}\\n")
"""


def measure(*, quick: bool, times: int | None) -> Part:
    """Run a busy program on a terminal, with and without, in turn."""
    rounds = times or (2 if quick else 10)
    part = Part("the console in a run's own process, on a terminal")
    took: dict[tuple[str, str], list[list[float]]] = {}
    with fresh_home(hub=True):
        for _ in range(rounds):
            for case in (("off", "0"), ("on", "0"), ("on", "8")):
                took.setdefault(case, []).append(_run(*case))

    def figure(case: tuple[str, str], place: int, scale: float, unit: str) -> str:
        return quartiles([row[place] * scale for row in took[case]]).show(".2f", unit)

    idle = quartiles([row[1] * 100 for row in took["on", "0"]])
    busy = quartiles([row[1] * 100 for row in took["on", "8"]])
    part.most("CPU of its thread with nothing to show, of a core", idle.median, 1, idle.show(".2f", " %"), " %")
    part.most("with 8 bars", busy.median, 1, busy.show(".2f", " %"), " %")
    part.know("`import vedette` and `init()` without it", figure(("off", "0"), 0, 1e3, " ms"))
    part.know("with it", figure(("on", "0"), 0, 1e3, " ms"))
    part.know("a `print` of two words without it, CPU of the caller", figure(("off", "0"), 2, 1e6, " us"))
    part.know("with it and 8 bars below", figure(("on", "8"), 2, 1e6, " us"))
    part.note(f"{rounds} programs of each kind, in turn, that hold the GIL for {_SPIN_S} s on a pseudo-terminal.")
    return part


def _run(mode: str, bars: str) -> list[float]:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", _CODE, mode, bars, str(_SPIN_S)])
    data = b""
    try:
        while more := os.read(terminal, 1 << 16):
            data += more
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    [line] = [line for line in data.decode(errors="replace").splitlines() if line.startswith("RESULT")]
    return [float(word) for word in line.split()[1:]]
