"""What a log record and a printed line cost the program, through us and without us."""

import json
import os
import subprocess
import sys
from collections import defaultdict

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles, ratios

_CALLS = 1000
_CASES = {  # name: (through us, how `logging` is set up)
    "ours": (True, "none"),
    "ours-handler": (True, "devnull"),
    "null": (False, "null"),
    "handler": (False, "devnull"),
}
_WORKER = """
import json, logging, sys, time
through, setup = sys.argv[1] == "True", sys.argv[2]
sys.stdout, out = open("/dev/null", "w"), sys.stdout
if through:
    import vedette
    vedette.init(name="bench")
log = logging.getLogger("bench")
if setup == "null":
    log.addHandler(logging.NullHandler())
    log.setLevel(logging.INFO)
elif setup == "devnull":
    log.addHandler(logging.StreamHandler(open("/dev/null", "w")))
    log.setLevel(logging.INFO)
def info(calls):
    for number in range(calls):
        log.info("epoch %d: loss %s", number, 0.5)
def prints(calls):
    for number in range(calls):
        print("epoch", number)
def below(calls):
    for number in range(calls):
        log.debug("epoch %d", number)
for line in sys.stdin:
    case, calls = line.split()
    act, calls = {"info": info, "print": prints, "debug": below}[case], int(calls)
    begun = time.thread_time_ns()
    act(calls)
    out.write(f"{time.thread_time_ns() - begun}\\n")
    out.flush()
"""


class _Worker:
    def __init__(self, through: bool, setup: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(through), setup],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ),
        )  # fmt: skip

    def run(self, case: str, calls: int = _CALLS) -> float:
        self._process.stdin.write(f"{case} {calls}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline()) / calls / 1000

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


def measure(*, quick: bool, times: int | None) -> Part:
    """Alternate rounds of all cases, and compare."""
    rounds = times or (30 if quick else 200)
    part = Part("what a log record and a printed line cost the program, CPU of the calling thread")
    took: dict[str, list[float]] = defaultdict(list)
    with fresh_home(hub=True):
        workers = {name: _Worker(*how) for name, how in _CASES.items()}
        for number in range(rounds + 2):
            for name, worker in workers.items():
                for case in ("info", "print", "debug"):
                    us = worker.run(case)
                    if number >= 2:  # the first are to warm up
                        took[f"{name}-{case}"].append(us)
        for worker in workers.values():
            worker.end()
    for what, case in (
        ("`logging.info` through us, no handler", "ours-info"),
        ("`logging.info` through us, and a StreamHandler to /dev/null", "ours-handler-info"),
    ):
        mean = sum(took[case]) / len(took[case])
        shown = f"{mean:.1f} us over all calls; by round {quartiles(took[case]).show('.1f', ' us')}"
        part.most(what, mean, 20, shown, " us")
    for what, case in (
        ("plain `logging.info`, a NullHandler", "null-info"),
        ("plain `logging.info`, a StreamHandler to /dev/null", "handler-info"),
        ("`print` of a line through us", "ours-print"),
        ("plain `print` of a line", "null-print"),
    ):
        part.know(what, quartiles(took[case]).show(".2f", " us"))
    part.know("`print` through us against plain", ratios(took["ours-print"], took["null-print"]).show(".1f", "x"))
    part.know("`log.debug` below the level: through us / plain", " / ".join(
        quartiles(took[f"{name}-debug"]).show(".2f", " us") for name in ("ours", "null")))  # fmt: skip
    part.note(
        f"{rounds} rounds of {_CALLS} calls of each case, in turn; the hub was alive. Each record and each line is on"
        " disk, safe from kill -9, when the call returns."
    )
    part.note("The original of the monitor that this stands in for takes 566 us for one `logging.info`.")
    return part
