"""What keeps. The Store protocol is the specification; `sqlite` is the one that is used.

The store keeps and hands back. What it all means is asked in `query/`, never here (law 6).
`queries` are what it is asked, `rows` what it hands back, `points` columns of numbers on their way in and out.

A store is one SQLite file (`schema.sql`). `sqlite_file` opens it; `sqlite_read` reads spans and events, with
`sqlite_where` for conditions, and `sqlite_read_points` reads points. `sqlite` writes facts, their attributes by
`sqlite_json`; `sqlite_points` writes points, which `chunks` turns into bytes and back. `sqlite_purge` deletes what was
removed for good, `sqlite_held` tells which samples are here, `sqlite_merge` takes in another store. `sqlite_export` and
`archive` write and read runs as one file. `points_view` shows points as a table of SQL.
numpy is imported where points are read or written, and nowhere else.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from vedette.model import Origin
from vedette.store.points import Batch, Block, Columns, Part, Points, by_step, joined
from vedette.store.queries import Both, Compare, Either, EventQuery, Not, SpanQuery, Where
from vedette.store.rows import AHEAD, BlobRow, ChunkRow, EventRow, Mark, OriginRow, SeriesRow, SpanRow, Taken

__all__ = [
    "AHEAD",
    "Batch",
    "BlobRow",
    "Block",
    "Both",
    "ChunkRow",
    "Columns",
    "Compare",
    "Either",
    "EventQuery",
    "EventRow",
    "Mark",
    "Not",
    "OriginRow",
    "Part",
    "Points",
    "Reader",
    "SeriesRow",
    "SpanQuery",
    "SpanRow",
    "Store",
    "Taken",
    "Where",
    "by_step",
    "joined",
]


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
