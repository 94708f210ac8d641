"""What the program prints, taken down in the process: every line, and the streams stay what they are."""

import contextlib
import io
import logging
import os
import signal
import sys
import threading

import pytest

import vedette
from tests.journeys.conftest import read_runs
from vedette.client import logs


def texts(events):
    return [event.text for event in events]


def test_a_launcher_takes_down_what_is_printed(home, fresh_logging, monkeypatch):
    """Under `vedette run`, which says so by VEDETTE_CAPTURED, there is no tee; records are taken down as ever."""
    monkeypatch.setenv("VEDETTE_RUN", "0000000000")
    monkeypatch.setenv("VEDETTE_CAPTURED", "0000000000")
    write = vars(sys.stdout).get("write")
    vedette.init()

    assert vars(sys.stdout).get("write") is write
    assert logging.Logger.callHandlers is logs._originals[logging.Logger, "callHandlers"][1]


def test_printed_lines(capfd, taken):
    """Lines are kept as they are printed: in pieces, as bytes, by writelines, drawn over, without an end; and shown."""
    vedette.init()
    print("a", 1)
    print("part", end="")
    sys.stdout.write("ial\n")
    sys.stdout.writelines(["x\n", "y\n"])
    sys.stdout.flush()
    sys.stdout.buffer.write("bytes é\n".encode()[:-2])
    sys.stdout.buffer.write("bytes é\n".encode()[-2:])
    sys.stdout.buffer.flush()
    sys.stderr.write("10%\r50%\r100%\n")
    print("\x1b[31mred\x1b[0m", file=sys.stderr)
    print("lone \udc80".encode("utf-8", "surrogateescape"))
    sys.stderr.write("no end")

    events = taken("output")
    assert capfd.readouterr().out.startswith("a 1\npartial\nx\ny\nbytes é\n")
    assert texts(events) == [
        "a 1", "partial", "x", "y", "bytes é", "100%", "red", "b'lone \\x80'", "no end",
    ]  # fmt: skip
    assert [event.attrs["stream"] for event in events] == ["stdout"] * 5 + ["stderr"] * 2 + ["stdout", "stderr"]
    assert events[6].attrs["ansi"] == "\x1b[31mred\x1b[0m"
    assert {event.attrs["pid"] for event in events} == {os.getpid()}


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["a\n", ""], ["a"]),  # as print("a\n", end="") writes
        (["a", "", "\n", ""], ["a"]),
        (["a\n", "\n", ""], ["a", ""]),
        (["a\n", "\r"], ["a"]),
        (["a", ""], ["a"]),
        (["a\r"], ["a"]),
        ([""], []),
    ],
)
def test_a_last_line(taken, pieces, lines):
    """What follows the last newline is a line if it has any text; an empty write is none."""
    for piece in pieces:
        sys.stdout.write(piece)

    assert texts(taken("output")) == lines


def test_a_stream_is_still_itself(taken):
    """The streams are the objects that they were, of the same class; what stands in for one is let be."""
    stream = sys.stdout
    assert isinstance(stream, io.TextIOBase)
    assert print("x", file=stream) is None
    assert stream.write("four") == 4
    stream.write("\n")
    with pytest.raises(TypeError):
        stream.write(5)
    with contextlib.redirect_stdout(io.StringIO()) as elsewhere:
        print("elsewhere")
    assert elsewhere.getvalue() == "elsewhere\n"

    assert texts(taken("output")) == ["x", "four"]


@pytest.mark.parametrize("stream", [None, "closed", "slots", "detached"])
def test_streams_that_are_odd(home, fresh_logging, monkeypatch, stream):
    """A stream that is None, closed, detached or closed to us is left alone, and the run goes on."""

    class Slots:
        __slots__ = ()

        def write(self, text):
            return len(text)

    odd = {None: None, "slots": Slots()}.get(stream)
    if stream in ("closed", "detached"):
        odd = io.TextIOWrapper(io.BytesIO())
        odd.detach() if stream == "detached" else odd.close()
    monkeypatch.setattr(sys, "stdout", odd)
    vedette.init()
    with contextlib.suppress(ValueError):
        print("x")
    logging.getLogger("x").warning("heard")
    vedette.finish()

    assert texts(read_runs(home)[0].logs(kind="log")) == ["heard"]


def test_a_stream_s_own_write_comes_back(home, monkeypatch):
    """A stream whose `write` somebody had replaced before has that one again after the run."""
    stream = io.StringIO()
    mine = stream.write
    stream.write = lambda text: mine(text.upper())
    own = stream.write
    monkeypatch.setattr(sys, "stdout", stream)
    vedette.init()
    print("x")
    vedette.finish()

    assert stream.write is own
    assert stream.getvalue() == "X\n"
    assert texts(read_runs(home)[0].logs()) == ["x"]


def test_many_threads_print(taken):
    """Lines that are printed in one piece by many threads are all there, whole."""

    def work(name):
        for number in range(200):
            sys.stdout.write(f"{name} {number}\n")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(texts(taken("output"))) == sorted(f"{name} {number}" for name in "abcd" for number in range(200))


def test_a_signal_handler_prints(taken):
    """What a signal handler prints while this thread prints is on record, and nothing waits for ever."""
    before = signal.signal(signal.SIGALRM, lambda *_: print("ding"))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
    try:
        for number in range(3000):
            sys.stdout.write(f"{number}\n")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    found = texts(taken("output"))
    assert "ding" in found
    assert [text for text in found if text.isdigit()] == [str(number) for number in range(3000)]
