"""Makes untrusted text safe for a terminal: only printable characters stay, and colours if they are wanted.

A complete escape sequence is dropped as a whole, an incomplete one byte by byte, so that the readable text stays.
Characters that hide, reorder or overlay text are dropped too.
"""

import re
from collections.abc import Iterator

RESET = "\x1b[0m"
_TAB = 8
_MOST_CHARS = 200_000
_MOST_LINE = 4000

# Complete sequences first: CSI, then strings (OSC, DCS, SOS, PM, APC) that end on the same line, then two-byte ones.
# No alternative looks further than the next introducer, so that hostile text takes no more time than long text.
_TOKENS = re.compile(
    r"(?:\x1b\[|\x9b)(?P<numbers>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\n\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    # Controls except newline and tab; characters without width; characters that change the direction of others.
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
    r"|(?P<surrogate>[\ud800-\udfff])"
)
_LONE_RETURN = re.compile(r"\r+\n?")
_SET = {1: "1", 2: "2", 3: "3", 4: "4", 7: "7", 9: "9", 21: "4"}
_UNSET = {22: ("1", "2"), 23: ("3",), 24: ("4",), 27: ("7",), 29: ("9",)}


def bare(text: str) -> str:
    """Return text without escape codes and control characters; tabs stay, and long text is not cut."""
    if text.isascii() and text.isprintable():
        return text
    return _TOKENS.sub(_escape_surrogate, text.replace("\r\n", "\n"))


def _escape_surrogate(found: re.Match[str]) -> str:
    return f"\\u{ord(found['surrogate']):04x}" if found["surrogate"] else ""


def plain(text: str) -> str:
    """Return only the printable characters, spaces and newlines of a text."""
    return "".join(part for part, _ in _parts(text))


def painted(text: str) -> str:
    """Return the same with its colours, written as our own codes; no colour stays on after the end of a line."""
    out = []
    for part, style in _parts(text):
        if not style or part == "\n":
            out.append(part)
        else:
            out.append(f"\x1b[{style}m{part}{RESET}")
    return "".join(out)


def one_line(text: str) -> str:
    """Return text on one line; a very long text is cut."""
    return " ".join(plain(text[:_MOST_LINE]).split())


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield parts of printable text with the codes of their style; a newline is a part, tabs become spaces."""
    if len(text) > _MOST_CHARS:
        text = f"{text[:_MOST_CHARS]} (and {len(text) - _MOST_CHARS} characters more)"
    text = _LONE_RETURN.sub("\n", text)
    style: dict[str, str] = {}
    column = at = 0
    for found in _TOKENS.finditer(text):
        if found.start() > at:
            for part, column in _lines(text[at : found.start()], column):  # noqa: B007, B020 - it is carried on
                yield part, ";".join(style.values())
        at = found.end()
        if found["final"] == "m" and not found["between"]:
            _apply(style, found["numbers"])
        elif found["surrogate"]:
            yield _escape_surrogate(found), ";".join(style.values())
            column += 6
    for part, _ in _lines(text[at:], column):
        yield part, ";".join(style.values())


def _lines(text: str, column: int) -> Iterator[tuple[str, int]]:
    """Split text at newlines, and turn tabs into spaces; yield each part with the column after it."""
    for number, line in enumerate(text.split("\n")):
        if number:
            column = 0
            yield "\n", column
        *cells, last = line.split("\t")
        for cell in cells:
            column += len(cell)
            gap = _TAB - column % _TAB
            column += gap
            yield cell + " " * gap, column
        column += len(last)
        if last:
            yield last, column


def _apply(style: dict[str, str], numbers: str) -> None:
    """Change a style by the numbers of an SGR sequence; ignore blinking, concealing and unknown numbers."""
    if any(char not in "0123456789;:" for char in numbers):
        return
    groups = [[int(word[:5]) if word else 0 for word in group.split(":")] for group in numbers.split(";")]
    codes = iter(groups)
    for group in codes:
        code = group[0]
        if code in (38, 48):
            if len(group) == 1:
                group = [code, *(more[0] for more in _take(codes))]  # noqa: PLW2901 - the numbers that belong to it
            if colour := _colour(group):
                style[str(code)] = f"{code};{colour}"
        elif code == 0:
            style.clear()
        elif code in _SET:
            style[_SET[code]] = _SET[code]
        elif code in _UNSET:
            for key in _UNSET[code]:
                style.pop(key, None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["38"] = str(code)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["48"] = str(code)
        elif code in (39, 49):
            style.pop(str(code - 1), None)


def _take(codes: Iterator[list[int]]) -> Iterator[list[int]]:
    """Take the numbers of a colour that is written with semicolons: 5;N or 2;R;G;B."""
    kind = next(codes, [0])
    yield kind
    for _ in range({5: 1, 2: 3}.get(kind[0], 0)):
        yield next(codes, [0])


def _colour(group: list[int]) -> str:
    if len(group) >= 3 and group[1] == 5 and group[2] <= 255:
        return f"5;{group[2]}"
    if len(group) >= 5 and group[1] == 2 and all(number <= 255 for number in group[-3:]):
        return ";".join(["2", *map(str, group[-3:])])
    return ""
