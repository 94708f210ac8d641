"""A program's output, cut into the lines that a person would see."""

from typing import NamedTuple

MAX_LINE = 64 << 10  # characters of a line; a longer line is cut into several


class Line(NamedTuple):
    """A line. If `over` is False it is an intermediate state, such as of a progress bar, that was drawn over."""

    text: str
    over: bool


class Lines:
    """Cuts a stream of text into lines.

    A carriage return starts the line again, as progress bars do. The text before it is returned with `over=False`, so
    that a bar can be recognised; the text after the last carriage return is the final line.
    """

    def __init__(self) -> None:
        """Start with no pending text."""
        self.pending = ""  # the text after the last newline

    def feed(self, text: str) -> list[Line]:
        """Add printed text; return the lines that it completes or draws over."""
        found = []
        *whole, rest = (self.pending + text).split("\n")
        for raw in whole:
            *redrawn, last = raw.removesuffix("\r").split("\r")
            found += [Line(part, over=False) for part in redrawn if part]
            found += [Line(part, over=True) for part in _parts(last)]
        carried = rest.endswith("\r")  # perhaps the first half of "\r\n"
        *redrawn, rest = rest.removesuffix("\r").split("\r")
        found += [Line(part, over=False) for part in redrawn if part]
        while len(rest) > MAX_LINE:
            found.append(Line(rest[:MAX_LINE], over=True))
            rest = rest[MAX_LINE:]
        self.pending = rest + "\r" * carried
        return found

    def flush(self) -> list[Line]:
        """Return the last line, which has no newline."""
        rest, self.pending = self.pending.removesuffix("\r"), ""
        return [Line(part, over=True) for part in _parts(rest)] if rest else []


def _parts(text: str) -> list[str]:
    return [text[at : at + MAX_LINE] for at in range(0, len(text), MAX_LINE)] or [""]
