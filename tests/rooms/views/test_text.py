"""Text for people: nothing that a terminal would obey, and numbers as they are read."""

import math
import re

import pytest

from vedette.views.text import clean, counted, duration, moment, number, size

C0 = [chr(n) for n in range(0x20)]
C1 = [chr(n) for n in range(0x80, 0xA0)]
ESC = "\x1b"

SEQUENCES = {
    "colour": f"{ESC}[31m",
    "many colours": f"{ESC}[1;38;2;255;0;0m",
    "colons": f"{ESC}[38:2::255:0:0m",
    "clear screen": f"{ESC}[2J{ESC}[H",
    "private mode": f"{ESC}[?1049h",
    "intermediate": f"{ESC}[0 q",
    "device status": f"{ESC}[6n",
    "csi in c1": "\x9b31m",
    "title by bel": f"{ESC}]0;owned\x07",
    "title by st": f"{ESC}]0;owned{ESC}\\",
    "title by c1": "\x9d0;owned\x9c",
    "hyperlink": f"{ESC}]8;;http://evil{ESC}\\text{ESC}]8;;{ESC}\\",
    "clipboard": f"{ESC}]52;c;ZXZpbA==\x07",
    "dcs": f"{ESC}P1$r0m{ESC}\\",
    "dcs in c1": "\x901$r0m\x9c",
    "sos": f"{ESC}Xabc{ESC}\\",
    "pm": f"{ESC}^abc{ESC}\\",
    "apc": f"{ESC}_Gabc{ESC}\\",
    "apc in c1": "\x9fabc\x9c",
    "reset": f"{ESC}c",
    "charset": f"{ESC}(0",
    "save": f"{ESC}7",
    "bare escape": ESC,
    "doubled escape": f"{ESC}{ESC}[31m",
    "escape in a sequence": f"{ESC}[3{ESC}[31m1m",
    "made by removal": f"{ESC}{ESC}[0m[31m",
    "made by a control": f"{ESC}\x00[31m",
    "c1 made by removal": f"\x9b{ESC}[0m31m",
    "open csi": f"{ESC}[31",
    "open csi in c1": "\x9b31",
    "open osc": f"{ESC}]0;owned",
    "open dcs": f"{ESC}Pq",
    "escape at the end": f"text{ESC}",
    "line in a title": f"{ESC}]0;a\nb\x07",
    "carriage return": "safe\revil",
    "backspaces": "safe\b\b\b\bevil",
    "delete": "a\x7fb",
    "shift out": "\x0ea",
    "right to left": "\u202eevil\u202c",
    "isolate": "\u2066evil\u2069",
    "line separators": "a\u2028b\u2029c",
}
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def assert_harmless(text, *, lines=True):
    """No byte of the text, as UTF-8, controls anything but lines and tabs."""
    data = text.encode()
    allowed = b"\n\t" if lines else b""
    assert [byte for byte in data if (byte < 0x20 or byte == 0x7F) and byte not in allowed] == []
    assert re.findall(b"\xc2[\x80-\x9f]", data) == []
    assert FORBIDDEN.findall(text) == []


@pytest.mark.parametrize("char", [*C0, "\x7f", *C1], ids=lambda char: f"{ord(char):02x}")
@pytest.mark.parametrize(
    "around", [("", ""), ("a", "b"), (ESC, ""), (ESC, "[0m"), (f"{ESC}[", "m"), (f"{ESC}]0;", "\x07")]
)
def test_no_control_character_comes_out(char, around):
    """Of all control characters only newline and tab come out, alone, inside text, and inside sequences."""
    text = char.join(around)

    assert_harmless(clean(text))
    assert_harmless(clean(text, one_line=True), lines=False)


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("around", [("", ""), ("before ", " after"), ("\x1b", "\x1b"), ("\x9b", "m")])
def test_no_sequence_comes_out(name, around):
    """No escape sequence comes out, whole or cut off, 7-bit or 8-bit, nor one that removing another has made."""
    text = SEQUENCES[name].join(around)

    assert_harmless(clean(text))
    assert_harmless(clean(text, one_line=True), lines=False)
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"a{SEQUENCES['colour']}b{ESC}[0mc", "abc"),
        (f"a{SEQUENCES['title by bel']}b", "ab"),
        (f"a{SEQUENCES['title by st']}b", "ab"),
        (f"a{SEQUENCES['title by c1']}b", "ab"),
        (f"a{SEQUENCES['hyperlink']}b", "atextb"),
        (f"a{SEQUENCES['dcs']}b", "ab"),
        (f"a{SEQUENCES['charset']}b", "ab"),
        (f"a{SEQUENCES['csi in c1']}b", "ab"),
    ],
)
def test_a_sequence_goes_as_a_whole(text, shown):
    """What is left reads as it was meant: no parameters of a sequence stay behind."""
    assert shown == clean(text)


@pytest.mark.parametrize(
    "text", ["", "plain", "two\nlines\tand a tab", "größe 日本語 🦉 é", "[31m", "100 %", "a\\x1b[0m"]
)
def test_harmless_text_is_left_alone(text):
    """Text that does nothing stays as it is, in any script."""
    assert text == clean(text)


def test_windows_lines():
    """A line end of Windows is a line end."""
    assert clean("a\r\nb\r\n") == "a\nb\n"


def test_one_line():
    """A cell of a table is one line without runs of blanks."""
    assert clean(" a\n\n b\t c \r\n", one_line=True) == "a b c"


@pytest.mark.parametrize("count", [10, 100_000])
@pytest.mark.parametrize("piece", [ESC, f"{ESC}[", f"{ESC}]", "\x9b", f"{ESC}P{ESC}", f"{ESC}[0", "\x9d\x9b"])
def test_cleaning_costs_no_time(piece, count):
    """A text made to be slow is cleaned as fast as any other."""
    assert_harmless(clean(piece * count))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (1, "1"),
        (123456789, "123456789"),
        (True, "True"),
        (0.5, "0.5"),
        (1.0, "1"),
        (0.1 + 0.2, "0.3"),
        (1e-9, "1e-09"),
        (1234567.0, "1.23457e+06"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        ("\x1b[31mx\n", "x"),
    ],
)
def test_numbers(value, shown):
    """A number has six digits, an int all of them; NaN and infinity are named, nothing is empty."""
    assert shown == number(value)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (0, "0.0s"),
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (10, "10s"),
        (59, "59s"),
        (60, "1m00s"),
        (61.9, "1m01s"),
        (3599.9, "59m59s"),
        (3600, "1h00m"),
        (86399, "23h59m"),
        (86400, "1d00h"),
        (1_000_000, "11d13h"),
        (float("inf"), "inf s"),
        (float("nan"), "nan s"),
        (1e300, "1e+300 s"),
    ],
)
def test_durations(seconds, shown):
    """A duration is shown in its two largest units."""
    assert shown == duration(seconds)


@pytest.mark.parametrize("seconds", [59.5, 59.99])
def test_durations_round_to_what_they_are(seconds):
    """No duration is shown as sixty seconds."""
    assert duration(seconds) in ("59s", "1m00s")


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1536, "1.5 kB"), (10**6, "1.0 MB"), (2.5e9, "2.5 GB"),
     (10**13, "10.0 TB"), (10**16, "10000.0 TB")],
)  # fmt: skip
def test_sizes(count, shown):
    """A size has one decimal and the unit that fits."""
    assert shown == size(count)


def test_sizes_round_to_what_they_are():
    """No size is shown as a thousand of a unit that has a larger one."""
    assert size(999_960) == "1.0 MB"


def test_moments(monkeypatch):
    """A time is shown as the local date and time, to the second or to the millisecond."""
    import time

    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        assert moment(None) == ""
        assert moment(0) == "1970-01-01 01:00:00"
        assert moment(1_790_000_000_123_456_789) == "2026-09-21 16:13:20"
        assert moment(1_790_000_000_123_456_789, exact=True) == "2026-09-21 16:13:20.123"
        assert moment((1 << 63) - 1)[:4] == "2262"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_so_many_of_something():
    """One is one, and none and more are several."""
    assert [counted(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
