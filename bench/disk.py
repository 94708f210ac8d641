"""How many bytes a point takes on disk."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from vedette.client.current import init
from vedette.home import Home
from vedette.hub.turn.keeper import Keeper
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore

_POINTS = 10_000  # of each series
_SEALED_EVERY = 600  # points: ten a second, sealed once a minute
_STEP_S, _JITTER_S = 0.1, 0.005


def measure(*, quick: bool, times: int | None) -> Part:
    """Log random walks at float32 precision with times that jitter, seal them as a living hub would, and weigh."""
    del times
    part = Part("bytes per point on disk")
    for metrics, runs in ((1, 10 if quick else 40), (20, 2 if quick else 8)):
        with fresh_home(hub=False) as home:
            left, tidy = _weigh(home, metrics, runs)
        what = f"{runs} runs of {metrics} metric{'s' if metrics > 1 else ''} x {_POINTS} points"
        part.most(what, tidy, 5, f"{tidy:.2f} bytes", " bytes")
        part.know(f"{what}: the file as the hub leaves it, its free pages not given back", f"{left:.2f} bytes")
    part.note(
        "Everything in the file counts but for what capture records of each run (some 7 kB): times to the microsecond,"
        " steps, indexes, runs. Walks at float32 precision,"
        f" a step each {_STEP_S * 1e3:.0f} ms with a jitter of {_JITTER_S * 1e3:.0f} ms (standard deviation), sealed"
        f" every {_SEALED_EVERY} points, tidied at the end of the run; then checkpoint and vacuum."
    )
    return part


def _weigh(home: Home, metrics: int, runs: int) -> tuple[float, float]:
    """Return bytes per point as the hub leaves the file, and after a vacuum."""
    keeper = Keeper(home, SqliteStore(home.store), Settings())
    clock = _clock()
    # Without capture: what a run is made of takes the same space however many points it has.
    without = {"VEDETTE_CAPTURE_ENABLE": "false"}
    with patch("vedette.client.run.time_ns", lambda: next(clock)), patch.dict(os.environ, without):
        for number in range(runs):
            _log(keeper, metrics, number)
    points = metrics * runs * _POINTS
    connection = keeper.store.connection
    kept = connection.execute("SELECT sum(count) FROM axes JOIN chunks ON chunks.axis = axes.id").fetchone()[0]
    assert kept == points, f"{points} points were logged, and {kept} are in the store"
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left = os.stat(home.store).st_size / points
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    tidy = os.stat(home.store).st_size / points
    keeper.close()
    return left, tidy


def _log(keeper: Keeper, metrics: int, number: int) -> None:
    chance = np.random.default_rng([metrics, number])
    walks = np.cumsum(chance.normal(scale=0.01, size=(_POINTS, metrics)), axis=0) + chance.normal(size=metrics)
    rows = walks.astype(np.float32).astype(float).tolist()
    names = [f"train/metric{n}" for n in range(metrics)]
    run = init(project="bench", config={"lr": 0.1, "number": number})
    for step, row in enumerate(rows, 1):
        run.log(dict(zip(names, row, strict=True)), step)
        if step % _SEALED_EVERY == 0:
            keeper.turn(seal={run.id})
    origin = run._journal.spool.origin.name
    run.finish()
    keeper.turn(seal={""})
    keeper.store.tidy(origin)


def _clock() -> Iterator[int]:
    """Yield times as a training loop has them, in nanoseconds."""
    chance = np.random.default_rng(1)
    t = 1_800_000_000.0
    while True:
        for pause in chance.normal(_STEP_S, _JITTER_S, size=10_000):
            t += pause
            yield int(t * 1e9)
