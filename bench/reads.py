"""How long a reader takes to get what it asks for, by its CPU."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette.home import Home
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query.series import history, over_runs
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader
from vedette.store.sqlite_read import SqliteReader

_LONG = 100_000  # points of the one long series
_WIDE_RUNS, _WIDE_SERIES = 100, 100
_MANY_RUNS, _MANY_POINTS = 1000, 1000
_T = 1_800_000_000 * 10**9


class Question(NamedTuple):
    """What is asked of the store, and how much must come back."""

    what: str
    limit_ms: int | None
    ask: Callable[[SqliteReader], int]
    expected: int


def measure(*, quick: bool, times: int | None) -> Part:
    """Build one store that holds all three shapes, then ask it each question in turn."""
    rounds = times or (8 if quick else 40)
    part = Part("a question and its answer, CPU of the reader")
    with fresh_home(hub=False) as home:
        build(home)
        many = [f"many{number:04d}" for number in range(_MANY_RUNS)]
        wide = [f"wide{number:04d}" for number in range(_WIDE_RUNS)]
        total = _WIDE_RUNS * _WIDE_SERIES
        questions = [
            Question(f"{_LONG} points of one series", 10, lambda store: len(history(store, "long", "loss")), _LONG),
            Question(
                f"the last values of {total} series, of {_WIDE_RUNS} runs", 20,
                lambda store: sum(len(values) for values in store.last_values(wide).values()), total,
            ),
            Question(
                "the same as whole rows: count, min, max, last, its step and time", None,
                lambda store: len(store.series(wide)), total,
            ),
            Question(
                "the same by plain SQL", None, lambda store: len(store.connection.execute(_LAST_SQL).fetchall()), total
            ),
            Question(
                f"one metric over {_MANY_RUNS} runs x {_MANY_POINTS} points", 200,
                lambda store: sum(len(points) for points in over_runs(store, many, "loss").values()),
                _MANY_RUNS * _MANY_POINTS,
            ),
        ]  # fmt: skip
        took: dict[str, list[float]] = {question.what: [] for question in questions}
        for _ in range(rounds + 1):
            for question in questions:
                took[question.what].append(_timed(home, question) * 1e3)
        size = os.stat(home.store).st_size
    for what, limit_ms, *_ in questions:
        spread = quartiles(took[what][1:])
        if limit_ms is None:
            part.know(what, spread.show(".1f", " ms"))
        else:
            part.judge(what, spread.show(".1f", " ms"), f"< {limit_ms} ms", spread.median < limit_ms)
    part.note(
        f"{rounds} rounds, the store opened anew for each question. All three shapes lie in one store"
        f" ({size / 1e6:.0f} MB, its pages in the kernel's cache), made of full chunks as a finished run leaves them."
    )
    return part


_LAST_SQL = "SELECT span, name, tags, last, last_step, last_t FROM series WHERE span >= 'wide' AND span < 'widf'"


def _timed(home: Home, question: Question) -> float:
    begin = time.process_time()
    store = open_reader(home.store)
    found = question.ask(store)
    store.close()
    took = time.process_time() - begin
    assert found == question.expected, f"{question.what}: {found} instead of {question.expected}"
    return took


def build(home: Home) -> None:
    """Keep the long series, the many series, and the many runs."""
    store = SqliteStore(home.store)
    chance = np.random.default_rng(1)
    _keep(store, chance, "long", ["loss"], _LONG)
    for number in range(_WIDE_RUNS):
        _keep(store, chance, f"wide{number:04d}", [f"metric{n:03d}" for n in range(_WIDE_SERIES)], 10)
    for number in range(_MANY_RUNS):
        _keep(store, chance, f"many{number:04d}", ["loss", "acc"], _MANY_POINTS)
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


def _keep(store: SqliteStore, chance: np.random.Generator, run: str, names: list[str], count: int) -> None:
    walks = np.cumsum(chance.normal(size=(count, len(names))), axis=0).astype(np.float32).astype(float)
    t = _T + np.cumsum(chance.normal(1e8, 5e6, size=count)).astype(np.int64)
    offsets = list(range(40, 40 * (count + 1), 40))
    columns = Columns(
        run, {}, tuple(names), offsets, t.tolist(), list(range(count)), [tuple(r) for r in walks.tolist()]
    )
    origin = Origin("origin-" + run, span=run, process=run + "/1/p")
    facts = [
        (1, Span(run, _T, state="created", kind="run", name=run, attrs={"project": "bench"})),
        (2, Span(run + "/1", _T, state="running", kind="try", parent=run, attrs={"n": 1})),
    ]
    store.keep([Batch(origin, LANE_FACTS, 2, facts=facts), Batch(origin, LANE_SAMPLES, offsets[-1], columns=[columns])])
