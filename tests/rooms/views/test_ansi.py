"""Other people's text: whatever it is, nothing in it can do anything to a terminal."""

import io
import os
import re
import unicodedata

import pytest

from vedette.query.progress import Bar
from vedette.query.questions import Question
from vedette.store import EventRow
from vedette.views import ansi, lines
from vedette.views.area import Area
from vedette.views.asking import Asking, Keys
from vedette.views.console import Board, Pipe
from vedette.views.lines import Appearance

ESC = "\x1b"
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
UNSEEN = "\u00ad\u200b\u200c\u200d\u2028\u2029\u2060\u2061\ufeff\U000e0041\ufe0f"
OURS = re.compile(
    r"\x1b\[(?:\d+(?:;\d+)*)?m"  # colours
    r"|\x1b\]8;;(?:file://[\x21-\x7e]*)?\x1b\\"  # links to files
    r"|\x1b\[K\n\x1b\[J\x1b\[A|\x1b\[\d+A\r"  # the area below
)


def corpus():
    """Return hostile texts: each control and sequence whole, nested, cut short, and in the middle of something."""
    controls = [chr(code) for code in (*range(32), *range(127, 160))]
    finals = [chr(code) for code in range(0x40, 0x7F)]
    csi = [
        intro + numbers + final for intro in (ESC + "[", "\x9b") for numbers in ("", "1;31", "?25") for final in finals
    ]
    csi += [f"{ESC}[{between}{final}" for between in " !\"#$%&'()*+,-./" for final in finals]
    strings = [
        intro + body + end
        for intro in (ESC + "]", ESC + "P", ESC + "X", ESC + "^", ESC + "_", "\x9d", "\x90", "\x98", "\x9e", "\x9f")
        for body in ("0;title", "52;c;ZXZpbA==", "8;;https://evil.example", "8;;file:///etc/passwd", '$q"p', "")
        for end in ("\x07", ESC + "\\", "\x9c", "", "\n")
    ]
    two = [ESC + chr(code) for code in range(0x20, 0x7F)] + [ESC + "#8", ESC + "(0", ESC + "%G"]
    nested = [
        f"{ESC}]0;{ESC}[31m{ESC}]0;x\x07\x07", f"{ESC}{ESC}[2J", f"{ESC}[{ESC}[2J", f"{ESC}[3{ESC}[1m1m", "\x9b\x9b2J",
        f"{ESC}P{ESC}]0;x\x07{ESC}\\", f"{ESC}Ptmux;{ESC}{ESC}]0;x\x07{ESC}\\", f"{ESC}[2\x00J", f"{ESC}\x18[2J",
        f"{ESC}[1;\x9d31m\x9c", f"{ESC}[<0;1;1M", f"{ESC}[38;5;999m", f"{ESC}[38;2;1m", f"{ESC}[8mhidden",
        f"{ESC}[5mblink",
    ]  # fmt: skip
    split = [ESC, f"{ESC}[", f"{ESC}[3", f"{ESC}]", f"{ESC}]8;;", "\x9b", "\x9b1;", "\x9d0;"]
    markup = [
        "[/x]",
        "[bold",
        "[red]x",
        "[link=http://e]x[/link]",
        ":smile:",
        "\\[x]",
        "[[[",
        "]]]",
        "[/]",
        "{x!r}",
        "%s %d",
    ]
    tricks = [
        "over\rwritten",
        "back\x08\x08space",
        "tab\there\tand",
        "a\x0bb\x0cc\x85d",
        BIDI,
        UNSEEN,
        "\ud800",
        "\udcff x",
    ]
    huge = [
        "x" * 300_000,
        ESC * 50_000,
        f"{ESC}[" * 30_000,
        "\x9d" * 50_000,
        f"{ESC}]0;" * 20_000,
        "\n" * 1000,
        "é" * 100_000,
    ]
    texts = [*controls, *csi, *strings, *two, *nested, *split, *markup, *tricks]
    return [*(f"before {text} after" for text in texts), *texts, *huge]


CORPUS = corpus()


def events(texts):
    """Yield the texts in every place of an event where others can put one."""
    for number, text in enumerate(texts):
        attrs = {"file": "/" + text[:500], "line": 3, "ansi": text, "logger": text[:50], "stream": text[:50], "pid": 1}
        yield EventRow(number, "r" + text[:50], 10**18, "log", 20, text, attrs, text[:50], 7)
        yield EventRow(number, "r", 10**18, text[:50], 40, text, {"file": text[:500], "line": text[:50]}, "h", 7)
        yield EventRow(number, "r", 10**18, "output", 20, text, {"stream": "stderr"}, text[:50], number)


def everything(look, texts):
    """Return all lines and rows that come of the texts."""
    board = Board(look, by_run=True)
    shown = board.events(events(texts))
    for text in texts:
        bar = Bar("r/p-1", "r", text, 10.0, 3.0, "running", text[:500], 1, 2, None)
        failed = Bar("r/p-2", "r", text, 10.0, 3.0, "failed", text[:500], 1, 2, 3)
        shown += [lines.bar_row(bar, text[:50], width, 10**18, look) for width in (5, 20, 40, 200)]
        shown += [lines.bar_end(failed, "", look), lines.bar_plain(bar, "", 10**18, look)]
        shown.append(lines.run_end(text[:200], text[:50], text[:500], 3.0, look))
        asking = Asking(Keys("/nowhere"), lambda _question, _text: "")
        asking._question = Question("q", "r", "p", text, False, 1)
        asking._keys.fd = 0  # as if somebody could type
        shown.append(asking.row(asking._question) or "")
        asking._keys.fd = None
    return shown


def obeyed(data, ours=None):
    """Return what a terminal could obey, or what hides something, in bytes that were written."""
    text = data.decode()
    text = ours.sub("", text) if ours is not None else text
    unseen = set(BIDI + UNSEEN)
    return {
        char for char in set(text) if char != "\n" and (unicodedata.category(char) in ("Cc", "Cf") or char in unseen)
    }


def plain_bytes(texts):
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, "utf-8")
    Pipe(stream, Appearance()).above(everything(Appearance(), texts))
    return buffer.getvalue()


def terminal_bytes(texts, tmp_path):
    fd = os.open(tmp_path / "terminal", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    look = Appearance(terminal=True, colour=True)
    area = Area(fd)
    shown = everything(look, texts)
    area.above(shown)
    area.below([row for row in shown[:5] if "\n" not in row])
    area.above(["one"])
    area.close()
    os.close(fd)
    return (tmp_path / "terminal").read_bytes()


def test_a_pipe_gets_no_control_byte_but_newlines():
    """Of the whole corpus, in every place where a text can stand, a pipe gets printable characters and newlines."""
    assert obeyed(plain_bytes(CORPUS)) == set()


def test_a_terminal_gets_our_own_sequences_alone(tmp_path):
    """Of the whole corpus, a terminal gets colours, links to files and our own moves of the cursor, nothing else."""
    assert obeyed(terminal_bytes(CORPUS, tmp_path), OURS) == set()


@pytest.mark.parametrize("leak", [lambda text: text, lambda text: re.sub("\x1b\\[[0-9;]*m", "", text)])
def test_the_check_notices_a_leak(leak, monkeypatch, tmp_path):
    """A console that passes text on, or takes out colours alone, is caught by the same checks."""
    monkeypatch.setattr(lines, "plain", leak)
    monkeypatch.setattr(lines, "painted", leak)

    assert obeyed(plain_bytes(CORPUS[:400]))
    assert obeyed(terminal_bytes(CORPUS[:400], tmp_path), OURS)


def test_what_can_be_read_stays():
    """Words around a sequence stay, and so does broken markup, letter by letter."""
    for text in ["[/x]", "[bold", ":smile:", "{x!r}", "naïve 日本 🙂"]:
        assert ansi.plain(text) == ansi.painted(text) == text
    assert ansi.plain(f"one{ESC}]0;title\x07 two{ESC}[2J three") == "one two three"
    assert ansi.plain(f"one {ESC}]unended") == "one unended"
    assert ansi.plain("a\tb\n\tc") == "a       b\n        c"
    assert ansi.plain("over\rwritten\r\nnext") == "over\nwritten\nnext"
    assert ansi.plain("\udcff") == "\\udcff"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{ESC}[31mred{ESC}[0m no", f"{ESC}[31mred{ESC}[0m no"),
        (f"{ESC}[1;38;5;200mx{ESC}[22my", f"{ESC}[1;38;5;200mx{ESC}[0m{ESC}[38;5;200my{ESC}[0m"),
        (f"{ESC}[38:2::1:2:3mx", f"{ESC}[38;2;1;2;3mx{ESC}[0m"),
        (f"{ESC}[31ma\nb", f"{ESC}[31ma{ESC}[0m\n{ESC}[31mb{ESC}[0m"),
        (f"{ESC}[8mhidden{ESC}[5m too", "hidden too"),
        (f"{ESC}[31;99999999999999mx", f"{ESC}[31mx{ESC}[0m"),
    ],
)
def test_colours(text, shown):
    """Colours come through as codes of our own, that end with their line; what conceals or blinks does not."""
    assert ansi.painted(text) == shown
