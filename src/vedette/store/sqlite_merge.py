"""Takes in another store: all records that it has and this one lacks (decisions/006).

A record has the same key (origin, lane, n) everywhere, so taking in is a union of sets: it works in any order and any
number of times. The source is read in one snapshot and never written to.
"""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from vedette import wire
from vedette.errors import FormatError
from vedette.fold import Claim, Folded, OriginProgress, Write, flatten
from vedette.model import LANE_FACTS, PURGED, Event, Fact, Id, Int64, Origin, Span, Time, shallow
from vedette.store import Mark, Taken
from vedette.store.foreign_store import ForeignStore, Name, Place, Text, as_object, checked
from vedette.store.sqlite_bounds import knows
from vedette.store.sqlite_json import to_json
from vedette.store.sqlite_merge_points import take_samples
from vedette.store.sqlite_read import SqliteReader

if TYPE_CHECKING:
    from vedette.store.sqlite import SqliteStore

_STEP_ROWS = 200  # spans or events in a transaction

_CLAIM = tuple[Text, Time, str, Name, Text]
_WRITE = tuple[Time, Name, Place, bytes]
_PROGRESS = tuple[Name, Place, Time, float | None, float | None]
_EVENT = tuple[Id, Time, str, Int64, Text, Text, Int64, Place]
_BLOB = tuple[Id, Text, str, Int64, str, Time, Name, Place]


def absorb(
    store: "SqliteStore",
    reader: SqliteReader,
    comes: Callable[[str], int | None],
    mask: Callable[[Fact], Fact] | None,
    *,
    lenient: bool,
) -> Iterator[Taken]:
    """Take in all that another store has; the Store protocol says what is promised."""
    source = ForeignStore(reader.connection, mask, lenient=lenient)
    coming = _Coming(store, source, comes)
    with source.snapshot():
        try:
            numbers = _origins(source)
            for _ in _spans(store, source, coming):
                yield source.taken
            source.purged |= _purged(store)
            for _ in itertools.chain(_events(store, source, numbers, coming), _blobs(store, source, coming)):
                yield source.taken
            for number, origin in numbers.items():
                for _ in take_samples(store, source, origin, number, comes):
                    yield source.taken
        except sqlite3.DatabaseError as error:  # not a disk error, which is a StoreError: the data is wrong
            raise FormatError(f"what is taken in cannot be stored: {error}") from None
    yield source.taken


class _Coming:
    """Knows what comes by itself: of an origin that comes now, the facts behind its mark. It counts what is left out.

    The real record would be taken for a known one when it comes, whatever is said here under its offset. Claims and
    progress are not of any offset, and all of them are taken: they add up to the same whoever brings them.
    """

    def __init__(self, store: "SqliteStore", source: ForeignStore, comes: Callable[[str], int | None]) -> None:
        self._store = store
        self._source = source
        self._comes = comes
        self._from: dict[str, int | None] = {}

    def next_step(self) -> None:
        """Look again: others may have written since the last transaction."""
        self._from.clear()

    def leaves_out(self, origin: str, n: int) -> bool:
        """Tell whether a fact comes by itself, and count it then."""
        if origin not in self._from:
            self._from[origin] = self._mark(origin) if self._comes(origin) is not None else None
        mark = self._from[origin]
        if mark is None or n <= mark:
            return False
        self._source.taken.to_come[origin] += 1
        return True

    def leaves_out_all(self, theirs: Folded) -> bool:
        """Leave out of a span's records what comes by itself; tell whether that is all of it."""
        writes = theirs.writes
        theirs.writes = {key: write for key, write in writes.items() if not self.leaves_out(*key)}
        return bool(writes) and not (theirs.claims or theirs.writes or theirs.progress)

    def _mark(self, origin: str) -> int | None:
        marks = self._store.marks([origin])
        if any(known.endswith(">") for _, known in marks):  # it comes to another hub, and not to this store
            return None
        return marks.get((origin, LANE_FACTS), Mark()).offset


def _origins(source: ForeignStore) -> dict[int, Origin]:
    columns = "name, host, boot, pid, started, span, process, main, voice"
    origins = {}
    for number, *row in source.read(f"SELECT id, {columns} FROM origins ORDER BY id"):
        fields = dict(zip(columns.split(", "), row, strict=True)) | {"main": bool(row[7])}
        with source.over("origins"):
            origins[int(number)] = checked(fields, Origin)
    return origins


def _spans(store: "SqliteStore", source: ForeignStore, coming: _Coming) -> Iterator[None]:
    """Take in spans, but for those that are purged there: of them nothing is taken in."""
    ids = source.read("SELECT id FROM spans ORDER BY id")
    while some := list(itertools.islice(ids, _STEP_ROWS)):
        news: dict[str, list[Any] | Folded] = {}
        coming.next_step()
        with store._transaction():
            for (span,) in some:
                with source.over("spans"):
                    theirs = _load(source, checked(span, Id))
                    if any(claim.state == PURGED for claim in theirs.claims):
                        source.purged.add(span)  # not here: only the owner of a home removes something for good
                    elif coming.leaves_out_all(theirs):
                        continue
                    elif not knows(store._load(span), theirs) or not _is_here(store, span):
                        news[span] = theirs
            before = store.connection.total_changes
            store._keep_spans(news)
            if store.connection.total_changes != before:
                source.taken.spans += len(news)
                source.taken.touched |= news.keys()
        yield


def _is_here(store: "SqliteStore", span: str) -> bool:
    return store.connection.execute("SELECT 1 FROM spans WHERE id = ?", (span,)).fetchone() is not None


def _load(source: ForeignStore, span: str) -> Folded:
    """Read the records of a span, and check them."""

    def masked(**said: Any) -> Span:
        found = source.mask(Span(span, 0, **said))
        assert isinstance(found, Span)
        return found

    claims = []
    for row in source.read("SELECT state, t, voice, origin, cause FROM claims WHERE span = ?", span):
        state, t, voice, origin, cause = checked(row, _CLAIM)
        claims.append(Claim(state, t, voice, origin, masked(cause=cause).cause))
    writes = []
    for row in source.read("SELECT t, origin, n, attrs FROM writes WHERE span = ?", span):
        t, origin, n, attrs = checked(row, _WRITE)
        try:
            writes.append(Write(t, origin, n, flatten(masked(attrs=shallow(_decode_attrs(attrs))).attrs)))
        except wire.UNREADABLE as error:
            raise FormatError(f"what is taken in has attributes that cannot be read: {error}") from None
    progress = {
        row[0]: OriginProgress(*row[1:])
        for row in (
            checked(row, _PROGRESS)
            for row in source.read("SELECT origin, n, t, at, added FROM progress WHERE span = ?", span)
        )
    }
    return Folded(claims, writes, progress)


_decode_attrs = msgspec.msgpack.Decoder(dict[str, Any]).decode


def _events(store: "SqliteStore", source: ForeignStore, numbers: dict[int, Origin], coming: _Coming) -> Iterator[None]:
    rows = source.read("SELECT span, t, kind, level, text, attrs, origin, n FROM events ORDER BY id")
    while some := list(itertools.islice(rows, _STEP_ROWS)):
        coming.next_step()
        with store._transaction():
            for row in some:
                with source.over("events"):
                    _take_event(store, source, numbers, coming, *checked(row, _EVENT))
        yield


def _take_event(
    store: "SqliteStore", source: ForeignStore, numbers: dict[int, Origin], coming: _Coming, *row: Any
) -> None:
    span, t, kind, level, text, attrs, number, n = row
    if number not in numbers:
        raise FormatError("what is taken in has an event without an origin")
    if source.is_purged(span) or coming.leaves_out(numbers[number].name, n):
        return
    event = source.mask(Event(span, t, kind, level, text, as_object(attrs)))
    assert isinstance(event, Event)
    added = store.connection.execute(
        "INSERT OR IGNORE INTO events (span, t, kind, level, text, attrs, origin, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (span, t, kind, level, event.text, to_json(event.attrs), store._foreign_origin(numbers[number]), n),
    ).rowcount
    if added:
        source.taken.events += 1
        source.taken.touched.add(span)


def _blobs(store: "SqliteStore", source: ForeignStore, coming: _Coming) -> Iterator[None]:
    rows = source.read("SELECT span, name, digest, size, media, t, origin, n FROM blobs")
    while some := list(itertools.islice(rows, _STEP_ROWS)):
        coming.next_step()
        with store._transaction():
            for row in some:
                with source.over("blobs"):
                    found = checked(row, _BLOB)
                    if not source.is_purged(found[0]) and not coming.leaves_out(*found[-2:]):
                        store.connection.execute(
                            "INSERT OR IGNORE INTO blobs (span, name, digest, size, media, t, origin, n)"
                            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                            found,
                        )
        yield


def _purged(store: "SqliteStore") -> set[str]:
    return {row[0] for row in store.connection.execute("SELECT id FROM spans WHERE state = ?", (PURGED,))}
