"""What a command costs that prints a line or two, its CPU against a Python that does nothing; and a hub's start."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette.home import Home
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore

_RUNS = 100
_T = 1_780_000_000 * 10**9
_SECOND = 10**9
_COMMAND = os.path.join(os.path.dirname(sys.executable), "vedette")
_NOTHING = "python -c pass"
_LIST = f"vedette ls, {_RUNS} runs"
# what is measured: (its words, at most so many times the CPU of nothing)
_CASES = {
    _NOTHING: ([sys.executable, "-c", "pass"], None),
    "vedette --version": ([_COMMAND, "--version"], 5.0),
    _LIST: ([_COMMAND, "ls", "--limit", "0"], 8.0),
    "TAB after `vedette show run-04`": ([_COMMAND], 8.0),
    "vedette --help": ([_COMMAND, "--help"], None),
    "vedette ls --json": ([_COMMAND, "ls", "--limit", "0", "--json"], None),
    "vedette show RUN": ([_COMMAND, "show", "run-042"], None),
    "vedette logs RUN": ([_COMMAND, "logs", "run-042"], None),
    "vedette points RUN NAME": ([_COMMAND, "points", "run-042", "loss"], None),
}
_LINE = "vedette show run-04"
_TAB = {
    "_ARGCOMPLETE": "1",
    "_ARGCOMPLETE_IFS": "\n",
    "COMP_LINE": _LINE,
    "COMP_POINT": str(len(_LINE)),
    "COMP_TYPE": "9",
}


def measure(*, quick: bool, times: int | None) -> Part:
    """Start each command in turn, its output in a pipe, and take its CPU from the kernel."""
    rounds = times or (7 if quick else 41)
    part = Part(f"commands, their CPU against that of `{_NOTHING}`")
    took: dict[str, list[float]] = defaultdict(list)
    alone: list[float] = []
    with fresh_home(hub=True) as home:
        _fill(home)
        listing = _CASES[_LIST][0]
        for number in range(rounds + 1):
            began = time.monotonic()
            _check(_LIST, _run(listing, {})[1])
            if number:  # the first round writes bytecode
                alone.append((time.monotonic() - began) * 1e3)
        if home.hub_pid() is not None:
            raise RuntimeError("a list of runs has started a hub, though nothing waits unread")
        with _hub(home):
            for number in range(rounds + 1):
                for what, (words, _) in _CASES.items():
                    cpu_s, said = _run(words, _TAB if what.startswith("TAB") else {})
                    if number:
                        took[what].append(cpu_s * 1e3)
                    elif words[0] == _COMMAND:
                        _check(what, said)
    for _ in range(rounds // 4 + 1):
        took["hub"].append(_start_hub() * 1e3)
    nothing = quartiles(took[_NOTHING])
    part.know(f"`{_NOTHING}`", nothing.show(".1f", " ms"))
    for what, (_, limit) in list(_CASES.items())[1:]:
        spread = quartiles(took[what])
        ratio = spread.median / nothing.median
        name, figure = what if "`" in what else f"`{what}`", f"{ratio:.2f}x, {spread.show('.1f', ' ms')}"
        if limit is None:
            part.know(name, figure)
        else:
            part.most(name, ratio, limit, figure, "x")
    part.know(
        "`vedette ls`, where no hub runs and nothing waits unread: wall time", quartiles(alone).show(".1f", " ms")
    )
    part.know("a hub, from its start until it greets, in an empty home", quartiles(took["hub"]).show(".1f", " ms"))
    part.note(
        f"{rounds} rounds in turn; user and system time of the process itself, by `wait4`; its output is a pipe."
        f" Bytecode is there, the hub lives, and the home has {_RUNS} runs, each with 30 attributes, two series and ten"
        " lines. A ratio is that of the medians. The hub's CPU is that of its threads when its first byte has come."
    )
    return part


def _run(words: list[str], more: dict[str, str]) -> tuple[float, str]:
    """Run a command, its output in a pipe; return its CPU in seconds, and what it said."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | more
    ours, theirs = os.pipe()
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, theirs, 1)]
    if more:
        actions.append((os.POSIX_SPAWN_DUP2, theirs, 8))  # where a shell expects completions
    pid = os.posix_spawn(words[0], words, environ, file_actions=actions)
    os.close(theirs)
    with open(ours) as file:
        said = file.read()
    _, status, used = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, said


def _start_hub() -> float:
    """Start a hub; return its CPU in seconds when it has greeted."""
    with fresh_home(hub=True) as home, _hub(home) as cpu_s:
        return cpu_s


@contextlib.contextmanager
def _hub(home: Home) -> Iterator[float]:
    """Have a hub run; yield its CPU in seconds when it has greeted."""
    environ = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    hub = subprocess.Popen([sys.executable, "-P", "-m", "vedette", "hub", "--quiet"], env=environ)
    try:
        while not _greets(home):
            time.sleep(0.003)
        tasks = f"/proc/{hub.pid}/task"
        yield sum(_ran_ns(f"{tasks}/{name}/schedstat") for name in os.listdir(tasks)) / 1e9
    finally:
        hub.kill()
        hub.wait()


def _greets(home: Home) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
        peer.connect(home.socket)
        return bool(peer.recv(1))
    return False


def _ran_ns(path: str) -> int:
    with open(path) as file:
        return int(file.read().split()[0])


def _check(what: str, said: str) -> None:
    """See that a command did what is measured."""
    wanted = 10 if what.startswith("TAB") else _RUNS if " ls" in what else 0
    if not said or said.count("run-0") < wanted:
        raise RuntimeError(f"{what} says {said[:200]!r}")


def _fill(home: Home) -> None:
    store = SqliteStore(home.store)
    told = {f"config.model.{name}": 1.5 for name in "abcdefgh"} | {
        "project": "bench", "host": "camp", "script": "train.py", "argv": ["python", "train.py"], "cwd": "/home/u/work",
        "python": "3.11.7", "os": "Linux-6.18.44-x86_64-with-glibc2.36", "capture": "done", "memory_bytes": 25276518400,
        "cpu.count": 2, "cpu.model": "a processor", "cpu.usable": 2, "env.LANG": "C.UTF-8", "packages.count": 62,
        "packages.digest": "8" * 64, "code.bytes": 1595, "code.digest": "3" * 64, "code.files": 3, "code.left_out": 0,
        "code.root": "/home/u/work", "code.script": "train.py", "git.commit": "a" * 40,
    }  # fmt: skip
    for number in range(_RUNS):
        run, t = f"2pkdafkg{number:06d}", _T + number * 60 * _SECOND
        origin = Origin(f"origin-{number}", host="camp", span=run, process=f"{run}/1/p")
        facts = [
            Span(run, t, "created", kind="run", name=f"run-{number:03d}", attrs=told),
            Span(f"{run}/1", t, "done", kind="try", parent=run, attrs={"n": 1}),
            Span(f"{run}/1/p", t + 30 * _SECOND, "done", kind="process", parent=f"{run}/1", attrs={"host": "camp"}),
            Span(run, t + 30 * _SECOND, "done"),
            *(Event(run, t + line, "output", text=f"line {line}") for line in range(10)),
        ]
        steps = range(100)
        rows = [(1 / (1 + step), step / 100) for step in steps]
        n, at = [step + 1 for step in steps], [t + step * _SECOND for step in steps]
        columns = Columns(run, {}, ("loss", "acc"), n, at, list(steps), rows)
        store.keep([
            Batch(origin, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1))),
            Batch(origin, LANE_SAMPLES, n[-1], columns=[columns]),
        ])  # fmt: skip
    store.close()
