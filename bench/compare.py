"""How long it takes to compare many runs, to explain two, and to make a long series fit a screen, by CPU."""

import hashlib
import json
import time
from collections.abc import Callable

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query.compare import compare
from vedette.query.downsample import PER_PIXEL, pick
from vedette.query.explain import explain
from vedette.query.runs import select, view
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader

_RUNS, _KEYS, _METRICS = 1000, 50, 20
_POINTS, _CURVES, _FILES, _CHANGED = 100_000, 10, 300, 50
_LONG, _WIDTH = 10_000_000, 1600
_T = 1_800_000_000 * 10**9


def measure(*, quick: bool, times: int | None) -> Part:
    """Ask each question in turn."""
    rounds = times or (3 if quick else 10)
    part = Part("comparing runs, CPU of who asks")
    blobs: dict[str, bytes] = {}
    with fresh_home(hub=False) as home:
        store = SqliteStore(home.store)
        for number in range(_RUNS):
            _many(store, number)
        for number in range(2):
            _pair(store, number, blobs)
        store.close()

        def beside() -> None:
            reader = open_reader(home.store)
            found = compare(select(reader, "project = many"))
            assert (len(found.runs), len(found.metrics)) == (_RUNS, _METRICS)
            found.as_dict()
            reader.close()

        def why() -> None:
            reader = open_reader(home.store)
            found = explain(view(reader, "pair0"), view(reader, "pair1"), blobs.get)
            assert found.causes[0].key == "part7.py"
            found.as_dict()
            reader.close()

        _judge(part, f"compare {_RUNS} runs of {_KEYS} keys and {_METRICS} metrics", beside, rounds, 1000)
        what = f"explain two runs of {_CURVES} metrics x {_POINTS} points and {_FILES} files, {_CHANGED} changed"
        _judge(part, what, why, rounds, 1000)
    chance = np.random.default_rng(1)
    x, y = np.arange(_LONG), chance.normal(size=_LONG).cumsum()
    holed = np.where(np.arange(_LONG) % 1000 == 0, np.nan, y)
    for name, values in (("", y), (", a NaN in each thousand", holed)):

        def fit(values: np.ndarray = values) -> None:
            assert len(pick(x, values, _WIDTH)) <= PER_PIXEL * _WIDTH

        _judge(part, f"{_LONG // 10**6} M points for {_WIDTH} pixels{name}", fit, rounds, 200)
    part.note(f"{rounds} rounds. The store is opened anew for each question, its pages are in the kernel's cache.")
    return part


def _judge(part: Part, what: str, ask: Callable[[], None], rounds: int, limit_ms: int) -> None:
    took = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        ask()
        took.append((time.process_time() - begin) * 1e3)
    spread = quartiles(took[1:])
    part.judge(what, spread.show(".0f", " ms"), f"< {limit_ms} ms", spread.median < limit_ms)


def _many(store: SqliteStore, number: int) -> None:
    config = {f"key{n}": n * (1 + (number % 7 if n % 5 == 0 else 0)) for n in range(_KEYS)}
    names = tuple(f"metric{n}" for n in range(_METRICS))
    _keep(store, f"many{number:04d}", {"project": "many", "config": config}, names, np.ones((10, _METRICS)))


def _pair(store: SqliteStore, number: int, blobs: dict[str, bytes]) -> None:
    def kept(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return digest

    entries = []
    for n in range(_FILES):
        text = f"import part{n + 1}\n" + "".join(f"x{line} = {line}\n" for line in range(200))
        data = (text + (f"y = {number}\n" if n == 7 else f"# {number if n < _CHANGED else 0}\n")).encode()
        entries.append({"path": f"part{n}.py", "digest": kept(data), "size": len(data)})
    attrs = {
        "project": "pair",
        "config": {"output_dir": f"/out/{number}"},
        "code": {"digest": kept(json.dumps(entries).encode()), "script": "part0.py"},
        "capture": "done",
    }
    walk = np.random.default_rng(1).normal(size=(_POINTS, _CURVES)).cumsum(axis=0)
    _keep(store, f"pair{number}", attrs, tuple(f"curve{n}" for n in range(_CURVES)), walk * (1 + number))


def _keep(store: SqliteStore, run: str, attrs: dict[str, object], names: tuple[str, ...], values: np.ndarray) -> None:
    count = len(values)
    offsets = list(range(40, 40 * (count + 1), 40))
    t = [_T + step * 10**8 for step in range(count)]
    columns = Columns(run, {}, names, offsets, t, list(range(count)), [tuple(row) for row in values.tolist()])
    facts = [(1, Span(run, _T, state="done", kind="run", name=run, attrs=attrs))]
    origin = Origin("origin-" + run, span=run, process=run + "/1/p")
    store.keep([Batch(origin, LANE_FACTS, 1, facts=facts), Batch(origin, LANE_SAMPLES, offsets[-1], columns=[columns])])
