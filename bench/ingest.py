"""How fast the hub takes what was logged from the spool into the store, by its own CPU."""

import os
import time

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette.client.current import init
from vedette.client.run import Run
from vedette.home import Home
from vedette.hub.turn.keeper import Keeper
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore

# metrics in a record: records, goal in points per CPU-second
_CASES = {20: (100_000, 1e6), 1: (300_000, 0.15e6)}


def measure(*, quick: bool, times: int | None) -> Part:
    """Write spools with the real client, then turn a keeper until all is in the store and the spools are gone."""
    rounds = times or (2 if quick else 5)
    part = Part("spool to committed chunks, CPU of the hub")
    rates: dict[int, list[float]] = {metrics: [] for metrics in _CASES}
    for _ in range(rounds):
        for metrics, (records, _goal) in _CASES.items():
            count = records // (5 if quick else 1)
            with fresh_home(hub=False) as home:
                write_spool(metrics, count)
                took = keep_all(home, metrics * count)
            rates[metrics].append(metrics * count / took)
    for metrics, (records, goal) in _CASES.items():
        rate = quartiles([value / 1e6 for value in rates[metrics]])
        what = f"{records // (5 if quick else 1)} records of {metrics} metric{'s' if metrics > 1 else ''}"
        figure = rate.show(".2f", " M points per CPU-second")
        part.least(what, rate.median, goal / 1e6, figure, " M points per CPU-second")
    part.note(
        f"{rounds} rounds. Reading, checksums, decoding, grouping, compression, commits, tidying, flushing and"
        " freeing are all in it: the writer is dead, and the clock stops when its spool is buried."
    )
    return part


def write_spool(metrics: int, records: int) -> None:
    """Log so many records from a process that ends."""
    walks = np.cumsum(np.random.default_rng(1).normal(size=(records, metrics)), axis=0).astype(np.float32)
    rows = walks.astype(float).tolist()
    names = [f"train/metric{n}" for n in range(metrics)]
    pid = os.fork()
    if pid == 0:
        code = 1
        os.environ["VEDETTE_CAPTURE_ENABLE"] = "false"  # it would go on in a home that may be moved by then
        try:
            _log(init(project="bench"), names, rows)
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the writer of a spool has failed")


def _log(run: Run, names: list[str], rows: list[list[float]]) -> None:
    for step, row in enumerate(rows):
        run.log(dict(zip(names, row, strict=True)), step)
    run.finish()


def keep_all(home: Home, points: int) -> float:
    """Be the hub until nothing is left; return the seconds of CPU that it took."""
    keeper = Keeper(home, SqliteStore(home.store), Settings())
    begin = time.process_time()
    while set(os.listdir(home.spool)) - keeper.own.names:
        keeper.turn()
    took = time.process_time() - begin
    kept = keeper.store.connection.execute("SELECT sum(count) FROM series").fetchone()[0]
    keeper.close()
    if kept != points:
        raise AssertionError(f"{points} points were logged, and {kept} are in the store")
    return took
