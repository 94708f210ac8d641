"""A console and the program on one terminal: who may write when, and that everything is given back at the end."""

import builtins
import contextlib
import io
import os
import sys
import threading

import pytest

import vedette
from tests.rooms.told_hub import ToldHub
from vedette.client import faults, screen


class Noting:
    """A console that draws nothing, and notes what it is asked."""

    def __init__(self, ours):
        self.alive = True
        self.ours = ours  # the stream that it draws on
        self.noted = []
        self._lock = threading.RLock()

    def lock_for(self, stream):
        return self._lock if stream is self.ours else None

    def make_room(self, text):
        self.noted.append(("room", text))

    def go_on(self, text):
        self.noted.append(("on", text))

    def read(self, on, *, ended=True):
        self.noted.append(("reads", on, ended))

    def close(self, name, state, cause):
        self.noted.append(("closed", state, cause))
        return f"{name} {state}"

    def forget(self):
        self.noted.append(("forgotten",))


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class Pipe(io.TextIOWrapper):
    """A stream of which one can read what was written."""

    def __init__(self):
        self._ear, mouth = os.pipe()
        super().__init__(io.FileIO(mouth, "w"), "utf-8", write_through=True)

    def getvalue(self):
        return os.read(self._ear, 1 << 16).decode()


@pytest.fixture
def begin(home, monkeypatch):
    """Begin a run with a console on stderr, which is ours; in the test itself, as pytest has other streams before."""
    monkeypatch.setenv("VEDETTE_CONSOLE_MODE", "on")
    monkeypatch.setenv("VEDETTE_LOGS_ENABLE", "false")
    monkeypatch.setenv("VEDETTE_LOGS_OUTPUT", "false")

    init = vedette.init  # its first use hands the real console in, which the test replaces

    def start():
        stream = Pipe()
        monkeypatch.setattr(sys, "stderr", stream)
        made = Noting(stream)
        monkeypatch.setattr(screen, "open_console", lambda _run, _settings: made)
        init(name="shown")
        return made

    with ToldHub(home):
        yield start
        vedette.finish()


def test_what_the_program_prints_has_room(begin):
    """Before a line is printed the console makes room, and afterwards it draws on; other streams are left alone."""
    console = begin()
    sys.stderr.write("line\n")
    sys.stdout.write("elsewhere\n")

    assert console.noted == [("room", "line\n"), ("on", "line\n")]
    assert "line\n" in console.ours.getvalue()
    assert screen.is_on()
    assert screen.shows_logs()


def test_a_message_of_ours_has_room_too(begin, monkeypatch):
    """What we ourselves have to say is written around what is drawn."""
    console = begin()
    monkeypatch.setattr(faults, "_said", set())
    faults.say_once("a sentence")
    assert [what for what, *_ in console.noted] == ["room", "on"]


def test_what_is_typed_for_the_program(begin, monkeypatch):
    """While `input` waits the console keeps still; a line that is broken off is told as such."""
    console = begin()
    console.ours = sys.stdout
    monkeypatch.setattr(sys, "stdin", Tty("typed\n"))
    assert input() == "typed"
    with contextlib.suppress(EOFError):
        input()

    reads = [noted for noted in console.noted if noted[0] == "reads"]
    assert reads == [("reads", True, True), ("reads", False, True), ("reads", True, True), ("reads", False, False)]


def test_the_end_gives_everything_back(begin):
    """After the run the streams and `input` are as they were, and the last line tells how it ended."""
    console = begin()
    vedette.finish()

    assert "write" not in vars(sys.stderr)
    assert builtins.input.__module__ != screen.__name__
    assert console.noted[-1] == ("closed", "done", "")
    assert "shown done" in console.ours.getvalue()
    assert not screen.is_on()


def test_the_last_line_waits_for_a_traceback(begin):
    """It stands behind what is printed in the block."""
    console = begin()
    with screen.hold_last_line():
        vedette.finish()
        sys.stderr.write("Traceback\n")
    said = console.ours.getvalue()
    assert said.index("Traceback") < said.index("shown done")


def test_a_fork_leaves_the_terminal_to_its_parent(begin, monkeypatch):
    """The child draws nothing, and erases what stands below before it prints."""
    console = begin()
    monkeypatch.setattr(screen, "_parent_has_console", False)
    screen.after_fork()

    assert console.noted == [("forgotten",)]
    assert not screen.is_on()
    assert screen.shows_logs()
    sys.stderr.write("from the child\n")
    assert "from the child" in console.ours.getvalue()


@pytest.mark.parametrize(
    ("mode", "stream", "environ", "found"),
    [
        ("off", Tty(), {"TERM": "xterm"}, False),
        ("on", io.StringIO(), {}, True),
        ("on", None, {}, False),
        ("auto", Tty(), {"TERM": "xterm"}, True),
        ("auto", Tty(), {"TERM": "dumb"}, False),
        ("auto", io.StringIO(), {"TERM": "xterm"}, False),
        ("auto", Tty(), {"TERM": "xterm", "VEDETTE_CAPTURED": "1"}, False),
    ],
)
def test_who_gets_a_console(mode, stream, environ, found):
    """Where it is wanted, or where stderr is a terminal that can do more than print."""
    assert screen.wanted(mode, stream, environ) is found


def test_a_console_that_cannot_be_opened(home, monkeypatch, capsys):
    """The run goes on without it."""
    monkeypatch.setenv("VEDETTE_CONSOLE_MODE", "on")
    monkeypatch.setattr(screen, "open_console", lambda *_: 1 / 0)
    with ToldHub(home):
        vedette.init()
        assert not screen.is_on()
        vedette.finish()
