"""One library as a program calls it: a process that runs rounds on request, and answers with the CPU they took.

Started by `log` as `python -m bench.callers <library>` in the environment of the peers. It reads lines
`<case> <calls>` and answers each with the nanoseconds of the calling thread's CPU: what a library does in
threads and processes of its own does not count.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from time import thread_time_ns, time_ns

Round = Callable[[int], int]
Log = Callable[..., None]


def round_of_1(log: Log, after: Callable[[], None] = lambda: None) -> Round:
    """Return a round of calls with a dict of one metric."""

    def run(calls: int) -> int:
        value = 0.5
        begin = thread_time_ns()
        for step in range(calls):
            log({"train/loss": value}, step)
        took = thread_time_ns() - begin
        after()
        return took

    return run


def round_of_20(log: Log, after: Callable[[], None] = lambda: None) -> Round:
    """Return a round of calls with a dict of twenty metrics."""

    def run(calls: int) -> int:
        x = 0.5
        begin = thread_time_ns()
        for step in range(calls):
            log(
                {
                    "train/loss": x, "train/acc": x, "val/loss": x, "val/acc": x, "lr": x,
                    "grad/norm": x, "grad/max": x, "param/norm": x, "epoch": x, "throughput": x,
                    "layer0/mean": x, "layer0/std": x, "layer1/mean": x, "layer1/std": x, "layer2/mean": x,
                    "layer2/std": x, "layer3/mean": x, "layer3/std": x, "time/data": x, "time/step": x,
                },
                step,
            )  # fmt: skip
        took = thread_time_ns() - begin
        after()
        return took

    return run


def round_of_scalars(log: Log) -> Round:
    """Return a round of calls `log(name, value, step)`, for libraries that take one number at a time."""

    def run(calls: int) -> int:
        value = 0.5
        begin = thread_time_ns()
        for step in range(calls):
            log("train/loss", value, step)
        return thread_time_ns() - begin

    return run


def round_of_values(log: Log) -> Round:
    """Return a round of calls `log(value, step)`, for a handle."""

    def run(calls: int) -> int:
        value = 0.5
        begin = thread_time_ns()
        for step in range(calls):
            log(value, step)
        return thread_time_ns() - begin

    return run


def one_by_one(log: Log) -> Log:
    """Make a call with a dict out of one that takes a number at a time, as a program has to."""

    def log_all(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            log(name, value, step)

    return log_all


class _Floor:
    """What logging could cost at least, by what it promises: nothing, to lose it, to keep it."""

    def __init__(self, folder: str) -> None:
        self.rows: list[tuple[int, int | None, dict[str, float]]] = []
        self.fd = os.open(os.path.join(folder, "lines.json"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def nothing(self, values: dict[str, float], step: int | None = None) -> None:
        pass

    def append(self, values: dict[str, float], step: int | None = None) -> None:
        self.rows.append((time_ns(), step, values))

    def write_json(self, values: dict[str, float], step: int | None = None) -> None:
        os.write(self.fd, (json.dumps({"t": time_ns(), "step": step, **values}) + "\n").encode())

    def empty(self) -> None:
        os.ftruncate(self.fd, 0)


@contextlib.contextmanager
def vedette(folder: str) -> Iterator[dict[str, Round]]:
    """Offer vedette, and what to compare it with, in one process."""
    import vedette as library

    run = library.init(project="bench")
    floor = _Floor(folder)
    yield {
        "empty-1": round_of_1(floor.nothing),
        "empty-20": round_of_20(floor.nothing),
        "append-1": round_of_1(floor.append, floor.rows.clear),
        "append-20": round_of_20(floor.append, floor.rows.clear),
        "json-1": round_of_1(floor.write_json, floor.empty),
        "json-20": round_of_20(floor.write_json, floor.empty),
        "vedette-1": round_of_1(run.log),
        "vedette-20": round_of_20(run.log),
        "handle": round_of_values(run.series("train/loss")),
        "segments": lambda _calls: run._journal.spool.samples._rolls,
    }
    run.finish()


@contextlib.contextmanager
def trackio(_folder: str) -> Iterator[dict[str, Round]]:
    """Offer trackio, which keeps its rows in a queue and writes them from a thread."""
    import trackio as library

    run = library.init(project="bench", auto_log_cpu=False, auto_log_gpu=False)
    yield {"trackio-1": round_of_1(run.log), "trackio-20": round_of_20(run.log)}
    run.finish()


@contextlib.contextmanager
def tensorboardx(folder: str) -> Iterator[dict[str, Round]]:
    """Offer tensorboardX, which makes its records in the caller and writes them from a thread."""
    from tensorboardX import SummaryWriter

    with SummaryWriter(folder) as writer:
        yield {
            "tensorboardx-1": round_of_scalars(writer.add_scalar),
            "tensorboardx-20": round_of_20(one_by_one(writer.add_scalar)),
        }


@contextlib.contextmanager
def sacred(_folder: str) -> Iterator[dict[str, Round]]:
    """Offer sacred without an observer: its numbers go to a queue in memory."""
    from sacred import SETTINGS, Experiment

    SETTINGS.CAPTURE_MODE = "no"
    experiment = Experiment("bench", interactive=True, save_git_info=False)
    experiment.main(lambda: None)
    run = experiment._create_run()
    run._start_heartbeat()  # it takes the queue away, as in any experiment that runs
    yield {"sacred-1": round_of_scalars(run.log_scalar), "sacred-20": round_of_20(one_by_one(run.log_scalar))}
    run._stop_heartbeat()


LIBRARIES = {"vedette": vedette, "trackio": trackio, "tensorboardx": tensorboardx, "sacred": sacred}


def main() -> None:
    """Answer until there are no more lines."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print to stdout
    sys.stdout = io.StringIO()
    library, folder = sys.argv[1:]
    with LIBRARIES[library](folder) as rounds:
        print(*rounds, file=answers)
        for line in sys.stdin:
            case, calls = line.split()
            print(rounds[case](int(calls)), file=answers)


if __name__ == "__main__":
    main()
