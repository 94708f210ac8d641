"""What keeps. The Store protocol is the specification; `sqlite` is the one that is used.

The store keeps and hands back. What it all means is asked in `query/`, never here (law 6).
"""

import bisect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vedette.model import Fact, Origin, Value
from vedette.store.chunks import to_array


class Columns(Struct):
    """Samples of one origin that have span, tags and names in common, in the order they were logged."""

    span: str
    tags: dict[str, str]
    names: tuple[str, ...]
    n: list[int] = []
    t: list[int] = []
    step: list[int] = []
    rows: list[tuple[float | int | bool, ...]] = []

    def block(self) -> "Block":
        """Return the same as arrays."""
        values = tuple(to_array(column) for column in zip(*self.rows, strict=True))
        n, t, step = (np.array(column, dtype=np.int64) for column in (self.n, self.t, self.step))
        return Block(self.span, self.tags, self.names, n, t, step, values)

    def after(self, place: int) -> "Columns":
        """Return the samples behind a place."""
        return self._part(slice(bisect.bisect_right(self.n, place), None))

    def until(self, place: int) -> "Columns":
        """Return the samples up to a place."""
        return self._part(slice(bisect.bisect_right(self.n, place)))

    def _part(self, part: slice) -> "Columns":
        if part.start == 0 and part.stop is None:
            return self
        return Columns(self.span, self.tags, self.names, self.n[part], self.t[part], self.step[part], self.rows[part])


class Block(Struct, eq=False):
    """The same as Columns, but as arrays, one per name: what compresses, travels and is kept."""

    span: str
    tags: dict[str, str]
    names: tuple[str, ...]
    n: NDArray[np.int64]
    t: NDArray[np.int64]  # nanoseconds
    step: NDArray[np.int64]
    values: tuple[NDArray[Any], ...]

    def block(self) -> "Block":
        """Return itself."""
        return self

    def after(self, place: int) -> "Block":
        """Return the samples behind a place."""
        return self._part(slice(int(np.searchsorted(self.n, place, "right")), None))

    def until(self, place: int) -> "Block":
        """Return the samples up to a place."""
        return self._part(slice(int(np.searchsorted(self.n, place, "right"))))

    def _part(self, part: slice) -> "Block":
        n, t, step, *values = (column[part] for column in (self.n, self.t, self.step, *self.values))
        return Block(self.span, self.tags, self.names, n, t, step, tuple(values))


class Batch(Struct):
    """What one lane of one origin has brought, and how far it has got with that."""

    origin: Origin
    lane: str
    place: int
    damaged: int = 0
    refused: int = 0
    facts: list[tuple[int, Fact]] = []
    columns: list[Columns | Block] = []
    start: int = 0  # all that there is from here to `place` is in it
    refusals: dict[str, int] = {}  # points that were left out of it, by the limit that they were over


class Mark(Struct, frozen=True):
    """How far a lane is in the store, and what could not be read before that."""

    place: int = 0
    damaged: int = 0
    refused: int = 0


class SpanRow(Struct, frozen=True, gc=False):
    """A span as all that was heard of it adds up."""

    id: str
    kind: str
    name: str
    parent: str
    state: str
    cause: str
    start_t: int | None
    end_t: int | None
    done: float | None
    attrs: dict[str, Value]


class EventRow(Struct, frozen=True, gc=False):
    """An event, with the process that it came from."""

    id: int
    span: str
    t: int
    kind: str
    level: int
    text: str
    attrs: dict[str, Value]
    host: str
    pid: int


class SeriesRow(Struct, frozen=True, gc=False):
    """A series, and its newest sealed point."""

    id: int
    span: str
    name: str
    tags: dict[str, str]
    count: int
    min: float | None
    max: float | None
    last: float | int | None
    last_step: int | None
    last_t: int | None


class OriginRow(Struct, frozen=True):
    """An origin, when it was last known alive, and what it lost."""

    origin: Origin
    heard_t: int
    damaged: int
    refused: int
    skew_s: float | None = None  # how far its clock is ahead of the one here, where that was measured


class BlobRow(Struct, frozen=True, gc=False):
    """A file that somebody said a span has; its bytes lie beside the store, by their digest."""

    span: str
    name: str
    digest: str
    size: int
    media: str
    t: int
    origin: str
    n: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What names it for ever, and puts it in order."""
        return self.span, self.name, self.origin, self.n


class Points(Struct, frozen=True, eq=False):
    """The points of a series, by step and then time; t is in nanoseconds."""

    step: NDArray[np.int64]
    t: NDArray[np.int64]
    value: NDArray[Any]

    def __len__(self) -> int:
        return len(self.step)


class Part(Struct, frozen=True, eq=False):
    """The points of a series that one process logged; `process` is the span of that process."""

    process: str
    points: Points


class ChunkRow(Struct, frozen=True, gc=False):
    """A chunk of a series, without its points; times in nanoseconds, min and max of the numbers that are numbers."""

    id: int
    process: str
    count: int
    first_t: int
    last_t: int
    min: float | None
    max: float | None
    series: int = 0  # with it, a piece is never taken for another: ids alone come again after a purge


def joined(parts: Sequence[Points]) -> Points:
    """Make one of the points of several, by step and then time."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return Points(empty, empty, np.empty(0))
    return by_step(*(np.concatenate([getattr(part, column) for part in parts]) for column in ("step", "t", "value")))


def by_step(step: NDArray[np.int64], t: NDArray[np.int64], value: NDArray[Any]) -> Points:
    """Put points in order; those that come so cost one look."""
    if np.any((step[1:] < step[:-1]) | ((step[1:] == step[:-1]) & (t[1:] < t[:-1]))):
        order = np.lexsort((t, step))
        step, t, value = step[order], t[order], value[order]
    return Points(step, t, value)


class Taken(Struct):
    """What was new in another store, as far as it has been taken in."""

    spans: int = 0
    events: int = 0
    points: int = 0
    touched: set[str] = set()  # the spans that something has come of; whoever shows it empties it


class Compare(Struct, frozen=True, tag=True):
    """One condition on a span: a field, an operator (= != < <= > >= ~ in), a value."""

    field: str
    op: str
    value: Any


class Both(Struct, frozen=True, tag=True):
    """All of these hold."""

    parts: tuple["Where", ...]


class Either(Struct, frozen=True, tag=True):
    """One of these holds."""

    parts: tuple["Where", ...]


class Not(Struct, frozen=True, tag=True):
    """Its part does not hold."""

    part: "Where"


Where = Compare | Both | Either | Not


class SpanQuery(Struct, frozen=True):
    """Which spans: all conditions that are given must hold. Newest first."""

    kind: str = ""
    parent: str = ""
    parents: tuple[str, ...] = ()  # one of these
    ids: tuple[str, ...] | None = None  # one of these
    prefix: str = ""  # of the id
    name: str = ""
    where: Where | None = None
    limit: int | None = None
    only: tuple[str, ...] | None = None  # of the attributes, these alone: a narrow read of many rows
    order: tuple[str, ...] = ()  # by these fields instead, as `Compare` knows them; -field: falling. None comes last


class EventQuery(Struct, frozen=True):
    """Which events: those of a span and of what hangs below it, or of all; oldest first."""

    span: str = ""
    after: int = 0  # the id of the last event already seen
    kinds: tuple[str, ...] = ()
    level: int = 0
    search: str = ""  # words, as full-text search has them
    last: int | None = None  # only this many, the newest
    before: int | None = None  # the id of the first event already seen
    first: int | None = None  # only this many, the oldest
    from_t: int | None = None
    to_t: int | None = None
    contains: str = ""  # text, in whatever case
    process: str = ""  # said by this one alone


class Reader(Protocol):
    """The half of a store that any number of processes may use at once."""

    def marks(self, origins: Sequence[str] | None = None) -> dict[tuple[str, str], Mark]:
        """Return how far each (origin, lane) is, of these origins or of all."""

    def origins(self, spans: Sequence[str] | None = None, since: int = 0) -> list[OriginRow]:
        """Return who has spoken in these runs (None: in all), and was known alive since then."""

    def spans(self, query: SpanQuery) -> list[SpanRow]:
        """Return spans."""

    def events(self, query: EventQuery) -> list[EventRow]:
        """Return events."""

    def blobs(
        self, span: str = "", after: tuple[str, str, str, int] | None = None, limit: int | None = None
    ) -> list[BlobRow]:
        """Return the files of a span and of what hangs below it, or of all, by their keys; those behind a key."""

    def origin(self, name: str) -> Origin | None:
        """Return who an origin is, as it was first heard."""

    def refusals(self, span: str = "") -> dict[str, int]:
        """Return how many points were over a limit, by its name: of a run's processes, or of all."""

    def series(self, spans: Sequence[str] | None = None, name: str | None = None) -> list[SeriesRow]:
        """Return the series of these spans (None: of all), of this name if one is given."""

    def last_values(self, spans: Sequence[str] | None = None) -> dict[str, dict[str, float | int]]:
        """Return the newest sealed value of each series without tags, by span and name: what lists of runs show."""

    def points(self, series: Sequence[int], within: tuple[int, int] | None = None) -> dict[int, Points]:
        """Return all points of these series, or those from one time to another; little else is read."""

    def parts(self, series: Sequence[int]) -> dict[int, list[Part]]:
        """Return the same points, by the process that logged them."""

    def recent(self, series: Sequence[int], count: int) -> dict[int, Points]:
        """Return the newest points of these series, about so many of each, for a glance: little else is read."""

    def written(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when attributes of these spans were last written: who edits what was read writes at a later time."""

    def advanced(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when it was last said of these spans how far they are."""

    def weigh(self, spans: Sequence[str] | None = None) -> int:
        """Return about how many bytes these spans and their parts take (None: exactly how many are in use in all)."""

    def stretches(self, series: int) -> Iterator[Points]:
        """Yield the points of a series in the order of `points`, a chunk at a time where they lie in that order."""

    def outline(self, series: int) -> list[ChunkRow]:
        """Return the chunks of a series, without their points, in the order in which each process logged them."""

    def chunks(self, rows: Sequence[ChunkRow]) -> Iterator[tuple[ChunkRow, Points]]:
        """Yield these chunks with their points, as they were logged; those that were merged or removed are left out."""

    def columns(self, where: Where, newest: int) -> list[tuple[str, int]]:
        """Return the attributes and series that the newest so many runs which fit have, and how many have each."""

    def projects(self) -> list[str]:
        """Return the projects of all runs, by name."""

    def density(self, span: str, from_t: int, to_t: int, buckets: int) -> list[tuple[int, int, int]]:
        """Return how many events a span and its parts have: (bucket, level, count), of so many buckets of this time."""

    def heed(self, enough: Callable[[], bool]) -> None:
        """Break off what is being read, by an error of the store's, as soon as this is true; it is asked often."""

    def close(self) -> None:
        """Let go of the store."""


class Store(Reader, Protocol):
    """Keeps facts and points, and hands them back.

    One process writes to a store, any number read. A method that writes is one transaction: all of it is kept,
    or it raises and nothing is. What was kept survives the death of any process at once, and a power cut after
    `sync`. The same batch twice is the same as once: facts by (origin, lane, n); samples by their place, since an
    origin's samples come in order, and what lies before its mark is here already.

    A span whose state was said to be `purged` is a tombstone. What it said, all that hangs on it and its parts
    (`id/...`), and the spans that name one of these as parent, with all of theirs, are deleted by `reclaim`; what
    comes later is absorbed, and marks advance. In the end it is the same in whatever order they came.
    """

    def keep(
        self,
        batches: Iterable[Batch],
        heard: Mapping[str, int] | None = None,
        skews: Mapping[str, float] | None = None,
    ) -> None:
        """Keep batches and their marks in one transaction.

        `heard`: origins known alive, and when; `skews`: by how many seconds their clocks are ahead of the one here.
        """

    def sync(self) -> None:
        """Return when all that was kept would survive a power cut."""

    def tidy(self, origin: str) -> int:
        """Merge an origin's short chunks into long ones; return how many were merged."""

    def reclaim(self, budget: int = 1000) -> bool:
        """Delete some of what was purged, or give free space back; return whether there is more to do.

        It is about `budget` pages' worth of work, in one short transaction. What is left is found again after the
        death of any process.
        """

    def absorb(self, source: Reader, live_here: Container[str] = (), *, trusted: bool = True) -> Iterator[Taken]:
        """Take in all that another store has, in steps; each step is one transaction, and hands out what came so far.

        What is here already is passed over, record by record, so that twice is the same as once, in whatever order
        stores are united, and whichever step was the last before a death. Samples and marks of origins in
        `live_here` are left to their own spools. A source that is not `trusted` cannot purge anything.
        Raise FormatError when the source is not what it claims; what came before that stays, and is sound.
        """
