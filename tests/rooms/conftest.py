"""What the rooms share: a store of one's own with made-up runs in it, and the command line as a user calls it."""

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

import vedette
from tests import warm
from tests.journeys.conftest import read_runs
from vedette.home import Home
from vedette.hub.turn.keeper import Keeper
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.settings import Hub, Settings
from vedette.store import Batch, Columns
from vedette.store.sqlite import SqliteStore

SECOND = 10**9
QUICK = {"VEDETTE_HUB_IDLE_S": "5"}  # no hub of ours stays for long
BORN = 1_790_000_000 * SECOND  # when made-up runs begin, unless they say


class Maker:
    """Puts made-up runs into a store, each by an origin of its own."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self._n = 0

    def run(self, id: str, name: str = "", state: str = "done", **told: Any) -> str:  # noqa: A002
        """Keep a run; `told`: start_t, end_t, cause, by, heard_t; all else are its attributes."""
        start_t, cause = told.pop("start_t", BORN), told.pop("cause", "")
        end_t, heard_t = told.pop("end_t", start_t + 10 * SECOND), told.pop("heard_t", 0)
        spans = [Span(id, start_t, state="created", kind="run", name=name or id, attrs=told)]
        spans.append(Span(id, end_t if state in ("done", "failed", "cancelled") else start_t, state=state, cause=cause))
        self.facts(id, *spans)
        if heard_t:
            self.store.keep([], {f"o-{id}": heard_t})
        return id

    def facts(self, run: str, *facts: Any) -> None:
        """Keep facts of a run."""
        numbered = [(self._next(), fact) for fact in facts]
        self.store.keep([Batch(_origin(run), LANE_FACTS, self._n, facts=numbered)])

    def events(self, run: str, *texts: str, kind: str = "log", level: int = 20) -> None:
        """Keep events of a run."""
        self.facts(run, *(Event(run, BORN + self._n, kind, level, text) for text in texts))

    def points(self, run: str, name: str, values: Any, tags: dict[str, str] | None = None, t: int = BORN) -> None:
        """Keep the points of a series, a second apart, at steps from 0 on."""
        count = range(len(values))
        columns = Columns(
            run,
            tags or {},
            (name,),
            [self._next() for _ in count],
            [t + step * SECOND for step in count],
            list(count),
            [(value,) for value in values],
        )
        self.store.keep([Batch(_origin(run), LANE_SAMPLES, self._n, columns=[columns])])

    def _next(self) -> int:
        self._n += 1
        return self._n


def _origin(run: str) -> Origin:
    return Origin(f"o-{run}", host="camp", boot="elsewhere", pid=7, started=1, span=run, process=f"{run}/1/o")


@pytest.fixture
def store(tmp_path: Any) -> Iterator[SqliteStore]:
    """A store of its own, empty."""
    opened = SqliteStore(str(tmp_path / "store.db"))
    yield opened
    opened.close()


@pytest.fixture
def make(store: SqliteStore) -> Maker:
    """Puts made-up runs into the store."""
    return Maker(store)


def call(
    *args: str, home: str | None = None, timeout: float = 60, fresh: bool = False, **kwargs: Any
) -> "subprocess.CompletedProcess[str]":
    """Call the command line as a user does; a home that is given stands in VEDETTE_HOME.

    The process comes from a warm Python, or from a fresh one: on request, for what starts a program of the user's, and
    where the interpreter itself is told something.
    """
    environ = {**os.environ, **QUICK, **kwargs.pop("environ", {}), **({"VEDETTE_HOME": home} if home else {})}
    fresh = fresh or args[:1] in (("run",), ("monitor",)) or not warm.fits(environ)
    if not fresh and kwargs.keys() <= {"cwd", "text"}:
        return warm.run([*args], env=environ, timeout=timeout, **kwargs)
    kwargs = {"text": True, "capture_output": True, "env": environ, "timeout": timeout, **kwargs}
    return subprocess.run([sys.executable, "-m", "vedette", *args], check=False, **kwargs)


def python(code: str, **kwargs: Any) -> "subprocess.CompletedProcess[str]":
    """Run code in a fresh Python."""
    environ = {**os.environ, **QUICK, **kwargs.pop("environ", {})}
    kwargs = {"text": True, "capture_output": True, "env": environ, "timeout": 60, **kwargs}
    return subprocess.run([sys.executable, "-c", code], check=False, **kwargs)


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were flushed to disk."""
    found: list[int] = []
    flush = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (found.append(fd), flush(fd)))
    return found


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[str]:
    """Mount a small disk; hand out where."""
    if os.geteuid() != 0:
        pytest.skip("a small disk needs root, to mount")
    with tempfile.TemporaryDirectory(prefix="vdt-") as point:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", point], check=False, capture_output=True
        )
        if done.returncode != 0:
            pytest.skip(f"no small disk can be mounted: {done.stderr.decode().strip()}")
        try:
            yield point
        finally:
            subprocess.run(["umount", "--lazy", point], check=True)


@pytest.fixture
def fresh_logging():
    """Leave `logging` as a fresh process has it: no handlers on the root logger, not even pytest's."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    yield
    vedette.finish()
    logging.disable(logging.NOTSET)
    root.handlers[:] = kept
    root.setLevel(level)


@pytest.fixture
def taken(home, hub, fresh_logging):
    """Begin a run; return a function that ends it and returns its events of a kind.

    A test that has `capsys` or `capfd` too calls `vedette.init()` itself: they bring other streams with each phase.
    """
    vedette.init(name="here")

    def events(kind=""):
        vedette.finish()
        return read_runs(home)[-1].logs(kind=kind)

    return events


@contextlib.contextmanager
def keeping(home: Home, *, measure: bool = False, mask: bool = True) -> Iterator[Keeper]:
    """Take the place of the hub of a home: the keeper takes a turn when told."""
    home.prepare()
    lock = home.take_lock()
    assert lock is not None
    keeper = Keeper(home, SqliteStore(home.store), Settings(hub=Hub(sync_s=0, mask=mask)), measure=measure)
    try:
        yield keeper
        keeper.close()
    finally:
        os.close(lock)


@pytest.fixture
def keeper(home: Home) -> Iterator[Keeper]:
    """The keeper of a home that no hub keeps."""
    with keeping(home) as made:
        yield made
