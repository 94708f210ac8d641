"""Removing many runs for good while others are being written: the hub's memory, the space, and what ingest feels."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bench.ingest import write_spool
from bench.place import fresh_home
from bench.report import Part
from bench.spread import Spread, quartiles, ratios
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client.current import init
from vedette.home import Home
from vedette.hub.log import Log
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.sweeper import Sweeper
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.settings import Keep, Settings
from vedette.store import Batch, Columns, SpanQuery
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader

_SERIES, _POINTS, _EVENTS = 10, 10_000, 50  # of each run
_WALKS = 16  # different ones, which the runs share
_HZ = 500  # records a second that the living run logs, of 20 metrics
_MEMORY = 300e6


def measure(*, quick: bool, times: int | None) -> Part:
    """Purge runs under a hub that others log to, and look at memory, file and answers meanwhile."""
    runs = times or (100 if quick else 1000)
    part = Part(f"removing {runs} runs of {_SERIES * _POINTS} points for good while others are written")
    with fresh_home(hub=True) as home:
        found = _remove_under_load(home, runs)
    part.most("memory of the hub at its highest", found.memory, _MEMORY / 1e6, f"{found.memory:.0f} MB", " MB")
    part.know("the same before anything was removed", f"{found.memory_before:.0f} MB")
    share = found.after / found.before
    figure = f"{found.before / 1e6:.0f} MB before, {found.after / 1e6:.1f} MB after, the new points among them"
    part.judge("space given back", figure, "< 5 % is left", share < 0.05)
    part.most("write-ahead log at its longest", found.wal / 1e6, 64, f"{found.wal / 1e6:.1f} MB", " MB")
    part.know("how long it took", f"{found.took:.1f} s ({runs * _SERIES * _POINTS / found.took / 1e6:.1f} M points/s)")
    part.judge("points that were logged meanwhile and are not there", f"{found.lost} of {found.logged}", "0",
               found.lost == 0)  # fmt: skip
    ratio = found.during.median / found.quiet.median
    figure = f"{ratio:.2f}x: {found.during.show('.1f', ' ms')} against {found.quiet.show('.1f', ' ms')}"
    part.most("an answer of the hub to Seal while it removes, against without", ratio, 1.5, figure, "x")
    cpu = _cpu_of_ingest(3 if quick else 10, 20_000)
    part.most("CPU of ingest while it removes, against without", cpu.median, 1.1, cpu.show(".3f", "x"), "x")
    part.note(
        f"The store: {_SERIES} series of {_POINTS} points (walks at float32 precision) and {_EVENTS} lines in each run,"
        f" kept as the hub keeps them. A process logs {_HZ} records of 20 metrics a second all the while; each answer"
        " to Seal has what it logged since the last. File and log are sizes on disk; memory is the kernel's VmHWM."
    )
    part.note(
        "CPU of ingest: rounds of 20000 records of 20 metrics from the spool to the store, in pairs, with a step of"
        " removing between any two turns and without; the steps themselves do not count."
    )
    return part


class _Found(NamedTuple):
    memory: float
    memory_before: float
    before: int
    after: int
    wal: int
    took: float
    logged: int
    lost: int
    quiet: Spread
    during: Spread


def _remove_under_load(home: Home, runs: int) -> _Found:
    store = SqliteStore(home.store)
    ids = [f"old{number:06d}" for number in range(runs)]
    fill(store, ids)
    store.close()
    before = os.stat(home.store).st_size
    with _living_run() as name:
        ask(home, wire.Seal())
        pid = home.hub_pid()
        quiet = [_answer_ms(home) for _ in range(100)]
        memory_before = _peak_mb(pid)
        begun = time.monotonic()
        for at in range(0, runs, 1000):
            ask(home, wire.Edit(ids[at : at + 1000], state="purged"))
        during, wal = [], 0
        while _sweeping(home):
            during.append(_answer_ms(home))
            wal = max(wal, _size(home.store + "-wal"))
        took = time.monotonic() - begun
        quiet += [_answer_ms(home) for _ in range(100)]
        memory = _peak_mb(pid)
    logged, lost = _count(home, name)
    assert home.hub_pid() == pid, "the hub has died on the way"
    return _Found(memory, memory_before, before, _size(home.store), wal, took, logged, lost, quartiles(quiet),
                  quartiles(during))  # fmt: skip


def fill(store: SqliteStore, ids: list[str]) -> None:
    """Keep runs with points and lines."""
    chance = np.random.default_rng(1)
    walks = []
    for _ in range(_WALKS):
        walk = np.cumsum(chance.normal(scale=0.01, size=(_POINTS, _SERIES)), axis=0).astype(np.float32)
        walks.append([tuple(row) for row in walk.astype(float).tolist()])
    names = tuple(f"train/metric{n}" for n in range(_SERIES))
    offsets, steps = list(range(1, _POINTS + 1)), list(range(_POINTS))
    pauses = np.cumsum(chance.normal(0.1, 0.005, size=_POINTS))
    t0 = 1_790_000_000 * 10**9
    times = (t0 + (pauses * 1e9).astype(np.int64)).tolist()
    for number, run in enumerate(ids):
        origin = Origin("o-" + run, span=run, process=f"{run}/1/p")
        said = [
            Span(run, t0, "created", kind="run", name=run, attrs={"project": "bench", "config": {"lr": 0.1}}),
            Span(f"{run}/1", t0, "running", kind="try", parent=run, attrs={"n": 1}),
            *(Event(run, t0, "log", 20, f"epoch {n} of {run} took {n * 0.37:.2f} s") for n in range(_EVENTS)),
            Span(f"{run}/1", t0 + 10**9, "done"),
        ]
        columns = Columns(run, {}, names, offsets, times, steps, walks[number % _WALKS])
        store.keep(
            [
                Batch(origin, LANE_FACTS, len(said), facts=list(enumerate(said, 1))),
                Batch(origin, LANE_SAMPLES, _POINTS, columns=[columns]),
            ]
        )


@contextlib.contextmanager
def _living_run() -> Iterator[str]:
    """Have a process log at a steady pace until the block is over."""
    name = "living"
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(write_end)
            os.set_blocking(read_end, False)
            run = init(project="bench", name=name)
            begun, step = time.monotonic(), 0
            while True:
                while step < (time.monotonic() - begun) * _HZ:
                    run.log({f"m{n}": float(step + n) for n in range(20)}, step)
                    step += 1
                with contextlib.suppress(BlockingIOError):
                    if os.read(read_end, 1) == b"":
                        break
                time.sleep(0.005)
            run.summary["records"] = step
            run.finish()
        finally:
            os._exit(0)
    os.close(read_end)
    try:
        yield name
    finally:
        os.close(write_end)
        os.waitpid(pid, 0)


def _answer_ms(home: Home) -> float:
    time.sleep(0.02)
    begun = time.perf_counter()
    ask(home, wire.Seal())
    return (time.perf_counter() - begun) * 1e3


def _sweeping(home: Home) -> bool:
    health = ask(home, wire.AskHealth())
    assert isinstance(health, wire.Health)
    assert not health.sweep_trouble, health.sweep_trouble
    return health.sweeping


def _count(home: Home, name: str) -> tuple[int, int]:
    ask(home, wire.Seal())
    store = open_reader(home.store)
    (row,) = store.spans(SpanQuery(kind="run", name=name))
    logged = int(row.attrs["summary.records"]) * 20
    kept = sum(series.count for series in store.series([row.id]))
    store.close()
    return logged, logged - kept


def _peak_mb(pid: int | None) -> float:
    with open(f"/proc/{pid}/status") as file:
        (line,) = [line for line in file if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def _size(path: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path).st_size
    return 0


def _cpu_of_ingest(pairs: int, records: int) -> Spread:
    """Return the ratio of the CPU that turns take with steps of removing between them, to that without."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * pairs):
        removing = bool(number % 2)
        with fresh_home(hub=False) as home:
            store = SqliteStore(home.store)
            ids = [f"old{n:06d}" for n in range(10)]
            fill(store, ids)
            write_spool(20, records)
            keeper = Keeper(home, store, Settings())
            sweeper = Sweeper(home, store, Log(home.log), Keep())
            if removing:
                keeper.own.say([Span(run, 1, "purged", by="user") for run in ids])
            spent = 0.0
            while set(os.listdir(home.spool)) - keeper.own.names:
                begun = time.process_time()
                keeper.turn()
                spent += time.process_time() - begun
                if removing:
                    sweeper._resume_at = 0.0
                    sweeper.sweep(lambda _: None, set)
            took[removing].append(spent)
            keeper.close()
    return ratios(took[True], took[False])
