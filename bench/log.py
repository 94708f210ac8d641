"""What a call of `run.log` costs the program, against an empty call, cheaper promises, and other libraries."""

import os
import subprocess
import tempfile
from collections import defaultdict

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles, ratios

_PYTHON = os.path.join(".peers", "bin", "python")
_PEERS = ("sacred", "trackio", "tensorboardx")
_PEERS_EVERY = 4  # rounds
# Calls in a round: short ones, so that all cases see the same weather.
_CALLS = defaultdict(lambda: 1000) | {
    "trackio-1": 200, "trackio-20": 100, "tensorboardx-1": 200, "tensorboardx-20": 20, "sacred-20": 200,
}  # fmt: skip


class Caller:
    """A process that runs rounds of one library; see `callers`."""

    def __init__(self, library: str, folder: str) -> None:
        place = os.path.join(folder, library)
        os.mkdir(place)
        offline = {
            "TRACKIO_DIR": place, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
        }  # fmt: skip
        self.library = library
        self._process = subprocess.Popen(
            [_PYTHON if os.path.exists(_PYTHON) else os.path.join(".venv", "bin", "python"),
             "-m", "bench.callers", library, place],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | offline,
        )  # fmt: skip
        self.cases = self._answer().split()

    def run(self, case: str, calls: int) -> int:
        """Run one round; return the nanoseconds of the caller's CPU."""
        self._process.stdin.write(f"{case} {calls}\n")
        self._process.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.library} has died; is it in .peers? remove .peers and try again")
        return line

    def end(self) -> None:
        """End it, in good order if it can."""
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def measure(*, quick: bool, times: int | None) -> Part:
    """Alternate rounds of all cases, and compare."""
    rounds = times or (60 if quick else 320)
    part = Part("what a call costs the program, CPU of the calling thread")
    libraries = ("vedette", *(_PEERS if os.path.exists(_PYTHON) else ()))
    with fresh_home(hub=True), tempfile.TemporaryDirectory(prefix="vdb-") as folder:
        callers = [Caller(library, folder) for library in libraries]
        try:
            took, segments = _alternate(callers, rounds)
        finally:
            for caller in callers:
                caller.end()
    _against_floor(part, took)
    for peer in _PEERS if len(libraries) > 1 else ():
        _against_peer(part, took, peer)
    cases = ("empty", "append", "json", "vedette")
    names = ("an empty call", "`list.append` (lost on kill -9)", "JSON line by `os.write`", "`run.log`")
    for case, name in zip(cases, names, strict=True):
        one, twenty = (quartiles(took[f"{case}-{n}"]).median for n in (1, 20))
        part.know(f"{name}, 1 / 20 metrics", f"{one:.0f} / {twenty:.0f} ns")
    part.know("a handle", f"{quartiles(took['handle']).median:.0f} ns")
    part.note(
        f"{rounds} rounds of 1000 calls of each case of ours, in turn; peers in every {_PEERS_EVERY}th round."
        f" {segments} segments were begun on the way; the hub was alive."
    )
    part.note(
        "`over all calls` is the ratio of the sums, so it has the rolls in it; goals are judged by it."
        " All rows include the loop, the call and the dict literal."
    )
    part.note(
        "Peers run locally, without network, in processes of their own that take turns with ours; what their"
        " threads do does not count. Sacred and trackio lose on kill -9 what is in their queues."
    )
    return part


def _alternate(callers: list[Caller], rounds: int) -> tuple[dict[str, list[float]], int]:
    took: dict[str, list[float]] = defaultdict(list)
    ours, *peers = callers
    turns = [(ours, case) for case in ours.cases if case != "segments"]
    for caller in callers:  # warm up
        for case in caller.cases:
            caller.run(case, 20)
    for number in range(rounds):
        for caller, case in turns[number % len(turns) :] + turns[: number % len(turns)]:
            took[case].append(caller.run(case, _CALLS[case]) / _CALLS[case])
        if number % _PEERS_EVERY == 0:
            for n in (1, 20):
                took[f"near-{n}"].append(took[f"vedette-{n}"][-1])
                for caller in peers:
                    case = f"{caller.library}-{n}"
                    took[case].append(caller.run(case, _CALLS[case]) / _CALLS[case])
    return took, ours.run("segments", 1)


def _against_floor(part: Part, took: dict[str, list[float]]) -> None:
    for what, case, empty, limit in (
        ("`run.log`, 1 metric, against an empty call with the same dict", "vedette-1", "empty-1", 12),
        ("`run.log`, 20 metrics, against an empty call with the same dict", "vedette-20", "empty-20", 5),
        ("a handle, `loss(x, step)`, against an empty call with a dict of 1 metric", "handle", "empty-1", 7),
    ):
        over_all = sum(took[case]) / sum(took[empty])
        each = ratios(took[case], took[empty])
        part.most(what, over_all, limit, f"{over_all:.2f}x over all calls; by round {each.show('.1f', 'x')}", "x")
    for what, case in (("1 metric", "1"), ("20 metrics", "20")):
        for floor, name in (("append", "a lossy `list.append`"), ("json", "a JSON line by `os.write`")):
            each = ratios(took[f"vedette-{case}"], took[f"{floor}-{case}"])
            part.know(f"`run.log`, {what}, against {name}", each.show(".2f", "x"))


def _against_peer(part: Part, took: dict[str, list[float]], peer: str) -> None:
    for n in (1, 20):
        faster = ratios(took[f"{peer}-{n}"], took[f"near-{n}"])
        what = f"{peer}, {n} metric{'s' if n > 1 else ''}: its CPU over ours"
        if (peer, n) == ("sacred", 1):
            part.know(what, faster.show(".1f", "x"))
        else:
            part.least(what, faster.median, 5, faster.show(".1f", "x"), "x")
