"""Progress bars in a program's output, such as those of tqdm: parsed into numbers."""

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?[kMGTPEZY]?"
_TIME = r"(?:\d+ days?, )?[\d:]+"
_REST = r"[^\],]*(?:,(?P<postfix>.*))?"  # the rate, and what the program shows behind it
_KNOWN = re.compile(
    r"(?:(?P<desc>.*?): ?)?\s*\d+%(?:\|[^|]*\|)? *"
    rf"(?P<n>{_NUMBER})/(?P<total>{_NUMBER}) \[{_TIME}<(?:{_TIME}|\?),{_REST}\]"
)
_UNKNOWN = re.compile(rf"(?:(?P<desc>.*?): )?(?P<n>{_NUMBER})[^\d\s\[]* \[{_TIME},(?=[^\]]*/){_REST}\]")
_SCALES = {unit: 1000.0**power for power, unit in enumerate("kMGTPEZY", 1)}
_MOST = 100  # bars at once; more are treated as ordinary lines
_LONGEST = 1000  # characters of a bar; a longer line is not a bar


class Bar(NamedTuple):
    """The numbers of a drawn bar; `total` is None when it is not known."""

    desc: str
    n: float
    total: float | None
    postfix: str = ""  # what the program shows behind the rate, such as loss=0.1

    @property
    def full(self) -> bool:
        """Whether it has reached its total."""
        return self.total is not None and self.n >= self.total


class Tracker(Protocol):
    """Receives the progress of one bar."""

    def update(self, completed: float, /) -> object:
        """Set how much is done."""

    def complete(self) -> object:
        """Mark it as done."""


def read_bar(text: str) -> Bar | None:
    """Parse a line of plain text as a bar; return None when it is not a bar."""
    if "[" not in text or len(text) > _LONGEST:
        return None
    text = text.strip()
    found = _KNOWN.fullmatch(text) or _UNKNOWN.fullmatch(text)
    if found is None or _holds_a_line(postfix := found["postfix"] or ""):
        return None
    total = _number(found["total"]) if "total" in found.re.groupindex else None
    return Bar(found["desc"] or "", _number(found["n"]), total, postfix.strip())


def _holds_a_line(postfix: str) -> bool:
    """Tell whether a postfix is one and a printed line behind the bar, as in `loss=1][1, 2`; that line must be kept."""
    depth = 0
    for at, letter in enumerate(postfix):
        depth += (letter == "[") - (letter == "]")
        if depth < 0:  # the end of the bar, or a bracket of the program's text, as in `note=a]b`
            return "[" in postfix[at:]
    return False


def _number(text: str) -> float:
    return float(text[:-1]) * _SCALES[text[-1]] if text[-1] in _SCALES else float(text)


class Bars:
    """Follows the bars of one program: each drawing updates a tracker, and only the final one becomes a log line."""

    def __init__(
        self, begin: Callable[[float | None, str], Tracker] | None, seen: Callable[[Bar], None] = lambda _: None
    ) -> None:
        """`begin` makes a tracker from a total and a name; None: bars are only kept out of the log lines.

        `seen` gets each drawing.
        """
        self._begin = begin
        self._seen = seen
        self._trackers: dict[tuple[str, float | None], Tracker | None] = {}
        self._last: dict[tuple[str, float | None], tuple[Bar, str]] = {}

    def take(self, text: str) -> tuple[bool, str]:
        """Tell whether a line is a drawn bar, and return the text to log: the line when the bar is full, else ""."""
        bar = read_bar(text)
        if bar is None:
            return False, ""
        key = bar.desc, bar.total
        before = self._last.get(key)
        if before is None and len(self._last) >= _MOST and not self._forget_full():
            return False, ""
        if before is None or bar.n < before[0].n:  # a new bar of the same name
            self._end(key)
            self._trackers[key] = None if self._begin is None else self._begin(bar.total, bar.desc)
            before = None
        self._last[key] = bar, text
        self._seen(bar)
        tracker = self._trackers[key]
        if tracker is not None and (before is None or bar.n != before[0].n):
            tracker.update(bar.n)
        if bar.full and (before is None or not before[0].full):
            if tracker is not None:
                tracker.complete()
                self._trackers[key] = None
            return True, text
        return True, ""

    def _forget_full(self) -> bool:
        """Make room for one more bar: an epoch may have a bar of its own, and there may be a thousand epochs."""
        key = next((key for key, (bar, _) in self._last.items() if bar.full), None)
        if key is None:
            return False
        del self._last[key]
        self._trackers.pop(key, None)
        return True

    def close(self) -> list[str]:
        """Return the last drawing of each bar that was never full; their trackers end with the run."""
        return [text for bar, text in self._last.values() if not bar.full]

    def _end(self, key: tuple[str, float | None]) -> None:
        tracker = self._trackers.pop(key, None)
        if tracker is not None:
            tracker.complete()
