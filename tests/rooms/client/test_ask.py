"""`vedette.ask` inside this process: answered by a hub, by the console, at the terminal, or by nobody."""

import os
import sys
import threading
import time

import pytest

import vedette
from tests.rooms.told_hub import ToldHub
from vedette import wire
from vedette.client import ask as asking


@pytest.fixture
def told(home, monkeypatch):
    """A hub that is told what to answer."""
    monkeypatch.setenv("VEDETTE_CONSOLE_MODE", "off")
    with ToldHub(home) as hub:
        yield hub
        vedette.finish()


@pytest.fixture
def keyboard(monkeypatch):
    """Make a terminal stdin and stderr, in the test itself; return where to type and to read."""
    ours, theirs = os.openpty()

    def begin():
        monkeypatch.setattr(sys, "stdin", open(theirs, closefd=False))  # noqa: SIM115
        monkeypatch.setattr(sys, "stderr", open(theirs, "w", buffering=1, closefd=False))  # noqa: SIM115
        monkeypatch.setattr(asking._Terminal, "can_read", lambda self: self.fd is not None)  # it controls no session
        return ours

    yield begin
    os.close(ours)
    os.close(theirs)


def test_answered_through_the_hub(told):
    """The answer that the hub brings is returned; the hub was told which process waits, and for what."""
    told.answers[wire.Await] = lambda message: wire.Answer(message.ask, "yes", "c1")
    run = vedette.init()

    assert vedette.ask("go on?", timeout_s=60) == "yes"
    [waited] = [message for message in told.asked if isinstance(message, wire.Await)]
    assert waited.process.startswith(run.id)


def test_an_answer_to_another_question_is_none(told):
    """What was meant for somebody else is passed over."""
    told.answers[wire.Await] = lambda _: wire.Answer("other", "yes")
    vedette.init()
    assert vedette.ask("go on?", timeout_s=0.3) is None


def test_nobody_answers(told):
    """None after the time; a limit that is no number of seconds is said, and a negative one is over at once."""
    vedette.init()
    begun = time.monotonic()
    assert vedette.ask("go on?", timeout_s=0.2) is None
    assert vedette.ask("go on?", timeout_s=-1) is None
    assert time.monotonic() - begun < 30
    assert asking._deadline("soon") is None
    assert not asking._open


def test_answered_by_the_console_of_this_process(told):
    """The first answer counts, and a question that is no longer open takes none."""
    vedette.init()
    found = []

    def console():
        while not asking._open:
            time.sleep(0.01)
        [question] = asking._open
        found.extend([asking.answer(question, "first"), asking.answer(question, "second")])

    thread = threading.Thread(target=console)
    thread.start()
    assert vedette.ask("go on?", timeout_s=60) == "first"
    thread.join()
    assert found == [True, False]
    assert not asking.answer("none", "x")


def test_typed_at_the_terminal(told, keyboard):
    """The prompt stands on the terminal, and the line that is typed is the answer."""
    keys = keyboard()
    vedette.init()
    os.write(keys, b"typed\n")

    assert vedette.ask("which?", timeout_s=60) == "typed"
    said = b""
    while b"which? " not in said:  # what was typed is echoed before it
        said += os.read(keys, 1000)


def test_a_password_is_not_echoed(keyboard, monkeypatch):
    """While a password is asked for the terminal does not echo; afterwards it is as it was. Without a run, too."""
    monkeypatch.setenv("VEDETTE_MODE", "off")
    keys = keyboard()
    typing = threading.Timer(0.3, os.write, (keys, b"secret\n"))
    typing.start()

    assert vedette.ask("password?", password=True, timeout_s=60) == "secret"
    os.write(keys, b"seen")
    shown = b""
    while b"seen" not in shown:
        shown += os.read(keys, 1000)
    assert b"secret" not in shown
    typing.join()
    vedette.finish()


def test_ctrl_d_at_the_terminal_is_no_answer(keyboard, monkeypatch):
    """The end of what is typed leaves the question without an answer."""
    monkeypatch.setenv("VEDETTE_MODE", "off")
    threading.Timer(0.2, os.write, (keyboard(), b"\x04")).start()
    assert vedette.ask("which?", timeout_s=60) is None
    vedette.finish()


def test_a_hub_that_leaves_is_dialled_again(told, home):
    """When the hub goes away while one waits, the next one is asked, and its answer counts."""
    vedette.init()
    times = []

    def answer(message):
        times.append(message)
        if len(times) == 1:
            raise OSError  # it hangs up
        return wire.Answer(message.ask, "later")

    told.answers[wire.Await] = answer
    question = threading.Timer(0.3, lambda: [peer.shutdown(2) for peer in list(told._open)])
    question.start()
    assert vedette.ask("go on?", timeout_s=60) == "later"
    question.join()
