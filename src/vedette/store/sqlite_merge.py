"""Takes in another store: all records that it has and this one lacks (decisions/006).

A record has the same key (origin, lane, n) everywhere, so taking in is a union of sets: it works in any order and any
number of times. The source is read in one snapshot and never written to. All that comes from it is checked like data
from a network, since an archive may come from anybody.
"""

import itertools
import json
import sqlite3
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from vedette import wire
from vedette.errors import FormatError
from vedette.fold import Claim, Folded, OriginProgress, Write, flatten
from vedette.ids import above
from vedette.model import PURGED, Event, Fact, Id, Int64, Origin, Span, Time
from vedette.store import AHEAD, COPIED, Taken, chunks
from vedette.store.sqlite_held import Held
from vedette.store.sqlite_json import to_json
from vedette.store.sqlite_read import SqliteReader

if TYPE_CHECKING:
    from vedette.store.sqlite import SqliteStore

_MOST_ROWS = 1 << 20  # rows on one axis
_STEP_ROWS = 200  # spans or events in a transaction
_STEP_POINTS = 200_000
_STEP_AXES = 64

_Mask = Callable[[Fact], Fact]
_Name = Annotated[str, Meta(min_length=1, max_length=512)]
_Text = Annotated[str, Meta(max_length=wire.MAX_PAYLOAD)]
_Place = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_CLAIM = tuple[_Text, Time, str, _Name, _Text]
_WRITE = tuple[Time, _Name, _Place, bytes]
_PROGRESS = tuple[_Name, _Place, Time, float | None, float | None]
_EVENT = tuple[Id, Time, str, Int64, _Text, _Text, Int64, _Place]
_BLOB = tuple[Id, _Text, str, Int64, str, Time, _Name, _Place]
_MARK = tuple[_Name, _Place, _Place, _Place]
_CHUNK = tuple[Id, _Text, _Text, float | int | Literal["nan"] | None, Int64 | None, Int64 | None, bytes]


class _Axis(Struct):
    """The row of an axis, its types checked."""

    id: int
    first_n: _Place
    last_n: _Place
    count: Annotated[int, Meta(ge=1, le=_MOST_ROWS)]
    n: bytes
    t: bytes
    step: bytes


def absorb(
    store: "SqliteStore",
    source: SqliteReader,
    live_here: Container[str] = (),
    mask: _Mask | None = None,
) -> Iterator[Taken]:
    """Take in all that another store has; the Store protocol says what is promised."""
    taken = Taken(touched=set())
    mask = mask or (lambda fact: fact)
    with _snapshot(source.connection):
        try:
            numbers = _origins(source)
            purged: set[str] = set()
            yield from _spans(store, source, purged, taken, mask)
            purged |= _purged(store)
            yield from _events(store, source, numbers, purged, taken, mask)
            yield from _blobs(store, source, purged, taken)
            for number, origin in numbers.items():
                if origin.name not in live_here:
                    yield from _Samples(store, source, origin, number, purged, taken).take(live_here)
        except sqlite3.DatabaseError as error:  # not a disk error, which is a StoreError: the data is wrong
            raise FormatError(f"what is taken in cannot be stored: {error}") from None
    yield taken


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


def _read(connection: sqlite3.Connection, query: str, *bound: Any) -> Iterator[tuple[Any, ...]]:
    """Ask the source; raise FormatError when it cannot be read."""
    try:
        for row in connection.execute(query, bound):  # noqa: UP028 - `yield from` would close a cursor that is gone
            yield row
    except sqlite3.Error as error:
        raise FormatError(f"what is taken in cannot be read: {error}") from None


def _checked(row: Any, form: Any) -> Any:
    try:
        return msgspec.convert(row, form)
    except msgspec.ValidationError as error:
        raise FormatError(f"what is taken in has an invalid row: {error}") from None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"what is taken in has attributes that are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError("what is taken in has attributes that are not an object")
    return value


def _origins(source: SqliteReader) -> dict[int, Origin]:
    columns = "name, host, boot, pid, started, span, process, main, voice"
    origins = {}
    for number, *row in _read(source.connection, f"SELECT id, {columns} FROM origins ORDER BY id"):
        fields = dict(zip(columns.split(", "), row, strict=True)) | {"main": bool(row[7])}
        origins[int(number)] = _checked(fields, Origin)
    return origins


def _spans(store: "SqliteStore", source: SqliteReader, purged: set[str], taken: Taken, mask: _Mask) -> Iterator[Taken]:
    """Take in spans; `purged` gets those that are purged there, of which nothing is taken in."""
    ids = _read(source.connection, "SELECT id FROM spans ORDER BY id")
    while some := list(itertools.islice(ids, _STEP_ROWS)):
        news: dict[str, list[Any] | Folded] = {}
        with store._transaction():
            for (span,) in some:
                theirs = _load(source.connection, _checked(span, Id), mask)
                if any(claim.state == PURGED for claim in theirs.claims):
                    purged.add(span)  # not here: only the owner of a home removes something for good
                    continue
                if not store._load(span).knows(theirs) or not _is_here(store, span):
                    news[span] = theirs
            before = store.connection.total_changes
            store._keep_spans(news)
            if store.connection.total_changes != before:
                taken.spans += len(news)
                taken.touched |= news.keys()
        yield taken


def _is_here(store: "SqliteStore", span: str) -> bool:
    return store.connection.execute("SELECT 1 FROM spans WHERE id = ?", (span,)).fetchone() is not None


def _load(connection: sqlite3.Connection, span: str, mask: _Mask) -> Folded:
    """Read the records of a span from a source that is not trusted; check them."""

    def masked(**said: Any) -> Span:
        found = mask(Span(span, 0, **said))
        assert isinstance(found, Span)
        return found

    claims = []
    for row in _read(connection, "SELECT state, t, voice, origin, cause FROM claims WHERE span = ?", span):
        state, t, voice, origin, cause = _checked(row, _CLAIM)
        claims.append(Claim(state, t, voice, origin, masked(cause=cause).cause))
    writes = []
    for row in _read(connection, "SELECT t, origin, n, attrs FROM writes WHERE span = ?", span):
        t, origin, n, attrs = _checked(row, _WRITE)
        try:
            writes.append(Write(t, origin, n, flatten(masked(attrs=_decode_attrs(attrs)).attrs)))
        except wire.UNREADABLE as error:
            raise FormatError(f"what is taken in has attributes that cannot be read: {error}") from None
    progress = {
        row[0]: OriginProgress(*row[1:])
        for row in (
            _checked(row, _PROGRESS)
            for row in _read(connection, "SELECT origin, n, t, at, added FROM progress WHERE span = ?", span)
        )
    }
    return Folded(claims, writes, progress)


_decode_attrs = msgspec.msgpack.Decoder(dict[str, Any]).decode


def _events(
    store: "SqliteStore", source: SqliteReader, numbers: dict[int, Origin], purged: set[str], taken: Taken, mask: _Mask
) -> Iterator[Taken]:
    rows = _read(source.connection, "SELECT span, t, kind, level, text, attrs, origin, n FROM events ORDER BY id")
    while some := list(itertools.islice(rows, _STEP_ROWS)):
        with store._transaction():
            for row in some:
                span, t, kind, level, text, attrs, number, n = _checked(row, _EVENT)
                if number not in numbers:
                    raise FormatError("what is taken in has an event without an origin")
                if _is_purged(span, purged):
                    continue
                event = mask(Event(span, t, kind, level, text, _object(attrs)))
                assert isinstance(event, Event)
                added = store.connection.execute(
                    "INSERT OR IGNORE INTO events (span, t, kind, level, text, attrs, origin, n)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (span, t, kind, level, event.text, to_json(event.attrs), store._foreign_origin(numbers[number]), n),
                ).rowcount
                if added:
                    taken.events += 1
                    taken.touched.add(span)
        yield taken


def _blobs(store: "SqliteStore", source: SqliteReader, purged: set[str], taken: Taken) -> Iterator[Taken]:
    rows = _read(source.connection, "SELECT span, name, digest, size, media, t, origin, n FROM blobs")
    while some := list(itertools.islice(rows, _STEP_ROWS)):
        with store._transaction():
            checked = [_checked(row, _BLOB) for row in some]
            store.connection.executemany(
                "INSERT OR IGNORE INTO blobs (span, name, digest, size, media, t, origin, n)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [row for row in checked if not _is_purged(row[0], purged)],
            )
        yield taken


def _purged(store: "SqliteStore") -> set[str]:
    return {row[0] for row in store.connection.execute("SELECT id FROM spans WHERE state = ?", (PURGED,))}


def _is_purged(span: str, purged: set[str]) -> bool:
    """Tell whether a span, or one above it, was purged: later records of it are not kept."""
    return bool(purged) and not purged.isdisjoint(above(span))


class _Samples:
    """Imports the samples of one origin that are not here yet, and then its marks."""

    def __init__(
        self, store: "SqliteStore", source: SqliteReader, origin: Origin, theirs: int, purged: set[str], taken: Taken
    ) -> None:
        self._store = store
        self._source = source.connection
        self._origin = origin
        self._theirs = theirs
        self._purged = purged
        self._taken = taken

    def take(self, live_here: Container[str]) -> Iterator[Taken]:
        """Import them, some axes per transaction; stop if the origin begins to log to this home."""
        rows = _read(
            self._source,
            "SELECT id, first_n, last_n, count, n, t, step FROM axes WHERE origin = ? ORDER BY first_n, id",
            self._theirs,
        )
        with self._store._transaction():
            self._number = self._store._foreign_origin(self._origin)
        self._here = Held(self._store.connection, self._number)
        more = True
        while more:
            if self._origin.name in live_here:
                return
            points = 0
            with self._store._transaction():
                for _ in range(_STEP_AXES):
                    row = next(rows, None)
                    if row is None:
                        more = False
                        break
                    names = dict(zip(_Axis.__struct_fields__, row, strict=True))
                    points += self._take_axis(_checked(names, _Axis))
                    if points >= _STEP_POINTS:
                        break
                if not more:
                    self._take_marks()
            yield self._taken

    def _take_axis(self, axis: _Axis) -> int:
        """Import what is new on an axis; return how many points were read."""
        if self._here.has_same(axis.first_n, axis.last_n, axis.count, axis.n):
            return 0
        t, step = chunks.unpack_exactly(axis.t, axis.count), chunks.unpack_exactly(axis.step, axis.count)
        n = chunks.unpack_offsets(axis.n, axis.count)
        if t.dtype != np.int64 or step.dtype != np.int64 or not _is_sound(n, axis):
            raise FormatError("what is taken in has an invalid axis")
        new = self._here.new(n)
        if not new.any():
            return 0
        rows = _read(
            self._source,
            "SELECT series.span, name, tags, last, last_step, series.last_t, value FROM chunks"
            " JOIN series ON series.id = series WHERE axis = ? ORDER BY chunks.id",
            axis.id,
        )
        number: int | None = None
        looked = 0
        for row in rows:
            span, name, tags, last, last_step, last_t, packed = _checked(row, _CHUNK)
            if _is_purged(span, self._purged):
                continue
            value = chunks.unpack_exactly(packed, axis.count)
            looked += axis.count
            if not new.all():
                value, packed = value[new], chunks.pack(value[new])
            if number is None:
                number = self._keep_axis(axis, n, t, step, new)
            series = self._store.writer.series_number(span, name, to_json(_strings(tags)))
            low, high, total = chunks.extremes(value)
            self._store.connection.execute(
                "INSERT INTO chunks (series, axis, min, max, sum, value) VALUES (?, ?, ?, ?, ?, ?)",
                (series, number, low, high, total, packed),
            )
            self._store.writer.count([(len(value), low, high, last, last_step, last_t, series)])
            self._taken.points += len(value)
            self._taken.touched.add(span)
        return looked

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
        self._store.move_mark(self._number, AHEAD, axis.last_n)
        return number

    def _take_marks(self) -> None:
        """Note what its marks say, beside those that say what is here (COPIED)."""
        marks = _read(
            self._source,
            "SELECT substr(lane, 1, 1), max(place), max(damaged), max(refused) FROM marks"
            " WHERE origin = ? AND lane IN ('f', 's', 'f<', 's<') GROUP BY 1",
            self._theirs,
        )
        run = self._store.connection.execute
        for row in marks:
            lane, *counts = _checked(row, _MARK)
            self._store.move_mark(self._number, COPIED[lane], *counts)
        [(heard,)] = _read(self._source, "SELECT heard_t FROM origins WHERE id = ?", self._theirs)
        run("UPDATE origins SET heard_t = max(heard_t, ?) WHERE id = ?", (_checked(heard, Time), self._number))


def _is_sound(n: NDArray[Any], axis: _Axis) -> bool:
    ends = int(n[0]) == axis.first_n and int(n[-1]) == axis.last_n
    return n.dtype == np.int64 and ends and bool(np.all(n[1:] > n[:-1]))


def _strings(tags: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in _object(tags).items()}
