"""The console inside a run's own process: lines of this process and of others, beside what the program prints."""

import contextlib
import fcntl
import os
import select
import struct
import termios
import time

import pytest

import vedette
from tests.rooms.told_hub import ToldHub
from vedette import kernel, wire
from vedette.access.home_access import HomeAccess
from vedette.attached.console import Attached
from vedette.model import LANE_FACTS, Event, Origin, Span
from vedette.settings import load
from vedette.store import Batch
from vedette.store.sqlite import SqliteStore


class Terminal:
    """A terminal of 80 columns, and what was drawn on it."""

    def __init__(self) -> None:
        self._fd, slave = os.openpty()
        os.set_blocking(self._fd, False)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.stream = open(slave, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        self.drawn = ""

    def read(self) -> str:
        while select.select([self._fd], [], [], 0)[0]:
            self.drawn += os.read(self._fd, 1 << 16).decode("utf-8", "replace")
        return self.drawn

    def shows(self, *texts: str) -> None:
        deadline = time.monotonic() + 60
        while not all(text in self.read() for text in texts):
            assert time.monotonic() < deadline, self.drawn
            time.sleep(0.02)

    def close(self) -> None:
        self.stream.close()
        os.close(self._fd)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def hub(home):
    with ToldHub(home) as found:
        yield found


@pytest.fixture
def store(home, hub):
    made = SqliteStore(home.store)
    yield made
    made.close()


@pytest.fixture
def run(home, store):
    made = vedette.init(name="brisk-otter", console=False, usage=False)
    yield made
    vedette.finish()


@contextlib.contextmanager
def _console(run, stream, **how):
    console = Attached(run, HomeAccess.of(load({})), stream, **how)
    console.start()
    try:
        yield console
    finally:
        console.close("brisk-otter", "done", "")


def _worker_says(store, run, *facts):
    """Have another process of the run say something, and the hub keep it."""
    origin = Origin("o-worker", host=kernel.host(), boot="b", pid=4242, span=run.id, process=f"{run.id}/1/worker")
    store.keep([Batch(origin, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1)))], {"o-worker": time.time_ns()})


def test_own_lines_and_those_of_others(run, store, hub, terminal):
    """A line of this process shows at once, that of a worker when the hub has told of it, and its bar below them."""
    with _console(run, terminal.stream) as console:
        assert console.alive
        terminal.shows(f"brisk-otter ({run.id})")
        run._journal.event("log", "said here", 20, {"file": "/x/train.py", "line": 7})
        terminal.shows("said here")
        t = time.time_ns()
        _worker_says(
            store, run, Span(run.id, t, "running", kind="run", name="brisk-otter"),
            Event(run.id, t, "log", 30, "said by a worker"),
            Span(f"{run.id}/bar", t, "running", kind="progress", name="epoch", parent=run.id, add=3.0,
                 attrs={"total": 9}),
        )  # fmt: skip
        hub.tell(wire.Change(spans=[run.id], events=[run.id]))
        terminal.shows("said by a worker", "epoch")
        begun = time.monotonic()
        line = console.close("brisk-otter", "done", "")
    assert "brisk-otter" in line
    assert time.monotonic() - begun < 30
    assert hub.followed == [run.id]


def test_it_makes_room_for_what_the_program_prints(run, store, hub, terminal):
    """What the program prints on the same terminal stands whole; other streams are left alone."""
    with _console(run, terminal.stream) as console, open(os.devnull, "w") as elsewhere:
        terminal.shows("shows it elsewhere")
        assert console.lock_for(elsewhere) is None
        assert console.lock_for(terminal.stream) is not None
        with console.around(terminal.stream, "printed\n"):
            terminal.stream.write("printed\n")
        console.read(True)
        console.read(False, ended=True)
        terminal.shows("printed")
        console.leave_alone({"bar"}, lambda: False)
        console.forget()  # in the child of a fork
        assert console.lock_for(terminal.stream) is None
        assert not console.alive


def test_a_question_of_another_process_is_shown(run, store, hub, terminal):
    """A question that a worker asks shows below the lines; on what is no terminal nothing is drawn."""
    with _console(run, terminal.stream, beside=True):
        t = time.time_ns()
        asked = {"ask": "q1", "prompt": "go on?", "process": f"{run.id}/1/worker"}
        _worker_says(
            store, run, Span(run.id, t, "running", kind="run", name="brisk-otter"),
            Span(f"{run.id}/1/worker", t, "running", kind="process", parent=f"{run.id}/1", attrs={"pid": 4242}),
            Event(f"{run.id}/1/worker", t, "ask", 20, "go on?", asked),
        )  # fmt: skip
        hub.tell(wire.Change(events=[run.id]))
        terminal.shows("go on?")
    with open(os.devnull, "w") as pipe, _console(run, pipe) as console:
        assert console.lock_for(pipe) is None


def test_whatever_goes_wrong_it_goes_away(run, store, hub, terminal, capfd):
    """A console that fails says so once, and the program goes on without it."""
    with _console(run, terminal.stream) as console:
        terminal.shows("shows it elsewhere")
        console._lines.take_own = lambda: 1 / 0
        run._journal.event("log", "said here", 20, {})
        deadline = time.monotonic() + 60
        while console.alive:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert console.lock_for(terminal.stream) is None
        console.make_room("x")
        console.go_on("x")
    assert "the console closes (ZeroDivisionError" in capfd.readouterr().err
