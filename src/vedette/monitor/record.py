"""The memory of a monitor: the last moments, in columns, and sums over all moments.

A column takes eight bytes for each number, since a monitor may live in the user's process for weeks.
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
_NO_INT = -(1 << 63)  # stands for a missing integer; a missing float is NaN


class Sum(Struct, array_like=True):
    """All moments of one number, added up; for a counter, its growth."""

    counter: bool = False
    weighted: float = 0.0
    seconds: float = 0.0
    most: float | int | None = None
    last: float | int | None = None
    total: float | int = 0

    def add(self, value: float, seconds: float, short: bool) -> None:
        """Add a value that held for so many seconds; a value of a short time does not count for the maximum."""
        if value != value:  # noqa: PLR0124 - NaN would make the sums NaN
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

    def summary(self) -> dict[str, float | int | None]:
        """Return mean, maximum and last value; for a counter, its growth."""
        if self.counter:
            return {"total": self.total}
        mean = self.weighted / self.seconds if self.seconds else None
        return {"mean": mean, "max": self.last if self.most is None else self.most, "last": self.last}


class Column(Struct, array_like=True):
    """The values of one number, moment by moment."""

    name: str
    span: str
    tags: dict[str, str]
    code: str
    data: bytes


class Sums(Struct, array_like=True):
    """The sums of one period."""

    by_name: dict[str, Sum] = {}
    seconds: float = 0.0
    samples: int = 0
    missed: int = 0


class Part(Struct, array_like=True):
    """The moments from the number `first` on, and the sums of all: what a monitor process sends to its parent."""

    first: int
    t: bytes
    columns: list[Column]
    sums: Sums


class _Growing:
    """A column that grows; it is shorter than the others while its number is missing."""

    __slots__ = ("data", "name", "span", "tags")

    def __init__(self, name: str, span: str, tags: Mapping[str, str], code: str = "q") -> None:
        self.name, self.span, self.tags = name, span, dict(tags)
        self.data: array[Any] = array(code)

    def put(self, n: int, value: float) -> None:
        if len(self.data) < n:
            self.pad(n)
        try:
            self.data.append(value)
        except (TypeError, OverflowError):  # the first value that is a float or a large integer
            self.to_floats()
            self.data.append(value)

    def pad(self, n: int) -> None:
        self.data.extend([_NO_INT if self.data.typecode == "q" else math.nan] * (n - len(self.data)))

    def to_floats(self) -> None:
        if self.data.typecode == "q":
            self.data = array("d", [math.nan if value == _NO_INT else value for value in self.data])

    def values(self, start: int, end: int) -> list[float | int | None]:
        """Return the values between two moments; None where a value is missing."""
        values = self.data[start:end].tolist()
        if self.data.typecode == "q":
            shown = [None if value == _NO_INT else value for value in values]
        else:
            shown = [None if value != value else value for value in values]  # noqa: PLR0124 - NaN
        return shown + [None] * (end - start - len(shown))


class Record:
    """The memory of one monitor; thread-safe."""

    def __init__(self, keep: int) -> None:
        """Keep the last `keep` moments; the sums cover all moments."""
        self._keep = keep
        self._lock = threading.RLock()  # reentrant: a signal handler of the user's may call us while its thread does
        self._t: array[int] = array("q")
        self._gone = 0  # number of moments that were dropped
        self._columns: dict[str, _Growing] = {}
        self._groups: dict[_Group, dict[str, tuple[_Growing, Sum]]] = {}  # an index, so that `add` is fast
        self._counters: frozenset[str] = frozenset()
        self._from_zero: frozenset[str] = frozenset()
        self._before = Sums()  # of earlier periods
        self._now = Sums({})
        self._primed: list[Sample] = []

    def renew_lock(self) -> None:
        """Make a new lock in a fork child: a thread of the parent may have held the old one."""
        self._lock = threading.RLock()

    def begin(self, metrics: Mapping[str, Metric], primed: list[Sample]) -> None:
        """Begin a period with its first look, from which counters are counted."""
        with self._lock:
            self._before, self._now, self._groups = self._total(), Sums({}), {}
            self._counters = frozenset(name for name, metric in metrics.items() if metric.kind == "counter")
            self._from_zero = frozenset(name for name, metric in metrics.items() if metric.from_zero)
            self._primed = primed
            for sample in primed:
                for name, value in sample.values.items():
                    if name in self._counters:
                        flat = flat_name(name, sample.span, sample.tags)
                        self._now.by_name[flat] = Sum(counter=True, last=value)

    def add(self, samples: Iterable[Sample], t: int, seconds: float, missed: int = 0, *, short: bool = False) -> None:
        """Add a moment that covers so many seconds; a `short` one does not count for maxima."""
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

    def _enter(self, group: dict[str, tuple[_Growing, Sum]], sample: Sample, name: str) -> tuple[_Growing, Sum]:
        flat = flat_name(name, sample.span, sample.tags)
        column = self._columns.setdefault(flat, _Growing(name, sample.span, sample.tags))
        if flat not in self._now.by_name:
            self._now.by_name[flat] = Sum(name in self._counters, last=0 if name in self._from_zero else None)
        found = group[name] = column, self._now.by_name[flat]
        return found

    def _trim(self) -> None:
        over = len(self._t) - self._keep
        if over <= self._keep // 4:
            return
        self._gone += over
        del self._t[:over]
        for flat, column in list(self._columns.items()):
            del column.data[:over]
            if not column.data:  # a thing that does not exist any more, such as an interface
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
        """Return the last moments as a list for each number; None where a moment lacks the number."""
        with self._lock:
            start, end = self._window()
            lists: dict[str, list[Any]] = {"t": self._t[start:end].tolist()}
            lists |= {flat: column.values(start, end) for flat, column in self._columns.items()}
        return lists

    def summary(self) -> dict[str, Any]:
        """Return the mean over time, the maximum and the last value of each number, and the growth of each counter."""
        with self._lock:
            total = self._total()
            by_name: dict[str, Any] = {flat: one.summary() for flat, one in total.by_name.items()}
        return by_name | {"seconds": total.seconds, "samples": total.samples, "missed": total.missed}

    def moments(self) -> list[list[Sample]]:
        """Return the last moments as the samples that were given to the sinks."""
        with self._lock:
            start, end = self._window()
            times = self._t[start:end].tolist()
            columns = [(one.span, one.tags, one.name, one.values(start, end)) for one in self._columns.values()]
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
        """The first look of the period, which later ones are compared with; it has counters but no rates."""
        return self._primed

    def part(self, since: int) -> Part:
        """Return the moments from the number `since` on, and the sums of all."""
        with self._lock:
            start = max(0, since - self._gone)
            columns = [
                Column(one.name, one.span, one.tags, one.data.typecode, one.data[start:].tobytes())
                for one in self._columns.values()
            ]
            return Part(self._gone + start, self._t[start:].tobytes(), columns, self._now)

    def absorb(self, part: Part) -> int:
        """Add the moments of another record; return the number of the next one."""
        with self._lock:
            n = len(self._t)
            self._t.frombytes(part.t)
            for new in part.columns:
                data: array[Any] = array(new.code)
                data.frombytes(new.data)
                flat = flat_name(new.name, new.span, new.tags)
                column = self._columns.get(flat)
                if column is None:
                    column = self._columns[flat] = _Growing(new.name, new.span, new.tags, new.code)
                if column.data.typecode != new.code:
                    column.to_floats()
                    data = array("d", [math.nan if value == _NO_INT else value for value in data])
                column.pad(n)
                column.data.extend(data)
            self._now = part.sums
            came = len(self._t) - n
            self._trim()
            return part.first + came
