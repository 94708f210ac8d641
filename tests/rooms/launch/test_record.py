"""What a command prints, on its way to the record."""

import pytest

from vedette.launch.record import BURST_LINES, LAST_LINES, LINES_PER_S, Recorder
from vedette.sources.bars import Bars
from vedette.sources.colours import split
from vedette.sources.output import MAX_LINE


class Taken:
    """A recorder with a clock of its own, and what it said."""

    def __init__(self):
        self.now, self.events = 0.0, []
        self.recorder = Recorder(lambda *event: self.events.append(event), Bars(None), lambda: self.now)

    def lines(self):
        return [text for kind, text, _, _ in self.events if kind == "output"]

    def dropped(self):
        return sum(attrs["count"] for kind, _, _, attrs in self.events if kind == "dropped")


@pytest.fixture
def taken():
    return Taken()


def test_text_in_pieces(taken):
    """A letter whose bytes come in two chunks is whole, what is no text is replaced, colours are kept apart."""
    for byte in "käse \x1b[32mgrün\x1b[0m\n".encode() + b"\xff\xfe\n":
        taken.recorder.take("stdout", bytes([byte]))
    assert taken.lines() == ["käse grün", "\ufffd\ufffd"]
    assert taken.events[0][3] == {"stream": "stdout", "pid": 0, "ansi": "käse \x1b[32mgrün\x1b[0m"}


def test_junk_is_bounded(taken):
    """Bytes without any line end take bounded memory, and no record is longer than a line may be."""
    for _ in range(100):
        taken.recorder.take("stdout", bytes(range(256)) * 100)
    taken.recorder.close()
    assert max(len(line) for line in taken.lines()) <= MAX_LINE


def test_a_flood_is_taken_down_at_a_rate(taken):
    """Over ten seconds of a flood so many lines are taken down as may be, the rest is counted, and the end is there."""
    n = 0
    for step in range(1000):
        taken.now = step / 100
        chunk = "".join(f"{n + k}\n" for k in range(1000))
        n += 1000
        taken.recorder.take("stdout", chunk.encode())
    taken.recorder.close()

    most = BURST_LINES + 10 * LINES_PER_S + 20 * LAST_LINES + 1000
    assert 10 * LINES_PER_S <= len(taken.lines()) <= most
    assert taken.lines()[-LAST_LINES:] == [str(k) for k in range(n - LAST_LINES, n)]
    events = sum(kind == "dropped" for kind, *_ in taken.events)
    assert abs(len(taken.lines()) + taken.dropped() - n) <= 2 * events


def test_a_flood_of_escape_codes_is_passed_over_sooner(taken):
    """What takes long to be taken apart is taken down less: a command is not held up by its record."""
    for _ in range(500):
        taken.recorder.take("stdout", b"\x1b[" * 32768)
    taken.recorder.close()

    assert [kind for kind, *_ in taken.events].count("dropped") == 1


def test_after_a_flood_all_is_taken_down_again(taken):
    """When a flood is over, every line is taken down."""
    taken.recorder.take("stdout", b"y\n" * 100_000)
    taken.now = 1.0
    taken.recorder.take("stdout", b"y\n" * 100_000)
    taken.now = 60.0
    taken.recorder.take("stdout", b"calm\nagain\n")
    assert taken.lines()[-2:] == ["calm", "again"]


@pytest.mark.parametrize(
    ("text", "plain", "ansi"),
    [
        ("plain", "plain", ""),
        ("tab\there", "tab\there", ""),
        ("\x1b[31mred\x1b[0m", "red", "\x1b[31mred\x1b[0m"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", ""),
        ("\x1b[2K\x1b[1Ga\x1b[A", "a", ""),
        ("\x9b31mc1\x9c", "c1", ""),
        ("\x1bP evil \x1b\\ok", "ok", ""),
        ("\x1b[31m\x1b[2Jx", "x", "\x1b[31mx"),
        ("a\x00b\x7fc\x1b", "abc", ""),
    ],
)
def test_escape_codes(text, plain, ansi):
    """Plain text has no escape code; with colours it has these alone."""
    assert split(text) == (plain, ansi)
