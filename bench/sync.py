"""How fast points go from one home into another, and out of one into a file and back, by CPU."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette.home import Home
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.takein import TakeIn
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query.table import write_parquet
from vedette.settings import Settings
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_export import write_archive
from vedette.store.sqlite_file import open_reader

_METRICS = 20
_RUNS = 10
_T = 1_800_000_000 * 10**9


def measure(*, quick: bool, times: int | None) -> Part:
    """Fill a store with runs, take it into an empty home, export it, and take in what was exported."""
    rounds = times or (1 if quick else 3)
    points = 1_000_000 if quick else 10_000_000
    part = Part("sync and export, CPU of the hub or the command")
    rates: dict[str, list[float]] = {}
    sizes: dict[str, float] = {}
    for _ in range(rounds):
        with fresh_home(hub=False) as home:
            _round(home, points, rates, sizes)
    for what, values in rates.items():
        part.know(f"{what}, {points / 1e6:.0f} M points", quartiles(values).show(".2f", " M points per CPU-second"))
    for what, value in sizes.items():
        part.know(f"{what}: bytes per point", f"{value:.2f} bytes")
    part.note(
        f"{rounds} rounds; {_RUNS} runs of {_METRICS} metrics, walks at float32 precision. Sync unpacks and checks"
        " each chunk and copies it; a second one finds that all is there. Export cuts and compresses all points anew,"
        " so that the bytes depend on the content alone."
    )
    return part


def _round(home: Home, points: int, rates: dict[str, list[float]], sizes: dict[str, float]) -> None:
    far, archive, parquet = (os.path.join(home.root, name) for name in ("far.db", "a.vedette", "a.parquet"))
    runs = _fill(far, points)
    home.prepare()

    def note(what: str, work: Callable[[], object]) -> None:
        begun = time.process_time()
        work()
        rates.setdefault(what, []).append(points / 1e6 / (time.process_time() - begun))

    note("sync of a store into an empty home", lambda: _take(home, far, points))
    note("the same again, when all is there", lambda: _take(home, far, points))
    with closing(open_reader(home.store)) as reader:
        note("export as an archive", lambda: write_archive(reader, runs, archive, lambda _: None))
        note("export as Parquet", lambda: write_parquet(reader, runs, parquet, "[]"))
    os.unlink(home.store)
    note("sync of an archive into an empty home", lambda: _take(home, archive, points))
    for what, path in (("an archive", archive), ("Parquet", parquet)):
        sizes[what] = os.stat(path).st_size / points


def _take(home: Home, path: str, points: int) -> None:
    keeper = Keeper(home, SqliteStore(home.store), Settings())
    for _ in TakeIn(keeper, path).steps():
        pass
    ask = "SELECT sum(count) FROM axes JOIN chunks ON chunks.axis = axes.id"
    kept = keeper.store.connection.execute(ask).fetchone()[0]
    assert kept == points, f"{points} points should be there, and there are {kept}"
    keeper.close()


def _fill(path: str, points: int) -> list[str]:
    chance = np.random.default_rng(1)
    rows = points // _RUNS // _METRICS
    names = tuple(f"train/metric{n}" for n in range(_METRICS))
    runs = [f"run{number}" for number in range(_RUNS)]
    with closing(SqliteStore(path)) as store:
        for run in runs:
            who = Origin(f"o-{run}", span=run)
            walks = np.cumsum(chance.normal(scale=0.01, size=(rows, _METRICS)), axis=0).astype(np.float32).astype(float)
            t = _T + np.cumsum(chance.normal(1e8, 5e6, size=rows)).astype(int)
            store.keep([Batch(who, LANE_FACTS, 1, facts=[(1, Span(run, _T, "running", kind="run", name=run))])])
            for at in range(0, rows, 4096):
                part = slice(at, at + 4096)
                n = [(row + 1) * 300 for row in range(rows)[part]]
                columns = Columns(
                    run, {}, names, n, t[part].tolist(), list(range(rows)[part]), list(map(tuple, walks[part].tolist()))
                )
                store.keep([Batch(who, LANE_SAMPLES, n[-1], columns=[columns])])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return runs
