"""What a program prints, cut into lines as a person would read them."""

from typing import NamedTuple

MAX_LINE = 64 << 10  # characters; a longer line is cut into several


class Line(NamedTuple):
    """A line as it stands; one that is not `over` has been drawn over an earlier one, and may be drawn over again."""

    text: str
    over: bool


class Lines:
    """Cuts a stream of text into lines.

    A carriage return begins the line anew, as a progress bar does it: what it held is handed out as not `over`, so
    that a bar can be recognised, and only what stands when the line ends is the line.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.pending = ""  # printed, and not over yet

    def feed(self, text: str) -> list[Line]:
        """Take in what was printed; return the lines that came out of it."""
        found = []
        *whole, rest = (self.pending + text).split("\n")
        for raw in whole:
            *redrawn, last = raw.removesuffix("\r").split("\r")
            found += [Line(part, over=False) for part in redrawn if part]
            found += [Line(part, over=True) for part in _pieces(last)]
        carried = rest.endswith("\r")  # may be half of a line's end
        *redrawn, rest = rest.removesuffix("\r").split("\r")
        found += [Line(part, over=False) for part in redrawn if part]
        while len(rest) > MAX_LINE:
            found.append(Line(rest[:MAX_LINE], over=True))
            rest = rest[MAX_LINE:]
        self.pending = rest + "\r" * carried
        return found

    def flush(self) -> list[Line]:
        """Return the last line, which nobody ended."""
        rest, self.pending = self.pending.removesuffix("\r"), ""
        return [Line(part, over=True) for part in _pieces(rest)] if rest else []


def _pieces(text: str) -> list[str]:
    return [text[at : at + MAX_LINE] for at in range(0, len(text), MAX_LINE)] or [""]
