"""A program's output, cut into the lines that a person would see."""

from typing import NamedTuple

MAX_LINE = 64 << 10  # characters of a line; a longer line is cut into several


class Line(NamedTuple):
    """A line. If `over` is False it is an intermediate state, such as of a progress bar, that was drawn over."""

    text: str
    over: bool
    begins: bool = True  # False: it goes on with a longer line, which was cut


class Lines:
    """Cuts a stream of text into lines.

    A carriage return starts the line again, as progress bars do. The text before it is returned with `over=False`, so
    that a bar can be recognised; the text after the last carriage return is the final line.
    """

    def __init__(self) -> None:
        """Start with no pending text."""
        self.pending = ""  # the text after the last newline
        self._is_cut = False  # the line of the pending text has begun before it

    def feed(self, text: str) -> list[Line]:
        """Add printed text; return the lines that it completes or draws over."""
        found = []
        *whole, rest = (self.pending + text).split("\n")
        for raw in whole:
            *redrawn, last = raw.removesuffix("\r").split("\r")
            found += self._redrawn(redrawn)
            found += self._parts(last)
            self._is_cut = False
        carried = rest.endswith("\r")  # perhaps the first half of "\r\n"
        *redrawn, rest = rest.removesuffix("\r").split("\r")
        found += self._redrawn(redrawn)
        if len(rest) > MAX_LINE:
            *cut, unfinished = self._parts(rest)
            found += cut
            rest, self._is_cut = unfinished.text, True
        self.pending = rest + "\r" * carried
        return found

    def flush(self) -> list[Line]:
        """Return the last line, which has no newline."""
        rest, self.pending = self.pending.removesuffix("\r"), ""
        found = self._parts(rest) if rest else []
        self._is_cut = False
        return found

    def _redrawn(self, parts: list[str]) -> list[Line]:
        """Return what was drawn over; the text behind it begins a line."""
        if parts:
            self._is_cut = False
        return [Line(part, over=False) for part in parts if part]

    def _parts(self, text: str) -> list[Line]:
        """Return a line in parts that are not too long."""
        starts = range(0, len(text), MAX_LINE) or [0]
        return [Line(text[at : at + MAX_LINE], over=True, begins=not at and not self._is_cut) for at in starts]
