"""Progress bars that a program draws itself, as tqdm does it, read back as numbers."""

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?[kMGTPEZY]?"
_TIME = r"(?:\d+ days?, )?[\d:]+"
_KNOWN = re.compile(
    r"(?:(?P<desc>.*?): ?)?\s*\d+%(?:\|[^|]*\|)? *"
    rf"(?P<n>{_NUMBER})/(?P<total>{_NUMBER}) \[{_TIME}<(?:{_TIME}|\?),[^\]]*\]"
)
_UNKNOWN = re.compile(rf"(?:(?P<desc>.*?): )?(?P<n>{_NUMBER})[^\d\s\[]* \[{_TIME},[^\]]*/[^\]]*\]")
_SCALES = {unit: 1000.0**power for power, unit in enumerate("kMGTPEZY", 1)}
_MOST = 100  # bars at once; what comes beyond is a line like any other
_LONGEST = 1000  # letters of a bar: nobody draws a longer one


class Bar(NamedTuple):
    """What a drawn bar says; `total` is None where nobody knows it."""

    desc: str
    n: float
    total: float | None

    @property
    def full(self) -> bool:
        """Whether it has come to its end."""
        return self.total is not None and self.n >= self.total


class Tracker(Protocol):
    """What follows one bar."""

    def update(self, completed: float, /) -> object:
        """Say how far it has got."""

    def complete(self) -> object:
        """Say that it is done."""


def read_bar(text: str) -> Bar | None:
    """Return the bar that a line of plain text is; None when it is none."""
    if "[" not in text or len(text) > _LONGEST:
        return None
    text = text.strip()
    if (found := _KNOWN.fullmatch(text)) is not None:
        return Bar(found["desc"] or "", _number(found["n"]), _number(found["total"]))
    if (found := _UNKNOWN.fullmatch(text)) is not None:
        return Bar(found["desc"] or "", _number(found["n"]), None)
    return None


def _number(text: str) -> float:
    return float(text[:-1]) * _SCALES[text[-1]] if text[-1] in _SCALES else float(text)


class Bars:
    """Follows the bars of one program: each drawing moves a tracker, and only how a bar ended is a line."""

    def __init__(self, begin: Callable[[float | None, str], Tracker] | None) -> None:
        """`begin` makes a tracker from a total and a name; None: bars are kept out of the lines, and that is all."""
        self._begin = begin
        self._trackers: dict[tuple[str, float | None], Tracker | None] = {}
        self._last: dict[tuple[str, float | None], tuple[Bar, str]] = {}

    def take(self, text: str) -> tuple[bool, str]:
        """Tell whether a line is the drawing of a bar, and return what of it is a line now: one that is full."""
        bar = read_bar(text)
        if bar is None:
            return False, ""
        key = bar.desc, bar.total
        before = self._last.get(key)
        if before is None and len(self._last) >= _MOST:
            return False, ""
        if before is None or bar.n < before[0].n:  # one of the same name has begun anew
            self._end(key)
            self._trackers[key] = None if self._begin is None else self._begin(bar.total, bar.desc)
            before = None
        self._last[key] = bar, text
        tracker = self._trackers[key]
        if tracker is not None and (before is None or bar.n != before[0].n):
            tracker.update(bar.n)
        if bar.full and (before is None or not before[0].full):
            if tracker is not None:
                tracker.complete()
                self._trackers[key] = None
            return True, text
        return True, ""

    def close(self) -> list[str]:
        """Return how the bars stand that never came to their end; their trackers end with the run."""
        return [text for bar, text in self._last.values() if not bar.full]

    def _end(self, key: tuple[str, float | None]) -> None:
        tracker = self._trackers.pop(key, None)
        if tracker is not None:
            tracker.complete()
