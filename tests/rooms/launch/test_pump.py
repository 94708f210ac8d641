"""Bytes on their way through the pump: passed on as they come, to readers that are slow, shared or gone."""

import errno
import os
import signal

import pytest

from vedette.launch import terminal
from vedette.launch.pump import Pump, Stream


class Line:
    """A stream of which we hold both ends: `send` is the command, `receive` who reads us."""

    def __init__(self):
        self.source, self.writer = os.pipe()
        self.reader, self.sink = os.pipe()
        self.stream = Stream("stdout", self.source, self.sink)
        self.taken = []
        self.pump = Pump([self.stream], lambda *took: self.taken.append(took))

    def send(self, data):
        os.write(self.writer, data)

    def receive(self):
        os.set_blocking(self.reader, False)
        try:
            return os.read(self.reader, 1 << 20)
        except BlockingIOError:
            return b""

    def close(self):
        self.stream.shut()
        for fd in (self.writer, self.reader, self.sink):
            try:
                os.close(fd)
            except OSError:
                continue


@pytest.fixture
def line():
    made = Line()
    yield made
    made.close()


def test_bytes_are_passed_on_and_handed_over(line):
    """What came is written at once and then taken down; nothing comes, nothing moves."""
    assert not line.pump.turn(0)
    line.send(b"one\xff")
    assert line.pump.turn(0)
    assert (line.receive(), line.taken) == (b"one\xff", [("stdout", b"one\xff")])


def test_the_end_of_a_stream(line):
    """When the command has closed its end the stream is over, and so is the pump."""
    line.send(b"last")
    os.close(line.writer)
    line.pump.turn(0)
    line.pump.turn(0)
    assert (line.receive(), line.pump.open) == (b"last", False)


def test_a_slow_reader_makes_the_command_wait(line):
    """What a full pipe does not take is kept, no more is read meanwhile, and all of it arrives in order."""
    sent = bytes(range(256)) * 600
    os.set_blocking(line.writer, False)
    received, waiting = b"", sent
    while len(received) < len(sent):
        if waiting:
            try:
                waiting = waiting[os.write(line.writer, waiting) :]
            except BlockingIOError:
                pass
        line.pump.turn(0)
        if line.stream.pending:
            assert line.pump.open
            line.pump.turn(0)
            received += line.receive()
        elif not waiting:
            received += line.receive()
    assert received == sent
    assert b"".join(data for _, data in line.taken) == sent


def test_a_reader_that_is_gone_closes_the_command_s_end(line):
    """The kernel then tells the command as it would without us, and the error number is kept."""
    os.close(line.reader)
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        line.send(b"x")
        line.pump.turn(0)
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert (line.stream.source, line.stream.trouble) == (None, errno.EPIPE)


def test_a_stream_that_goes_nowhere():
    """Without a sink it is taken down all the same."""
    source, writer = os.pipe()
    stream = Stream("stderr", source, None)
    taken = []
    os.write(writer, b"x")
    os.close(writer)
    Pump([stream], lambda *took: taken.append(took)).turn(0)
    stream.write()
    assert (taken, bytes(stream.pending)) == ([("stderr", b"x")], b"")
    stream.shut()


def test_other_descriptors_are_served(line):
    """Whoever waits for a descriptor of his own is called when it is readable."""
    reader, writer = os.pipe()
    calls = []
    line.pump.watch(reader, lambda: calls.append(os.read(reader, 10)))
    os.write(writer, b"now")
    line.pump.turn(0)
    os.close(writer)
    os.close(reader)
    assert calls == [b"now"]


def test_keys_are_passed_to_the_command(line, terminals):
    """What is typed goes to the command's terminal, as `keys` lets it through, and only while keys count."""
    master, slave = terminals
    keyboard, typing = os.pipe()
    terminal.pass_through(slave)
    line.pump.keys = bytes.upper
    line.pump.read_keyboard(keyboard, master)
    os.write(typing, b"abc\n")
    line.pump.turn(0, with_keys=False)
    line.pump.turn(0)
    line.pump.turn(0)
    assert os.read(slave, 10) == b"ABC\n"

    line.pump.type(b"more\n")
    line.pump.turn(0)
    assert os.read(slave, 10) == b"more\n"
    os.close(typing)
    line.pump.turn(0)  # nothing more comes
    line.pump.type(b"unheard\n")
    assert not line.pump.turn(0)
    os.close(keyboard)
