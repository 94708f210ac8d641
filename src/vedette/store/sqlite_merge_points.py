"""Takes in the samples of another store that are not here yet, origin by origin (decisions/006)."""

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from vedette.errors import FormatError
from vedette.model import Id, Int64, Origin, Time
from vedette.store import AHEAD, COPIED, chunks
from vedette.store.foreign_store import ForeignStore, Name, Place, Text, as_object, checked
from vedette.store.sqlite_held import Held
from vedette.store.sqlite_json import to_json

if TYPE_CHECKING:
    from vedette.store.sqlite import SqliteStore

_MOST_ROWS = 1 << 20  # rows on one axis
_STEP_POINTS = 200_000
_STEP_AXES = 64

_Number = float | int | None
_MARK = tuple[Name, Place, Place, Place]
_CHUNK = tuple[Id, Text, Text, _Number | Literal["nan"], Int64 | None, Int64 | None, _Number, _Number, _Number, bytes]


class _Axis(Struct):
    """The row of an axis, its types checked."""

    id: int
    first_n: Place
    last_n: Place
    count: Annotated[int, Meta(ge=1, le=_MOST_ROWS)]
    first_t: Int64
    last_t: Int64
    n: bytes
    t: bytes
    step: bytes


def take_samples(
    store: "SqliteStore", source: ForeignStore, origin: Origin, theirs: int, comes: Callable[[str], int | None]
) -> Iterator[None]:
    """Take in the samples of an origin and then what its marks say, in steps.

    `theirs`: its number there. `comes`: from which offset on its samples come by themselves; they are counted.
    """
    samples = _Samples(store, source, origin, theirs)
    if comes(origin.name) == 0:
        samples.leave_out()
    else:
        yield from samples.take(comes)


class _Samples:
    def __init__(self, store: "SqliteStore", source: ForeignStore, origin: Origin, theirs: int) -> None:
        self._store = store
        self._source = source
        self._origin = origin
        self._theirs = theirs
        self._until: int | None = None  # only samples up to this offset

    def leave_out(self) -> None:
        """Count all of them as still to come."""
        count = "coalesce(sum(max(0, min(count, ?))), 0)"
        [(found,)] = self._source.read(f"SELECT {count} FROM axes WHERE origin = ?", _MOST_ROWS, self._theirs)
        self._count_left_out(int(found))

    def take(self, comes: Callable[[str], int | None]) -> Iterator[None]:
        """Take them in, some axes per transaction."""
        rows = self._source.read(
            f"SELECT {', '.join(_Axis.__struct_fields__)} FROM axes WHERE origin = ? ORDER BY first_n, id", self._theirs
        )
        with self._store._transaction():
            self._number = self._store._foreign_origin(self._origin)
        self._here = Held(self._store.connection, self._number)
        more = True
        while more:
            self._until = comes(self._origin.name)
            if self._until is not None:  # the hub may have stored some since
                self._here = Held(self._store.connection, self._number)
            points = 0
            with self._store._transaction():
                for _ in range(_STEP_AXES):
                    row = next(rows, None)
                    if row is None:
                        more = False
                        break
                    names = dict(zip(_Axis.__struct_fields__, row, strict=True))
                    with self._source.over("axes"):
                        points += self._take_axis(checked(names, _Axis))
                    if points >= _STEP_POINTS:
                        break
                if not more:
                    self._take_marks()
            yield

    def _take_axis(self, axis: _Axis) -> int:
        """Take in what is new on an axis; return how many points were read."""
        if self._here.has_same(axis.first_n, axis.last_n, axis.count, axis.n):
            return 0
        t, step = chunks.unpack_exactly(axis.t, axis.count), chunks.unpack_exactly(axis.step, axis.count)
        n = chunks.unpack_offsets(axis.n, axis.count)
        if t.dtype != np.int64 or step.dtype != np.int64 or not _is_sound(n, axis):
            raise FormatError("what is taken in has an invalid axis")
        if self._source.lenient and (int(t[0]), int(t[-1])) != (axis.first_t, axis.last_t):
            raise FormatError("what is taken in has an axis with other times than it says")
        new = self._here.new(n)
        if self._until is not None:
            self._count_left_out(int(np.count_nonzero(new & (n > self._until))))
            new &= n <= self._until
        if not new.any():
            return 0
        rows = self._source.read(
            "SELECT series.span, name, tags, last, last_step, series.last_t, chunks.min, chunks.max, sum, value"
            " FROM chunks JOIN series ON series.id = series WHERE axis = ? ORDER BY chunks.id",
            axis.id,
        )
        number: int | None = None
        looked = 0
        for row in rows:
            with self._source.over("chunks"):
                span, name, tags, last, last_step, last_t, *told, packed = checked(row, _CHUNK)
                if self._source.is_purged(span):
                    continue
                value, labels = chunks.unpack_exactly(packed, axis.count), to_json(_strings(tags))
                if self._source.lenient and not _agree(chunks.extremes(value), told):
                    raise FormatError("what is taken in has a chunk with other numbers than it says")
                if last_t is None:  # the row of its series is lost
                    last, last_step, last_t = _last(value), int(step[-1]), int(t[-1]) * 1000
                looked += axis.count
                if not new.all():
                    value, packed = value[new], chunks.pack(value[new])
                if number is None:
                    number = self._keep_axis(axis, n, t, step, new)
                series = self._store.writer.series_number(span, name, labels)
                low, high, total = chunks.extremes(value)
                self._store.connection.execute(
                    "INSERT INTO chunks (series, axis, min, max, sum, value) VALUES (?, ?, ?, ?, ?, ?)",
                    (series, number, low, high, total, packed),
                )
                self._store.writer.count([(len(value), low, high, last, last_step, last_t, series)])
                self._source.taken.points += len(value)
                self._source.taken.touched.add(span)
        return looked

    def _count_left_out(self, count: int) -> None:
        if count:
            self._source.taken.to_come[self._origin.name] += count

    def _keep_axis(self, axis: _Axis, n: Any, t: Any, step: Any, new: Any) -> int:
        run = self._store.connection.execute
        if new.all():
            cursor = run(
                "INSERT INTO axes (origin, first_n, last_n, count, first_t, last_t, t, step, n)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (self._number, axis.first_n, axis.last_n, axis.count, int(t[0]), int(t[-1]), axis.t, axis.step, axis.n),
            )
            assert cursor.lastrowid is not None
            number = cursor.lastrowid
        else:
            number = self._store.writer.keep_axis(self._number, n[new], t[new], step[new])
        self._store.move_mark(self._number, AHEAD, int(n[new][-1]))
        return number

    def _take_marks(self) -> None:
        """Note what its marks say, beside those that say what is here (COPIED)."""
        marks = self._source.read(
            "SELECT substr(lane, 1, 1), max(place), max(damaged), max(refused) FROM marks"
            " WHERE origin = ? AND lane IN ('f', 's', 'f<', 's<') GROUP BY 1",
            self._theirs,
        )
        run = self._store.connection.execute
        for row in marks:
            lane, *counts = checked(row, _MARK)
            self._store.move_mark(self._number, COPIED[lane], *counts)
        [(heard,)] = self._source.read("SELECT heard_t FROM origins WHERE id = ?", self._theirs)
        heard = min(checked(heard, Time), time.time_ns())  # nobody was heard in the future
        run("UPDATE origins SET heard_t = max(heard_t, ?) WHERE id = ?", (heard, self._number))


def _last(value: NDArray[Any]) -> Any:
    last = value[-1].item()
    return "nan" if isinstance(last, float) and math.isnan(last) else last


def _agree(found: tuple[float | None, float | None, float], told: list[_Number]) -> bool:
    """Tell whether min, max and sum of a chunk are as they were; another machine may have added in another order."""
    return found[:2] == tuple(told[:2]) and told[2] is not None and math.isclose(found[2], told[2], rel_tol=1e-6)


def _is_sound(n: NDArray[Any], axis: _Axis) -> bool:
    ends = int(n[0]) == axis.first_n and int(n[-1]) == axis.last_n
    return n.dtype == np.int64 and ends and bool(np.all(n[1:] > n[:-1]))


def _strings(tags: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in as_object(tags).items()}
