"""Takes numbers from what a command prints: from tqdm's postfix, and by the patterns of `vedette run --metric`.

A pattern is the user's and may take for ever on some line. It runs here, between two chunks of output, so its time is
limited: for one line by a timer that breaks it off, and in the long run to a small share of the time.
"""

import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import NamedTuple

from vedette.errors import VedetteError
from vedette.model import Value
from vedette.sources.bars import Bar
from vedette.sources.numbers import Steps, name_before, number, pairs, step

AUTO = "auto"
_LINE_S = 0.1  # of CPU; a pattern that takes longer for one line is given up
_BURST_S, _SHARE = 0.5, 0.1  # all patterns together: so long at once, then this share of the time
_LONGEST = 2000  # characters of a line that are searched
_LOOK_S = 1.0  # how often we look whether the program logs numbers itself
_MOST_NAMES = 500
_MOST_BARS = 1000  # that are remembered, so that a bar that follows one of them counts on
_MOST_ALIKE = 100  # descriptions that differ only by their digits
_USUAL_TIMES = 2  # that tqdm draws a position at most, if it counts each iteration
_OUTPUT = "output"  # whose numbers those of lines are
_DIGITS = re.compile(r"[\W\d_]+")
_STEPS = ("step", "epoch", "iter")

Log = Callable[[Mapping[str, float], int], None]
Say = Callable[[str, str, int, dict[str, Value]], None]


class _TooSlowError(Exception):
    """A pattern took too long."""


def compiled(texts: Sequence[str]) -> list[re.Pattern[str]]:
    """Return the patterns of --metric, without `auto`; raise an error in a sentence if one cannot be used."""
    found = []
    for text in texts:
        if text == AUTO:
            continue
        try:
            pattern = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise VedetteError(f"--metric {text!r} is not a regular expression: {error}") from None
        if not pattern.groups:
            raise VedetteError(f"--metric {text!r} has no group: put the number in parentheses, as in 'loss=([0-9.]+)'")
        if {"name", "value"} & pattern.groupindex.keys() and not {"name", "value"} <= pattern.groupindex.keys():
            raise VedetteError(f"--metric {text!r}: the groups 'name' and 'value' go together")
        found.append(pattern)
    return found


class _Drawn(NamedTuple):
    """The drawings of a bar at its newest position, whose numbers are not logged yet."""

    bar: Bar
    base: int  # the positions of the bars before it: each epoch's bar begins at 0
    first: dict[str, float]  # the numbers of the first drawing that has some
    values: dict[str, float]  # those of the last one
    times: int = 1  # how often it was drawn
    logged: tuple[int, dict[str, float]] = (-1, {})  # the position and the numbers of this bar that were logged last
    from_0: bool = False  # it had numbers at position 0: those of an iteration are drawn before it is counted

    def again(self, bar: Bar, values: dict[str, float]) -> "_Drawn":
        """Return it with one more drawing of the same position."""
        first, last = self.first or values, values or self.values
        return self._replace(bar=bar, first=first, values=last, times=self.times + 1)

    def left_behind(self) -> "_Drawn":
        """Return it with the numbers of its position, now that the bar has moved on.

        tqdm draws a position when it gets there, and once more when its numbers are set. More drawings are of later
        iterations: in a fast loop tqdm does not count on with each of them, but draws whenever a number is set.
        """
        return self._replace(values=self.first) if self.times > _USUAL_TIMES else self


class Metrics:
    """Logs the numbers of a command's output. Its methods are called in the main thread, because of the timer."""

    def __init__(self, log: Log, say: Say, texts: Sequence[str], logs_itself: Callable[[], bool]) -> None:
        """`logs_itself`: the program logs numbers; then those of its bars are left alone."""
        self._log, self._say, self._logs_itself = log, say, logs_itself
        self._patterns = compiled(texts)
        self._auto = AUTO in texts
        self._steps = Steps()
        self._names: set[str] = set()
        self._is_full = False  # a number was not logged, as there were too many names
        self._owners: dict[str, str] = {}  # by name of a number: the bar that had it first, or _OUTPUT
        self._bars: dict[str, _Drawn] = {}
        self._descs: dict[str, list[str]] = {}  # by what descriptions have in common: the descriptions, the newest last
        self._at_once: set[str] = set()  # of these, several bars are drawn at the same time
        self._own, self._look_at = False, 0.0
        self._began = time.monotonic()
        self._spent_s = 0.0
        self._skipped = 0
        self._searching = False
        if self._patterns:
            signal.signal(signal.SIGVTALRM, self._on_timer)

    def bar(self, bar: Bar) -> None:
        """Take a drawn bar. Its numbers are logged when it moves on: tqdm draws the same position several times."""
        source = self._source(bar.desc)
        before = self._bars.pop(source, None)
        values = dict(pairs(bar.postfix)) if bar.postfix else {}
        drawn = _Drawn(bar, 0, values, values)
        if before is not None:
            if bar.n < before.bar.n or bar.desc != before.bar.desc:  # a new bar
                self._log_drawn(source, before)
                drawn = drawn._replace(base=before.base + int(before.bar.total or before.bar.n))
            elif bar.n != before.bar.n:
                before = before.left_behind()
                self._log_drawn(source, before)
                logged = (int(before.bar.n), before.values) if before.values else before.logged
                from_0 = before.from_0 or (not before.bar.n and bool(before.values))
                drawn = drawn._replace(base=before.base, logged=logged, from_0=from_0)
            else:
                drawn = before.again(bar, values)
        self._bars[source] = drawn
        if len(self._bars) > _MOST_BARS:
            oldest = next(iter(self._bars))  # the one that was not drawn for longest: it has ended
            self._log_drawn(oldest, self._bars.pop(oldest))

    def _source(self, desc: str) -> str:
        """Return what to call a bar: `epoch` for `epoch 1` and then `epoch 2`, but `worker 1` beside `worker 2`."""
        stem = _DIGITS.sub(" ", desc).strip()
        known = self._descs[stem] = self._descs.pop(stem, [])
        if len(self._descs) > _MOST_BARS:
            forgotten = next(iter(self._descs))
            del self._descs[forgotten]
            self._at_once.discard(forgotten)
        if desc not in known:
            known.append(desc)
            del known[:-_MOST_ALIKE]
        elif known[-1] != desc:  # an older one is drawn again: they run at the same time
            self._at_once.add(stem)
        return desc if stem in self._at_once else stem

    def _log_drawn(self, source: str, drawn: _Drawn) -> None:
        if not drawn.values:
            return
        now = time.monotonic()
        if not self._own and now >= self._look_at:
            self._own, self._look_at = self._logs_itself(), now + _LOOK_S
        at, (before, values) = int(drawn.bar.n), drawn.logged
        if at == drawn.bar.total and (drawn.values == values or (drawn.from_0 and before < at - 1)):
            at -= 1  # the numbers of the last iteration, drawn behind it; the next bar begins at the total
        if not self._own and at > before:
            self._log(self._named(source, drawn.values), drawn.base + at)

    def line(self, text: str) -> None:
        """Take a printed line."""
        if not self._patterns and not self._auto:
            return
        text = text[:_LONGEST]
        found = dict(pairs(text)) if self._auto else {}
        said = step(text)
        for pattern in list(self._patterns):
            for name, value in self._search(pattern, text):
                if name in _STEPS:
                    said = int(value) if 0 <= value < 1 << 53 else said
                else:
                    found[name] = value
        self._log_line(self._named(_OUTPUT, found), said)

    def close(self) -> None:
        """Log what is left."""
        for source, drawn in self._bars.items():
            self._log_drawn(source, drawn)
        self._bars.clear()
        if self._skipped:
            why = "the patterns of --metric took too much time"
            self._say(
                "dropped", f"{self._skipped} lines were not searched for numbers: {why}", 30,
                {"count": self._skipped, "why": why},
            )  # fmt: skip

    def _named(self, source: str, values: Mapping[str, float]) -> dict[str, float]:
        """Return the numbers with the names of their series: whoever comes second with a name has its own before it."""
        named = {}
        for name, value in values.items():
            owner = self._owners.setdefault(name, source) if len(self._owners) < _MOST_NAMES else source
            full = name if owner == source or not source else f"{source}/{name}"
            if full in self._names or len(self._names) < _MOST_NAMES:
                self._names.add(full)
                named[full] = value
            elif not self._is_full:
                self._is_full = True
                why = f"a run takes at most {_MOST_NAMES} names of numbers that are printed"
                text = f"the number {full!r}, and others with new names, are not logged: {why}"
                self._say("dropped", text, 30, {"count": 0, "why": why})
        return named

    def _log_line(self, values: Mapping[str, float], said: int | None) -> None:
        by_step: dict[int, dict[str, float]] = {}
        for name, value in values.items():
            by_step.setdefault(self._steps.at(name, said), {})[name] = value
        for at, together in by_step.items():
            self._log(together, at)

    def _search(self, pattern: re.Pattern[str], text: str) -> list[tuple[str, float]]:
        began = time.thread_time()  # on a busy machine the clock would count what others do
        if self._spent_s > _BURST_S + _SHARE * (time.monotonic() - self._began):
            self._skipped += 1
            return []
        try:
            try:
                self._searching = True
                signal.setitimer(signal.ITIMER_VIRTUAL, _LINE_S)
                return list(_found(pattern, text))
            finally:
                self._searching = False
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _TooSlowError:
            self._patterns.remove(pattern)
            why = f"--metric {pattern.pattern!r} took longer than {_LINE_S:g} s for one line, so vedette gave it up"
            self._say("dropped", f"{why}: simplify it", 30, {"count": 0, "why": why})
            return []
        finally:
            self._spent_s += time.thread_time() - began

    def _on_timer(self, _number: int, _frame: FrameType | None) -> None:
        if self._searching:
            raise _TooSlowError


def _found(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, float]]:
    """Yield the names and numbers that a pattern finds in a line."""
    named = {at: name for name, at in pattern.groupindex.items()}
    for match in pattern.finditer(text):
        if "value" in pattern.groupindex:
            groups = [(match["name"] or "", match["value"])]
        else:
            groups = []
            at = 0
            for group in range(1, pattern.groups + 1):
                if match[group] is not None:
                    groups.append((named.get(group) or name_before(text[at : match.start(group)]), match[group]))
                    at = match.end(group)
        for name, value in groups:
            if name and (read := number(value)) is not None:
                yield name, read
