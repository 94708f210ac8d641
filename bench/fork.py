"""Children of a program that logs from threads: none may hang, and each must speak under its own name."""

import multiprocessing
import multiprocessing.process
import threading
import time
from collections import Counter
from typing import Any, NamedTuple
from unittest.mock import patch

import vedette
from bench.place import fresh_home, wait_for_burials
from bench.report import Part
from bench.witness import compare
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.client.current import init
from vedette.client.run import Run
from vedette.home import Home
from vedette.store import SpanQuery
from vedette.store.sqlite_file import open_reader
from vedette.store.sqlite_read import SqliteReader

_METHODS = ("fork", "spawn", "forkserver")
_BATCH = 4
_RECORDS = 20  # that each child logs
_PATIENCE_S = 60.0


class Tally(NamedTuple):
    """All children of one way to start them."""

    hung: int
    failed: int  # ended with an exit code
    wrong: int  # whose points are not there, once, under their own process
    took_s: float


def measure(*, quick: bool, times: int | None) -> Part:
    """Start children by each method while threads of the parent log, then look for what each has said."""
    count = times or (12 if quick else 200)
    part = Part("children of a program whose threads log")
    for method in _METHODS:
        tally, lost = _start_many(method, count, _PATIENCE_S)
        figure = f"{tally.hung}, {tally.failed}, {tally.wrong}"
        ok = not tally.hung + tally.failed + tally.wrong
        part.judge(f"{method}, {count} children: hung, failed, with points missing or misplaced", figure, "0, 0, 0", ok)
        part.judge(f"{method}: points lost or doubled of the parent's threads", f"{lost}", "0", lost == 0)
        part.know(f"{method}: time per child", f"{tally.took_s / count * 1e3:.0f} ms")
    with patch.object(Run, "_after_fork", lambda _run: None):
        tally, _ = _start_many("fork", _BATCH, 3.0)
    figure = f"{tally.hung}, {tally.failed}, {tally.wrong}"
    caught = tally.hung + tally.wrong > 0
    part.judge(f"control: fork without the client's care, {_BATCH} children", figure, "not 0, 0, 0", caught)
    part.note(
        f"Batches of {_BATCH} processes, {_RECORDS} records each. Three threads of the parent log all the while, and a"
        " fourth holds the client's locks half of the time, as a change of segments does for an instant, so that"
        " forks meet held locks. A child hangs when it has not ended after"
        f" {_PATIENCE_S:.0f} s."
    )
    return part


def _start_many(method: str, count: int, patience_s: float) -> tuple[Tally, int]:
    context: Any = multiprocessing.get_context(method)
    with fresh_home(hub=True) as home:
        run = init(project="bench", name=method)
        threads = _Threads(run)
        children = []
        began = time.monotonic()
        for first in range(0, count, _BATCH):
            numbers = range(first, min(first + _BATCH, count))
            handle = run.series("inherited") if method == "fork" else None
            batch = [context.Process(target=_child, args=(number, handle)) for number in numbers]
            for process in batch:
                process.start()
            deadline = time.monotonic() + patience_s
            for process in batch:
                process.join(max(0.0, deadline - time.monotonic()))
            children += batch
        took_s = time.monotonic() - began
        returned = threads.end()
        hung = [process for process in children if process.exitcode is None]
        for process in hung:
            process.kill()
            process.join()
        run.finish()
        ask(home, wire.Seal(""))
        wait_for_burials(home, living=1)
        wrong, lost = _check(home, run.id, children, returned, inherited=method == "fork")
    failed = sum(bool(process.exitcode) for process in children if process not in hung)
    return Tally(len(hung), failed, wrong, took_s), lost


def _child(number: int, handle: Any) -> None:
    for step in range(_RECORDS):
        vedette.log({f"child{number}": float(step)}, step)
        if handle is not None:
            handle(float(step), step)


class _Threads:
    """What goes on in the parent meanwhile."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._over = threading.Event()
        self._returned: Counter[str] = Counter()
        targets = [*((self._log, f"thread{n}") for n in range(3)), (self._hold, "")]
        self._threads = [threading.Thread(target=target, args=(name,)) for target, name in targets]
        for thread in self._threads:
            thread.start()

    def _log(self, name: str) -> None:
        while not self._over.is_set():
            for _ in range(10):
                step = self._returned[name]
                self._run.log({name: float(step), f"{name}/x": float(step)}, step)
                self._returned[name] = step + 1
            time.sleep(0.005)

    def _hold(self, _name: str) -> None:
        journal = self._run._journal
        while not self._over.is_set():
            with journal._lock, journal.spool.facts._lock, journal.spool.samples._lock:
                time.sleep(0.002)
            time.sleep(0.002)

    def end(self) -> Counter[str]:
        """Stop them; return how many calls of each have returned."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        return self._returned


def _check(
    home: Home,
    run: str,
    children: list[multiprocessing.process.BaseProcess],
    returned: Counter[str],
    *,
    inherited: bool,
) -> tuple[int, int]:
    """Return how many children are not as they should be, and how many points of the threads are lost or doubled."""
    store = open_reader(home.store)
    told = _told(store, run)
    spans = {row.id: row for row in store.spans(SpanQuery(kind="process", prefix=run + "/"))}
    wrong = 0
    for number, process in enumerate(children):
        mine = {key: count for key, count in told.items() if key[1] == f"child{number}"}
        right = list(mine.values()) == [_RECORDS]
        for own, _ in mine:
            span = spans.get(own)
            right = right and span is not None and span.attrs.get("pid") == process.pid and span.end_t is not None
            right = right and (not inherited or told.get((own, "inherited")) == _RECORDS)
        wrong += not right
    lost = 0
    for row in store.series([run]):
        name = row.name.partition("/")[0]
        if name in returned:
            finding = compare(store.points([row.id])[row.id], returned[name])
            lost += sum(finding)
    store.close()
    return wrong, lost


def _told(store: SqliteReader, run: str) -> dict[tuple[str, str], int]:
    """Return how many points each process has of each series."""
    rows = store.connection.execute(
        "SELECT process, series.name, sum(axes.count) FROM chunks JOIN axes ON axes.id = chunks.axis"
        " JOIN origins ON origins.id = axes.origin JOIN series ON series.id = chunks.series WHERE series.span = ?"
        " GROUP BY 1, 2",
        (run,),
    )
    return {(process, name): count for process, name, count in rows}
