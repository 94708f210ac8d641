"""What a monitor remembers: the last moments, in columns, and sums over all of them.

Columns of eight bytes a number, as a monitor may live in the user's process for weeks.
"""

import math
import threading
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from vedette.model import Sample
from vedette.sensing.sensor import Metric, flat_name

_Group = tuple[str, tuple[tuple[str, str], ...]]  # a span and its tags
_NO_INT = -(1 << 63)  # where a moment lacks a number; among floats it is NaN


class Sum(Struct, array_like=True):
    """All moments of one number, added up. Of a counter it is what it has grown by."""

    counter: bool = False
    weighted: float = 0.0
    seconds: float = 0.0
    most: float | int | None = None
    last: float | int | None = None
    total: float | int = 0

    def add(self, value: float, seconds: float, short: bool) -> None:
        """Take a number that stood for so many seconds; a short time says nothing about the most there was."""
        if value != value:  # noqa: PLR0124 - NaN, which would spoil every sum
            return
        if not self.counter:
            self.weighted += value * seconds
            self.seconds += seconds
            if not short and (self.most is None or value > self.most):
                self.most = value
        elif self.last is not None and value > self.last:
            self.total += value - self.last
        self.last = value

    def plus(self, later: "Sum") -> "Sum":
        """Return the sum of two periods."""
        most = max((one.most for one in (self, later) if one.most is not None), default=None)
        last = self.last if later.last is None else later.last
        return Sum(
            later.counter, self.weighted + later.weighted, self.seconds + later.seconds, most, last,
            self.total + later.total,
        )  # fmt: skip

    def told(self) -> dict[str, float | int | None]:
        """Return it as a summary shows it."""
        if self.counter:
            return {"total": self.total}
        mean = self.weighted / self.seconds if self.seconds else None
        return {"mean": mean, "max": self.last if self.most is None else self.most, "last": self.last}


class Column(Struct, array_like=True):
    """One number of one thing, moment after moment."""

    name: str
    span: str
    tags: dict[str, str]
    code: str
    data: bytes


class Sums(Struct, array_like=True):
    """A whole period, added up."""

    by_name: dict[str, Sum] = {}
    seconds: float = 0.0
    samples: int = 0
    missed: int = 0


class Part(Struct, array_like=True):
    """The moments from one on, and the sums of all: what one record tells another."""

    first: int
    t: bytes
    columns: list[Column]
    sums: Sums


class _Kept:
    """A column as it grows; it is shorter than the others while nothing comes for it."""

    __slots__ = ("data", "name", "span", "tags")

    def __init__(self, name: str, span: str, tags: Mapping[str, str], code: str = "q") -> None:
        self.name, self.span, self.tags = name, span, dict(tags)
        self.data: array[Any] = array(code)

    def put(self, n: int, value: float) -> None:
        if len(self.data) < n:
            self.pad(n)
        try:
            self.data.append(value)
        except (TypeError, OverflowError):  # the first that is no small integer
            self.to_floats()
            self.data.append(value)

    def pad(self, n: int) -> None:
        self.data.extend([_NO_INT if self.data.typecode == "q" else math.nan] * (n - len(self.data)))

    def to_floats(self) -> None:
        if self.data.typecode == "q":
            self.data = array("d", [math.nan if value == _NO_INT else value for value in self.data])

    def told(self, start: int, end: int) -> list[float | int | None]:
        """Return the numbers between two moments, None where there is none."""
        values = self.data[start:end].tolist()
        if self.data.typecode == "q":
            shown = [None if value == _NO_INT else value for value in values]
        else:
            shown = [None if value != value else value for value in values]  # noqa: PLR0124 - NaN
        return shown + [None] * (end - start - len(shown))


class Record:
    """The memory of one monitor. Any thread may ask, at any time."""

    def __init__(self, keep: int) -> None:
        """Keep so many moments; the sums are of all."""
        self._keep = keep
        self._lock = threading.RLock()  # a signal handler of the user's may ask while its own thread does
        self._t: array[int] = array("q")
        self._gone = 0  # moments that are kept no longer
        self._columns: dict[str, _Kept] = {}
        self._groups: dict[_Group, dict[str, tuple[_Kept, Sum]]] = {}  # where to find them, quickly
        self._counters: frozenset[str] = frozenset()
        self._before = Sums()  # of earlier periods
        self._now = Sums({})
        self._primed: list[Sample] = []

    def renew_lock(self) -> None:
        """Be usable in a fork child, whatever thread held the lock."""
        self._lock = threading.RLock()

    def begin(self, metrics: Mapping[str, Metric], primed: list[Sample]) -> None:
        """Begin a period: what comes is counted from this first look on."""
        with self._lock:
            self._before, self._now, self._groups = self._total(), Sums({}), {}
            self._counters = frozenset(name for name, metric in metrics.items() if metric.kind == "counter")
            self._primed = primed
            for sample in primed:
                for name, value in sample.values.items():
                    if name in self._counters:
                        flat = flat_name(name, sample.span, sample.tags)
                        self._now.by_name[flat] = Sum(counter=True, last=value)

    def add(self, samples: Iterable[Sample], t: int, seconds: float, missed: int = 0, *, short: bool = False) -> None:
        """Take a moment that covers so many seconds; a short one says nothing about the most there was."""
        with self._lock:
            n = len(self._t)
            self._t.append(t)
            self._now.seconds += seconds
            self._now.samples += 1
            self._now.missed = missed
            for sample in samples:
                group = self._groups.setdefault((sample.span, tuple(sample.tags.items())), {})
                for name, value in sample.values.items():
                    column, total = group.get(name) or self._enter(group, sample, name)
                    column.put(n, value)
                    total.add(value, seconds, short)
            self._trim()

    def _enter(self, group: dict[str, tuple[_Kept, Sum]], sample: Sample, name: str) -> tuple[_Kept, Sum]:
        flat = flat_name(name, sample.span, sample.tags)
        column = self._columns.setdefault(flat, _Kept(name, sample.span, sample.tags))
        found = group[name] = column, self._now.by_name.setdefault(flat, Sum(name in self._counters))
        return found

    def _trim(self) -> None:
        over = len(self._t) - self._keep
        if over <= self._keep // 4:
            return
        self._gone += over
        del self._t[:over]
        for flat, column in list(self._columns.items()):
            del column.data[:over]
            if not column.data:  # a thing that has gone for good, an interface say
                del self._columns[flat]
        self._groups = {}

    def _total(self) -> Sums:
        old, new = self._before, self._now
        by_name = {**old.by_name, **new.by_name}
        for flat in old.by_name.keys() & new.by_name.keys():
            by_name[flat] = old.by_name[flat].plus(new.by_name[flat])
        return Sums(by_name, old.seconds + new.seconds, old.samples + new.samples, old.missed + new.missed)

    def _window(self) -> tuple[int, int]:
        return max(0, len(self._t) - self._keep), len(self._t)

    def stats(self) -> dict[str, list[Any]]:
        """Return the moments that are kept, a list for each number; None where a moment lacks it."""
        with self._lock:
            start, end = self._window()
            told: dict[str, list[Any]] = {"t": self._t[start:end].tolist()}
            told |= {flat: column.told(start, end) for flat, column in self._columns.items()}
        return told

    def summary(self) -> dict[str, Any]:
        """Return the mean over time, the most and the last of each number, and how far each counter went."""
        with self._lock:
            total = self._total()
            told: dict[str, Any] = {flat: one.told() for flat, one in total.by_name.items()}
        return told | {"seconds": total.seconds, "samples": total.samples, "missed": total.missed}

    def moments(self) -> list[list[Sample]]:
        """Return the moments that are kept, as they were handed to the sinks."""
        with self._lock:
            start, end = self._window()
            times = self._t[start:end].tolist()
            columns = [(one.span, one.tags, one.name, one.told(start, end)) for one in self._columns.values()]
        groups: dict[_Group, list[tuple[str, list[Any]]]] = {}
        for span, tags, name, values in columns:
            groups.setdefault((span, tuple(tags.items())), []).append((name, values))
        found = []
        for n, t in enumerate(times):
            moment = []
            for (span, pairs), inside in groups.items():
                here = {name: column[n] for name, column in inside if column[n] is not None}
                if here:
                    moment.append(Sample(t, t // 10**6, here, span, dict(pairs)))
            found.append(moment)
        return found

    @property
    def primed(self) -> list[Sample]:
        """The first look of the period, which every later one is measured from; it has counters and no rates."""
        return self._primed

    def part(self, since: int) -> Part:
        """Return the moments from this number on, and the sums of all."""
        with self._lock:
            start = max(0, since - self._gone)
            columns = [
                Column(one.name, one.span, one.tags, one.data.typecode, one.data[start:].tobytes())
                for one in self._columns.values()
            ]
            return Part(self._gone + start, self._t[start:].tobytes(), columns, self._now)

    def absorb(self, part: Part) -> int:
        """Take in moments that another record has told; return the number of the next."""
        with self._lock:
            n = len(self._t)
            self._t.frombytes(part.t)
            for told in part.columns:
                data: array[Any] = array(told.code)
                data.frombytes(told.data)
                flat = flat_name(told.name, told.span, told.tags)
                column = self._columns.get(flat)
                if column is None:
                    column = self._columns[flat] = _Kept(told.name, told.span, told.tags, told.code)
                if column.data.typecode != told.code:
                    column.to_floats()
                    data = array("d", [math.nan if value == _NO_INT else value for value in data])
                column.pad(n)
                column.data.extend(data)
            self._now = part.sums
            came = len(self._t) - n
            self._trim()
            return part.first + came
