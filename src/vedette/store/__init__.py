"""The store of a home: facts and points. The Store protocol is the specification; `sqlite` implements it.

The store keeps records and hands them back. What they mean is worked out in `query/`, never here (law 6).
`queries` are the questions to it, `rows` are its answers, `points` are columns of numbers on their way in and out.
`parcels` are batches of records in the form in which one process sends them to another.

A store is one SQLite file (`schema.sql`). `sqlite_file` opens it; `sqlite_read` reads spans and events, with
`sqlite_where` for conditions, and `sqlite_read_points` reads points. `sqlite` writes facts, and their attributes with
`sqlite_json`; `sqlite_points` writes points, which `chunks` turns into bytes and back, `sqlite_few` those of short
groups. `sqlite_purge` deletes what was removed for good, `sqlite_held` tells which samples are here, `sqlite_awaited`
which ends are not complete, `sqlite_bounds` how much of a span is kept.
`sqlite_merge` takes in another store (`foreign_store`), and `sqlite_merge_points` its points; `sqlite_copy` takes in a
copy of a spool, `sqlite_relays` knows which relay has shipped what. `sqlite_connection` turns the errors of SQLite into
ours; `sqlite_mend` and `sqlite_salvage` save what can be read of a damaged store. `sqlite_export` and `archive` write
and read runs as one file; `backup` and `restore` do so with a whole home, in the form of `backup_file`. `points_view`
shows points as an SQL table.
numpy is imported only where points are read or written.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from vedette.model import Fact, Origin
from vedette.store.points import Batch, Block, Columns, Part, Points, by_step, joined
from vedette.store.queries import Both, Compare, Either, EventQuery, Not, SpanQuery, Where
from vedette.store.rows import (
    AHEAD,
    COPIED,
    UNKNOWN_RELAY,
    BlobRow,
    ChunkRow,
    EventRow,
    Mark,
    OriginRow,
    RelayRow,
    SeriesRow,
    SpanRow,
    Taken,
)

__all__ = [
    "AHEAD",
    "COPIED",
    "UNKNOWN_RELAY",
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
    "RelayRow",
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
    """The reading half of a store. Any number of processes may use it at once."""

    def marks(self, origins: Sequence[str] | None = None) -> dict[tuple[str, str], Mark]:
        """Return the mark of each (origin, lane), of these origins or of all."""

    def origins(self, spans: Sequence[str] | None = None, since: int = 0) -> list[OriginRow]:
        """Return the origins of these runs (None: of all runs) that were known alive at `since` or later."""

    def spans(self, query: SpanQuery) -> list[SpanRow]:
        """Return spans."""

    def each_span(self, query: SpanQuery) -> Iterator[SpanRow]:
        """Yield spans: there may be very many, and little is kept of each."""

    def events(self, query: EventQuery) -> list[EventRow]:
        """Return events."""

    def blobs(
        self, span: str = "", after: tuple[str, str, str, int] | None = None, limit: int | None = None
    ) -> list[BlobRow]:
        """Return the files of a span and of the spans below it, or of all, sorted by key; `after`: from that key on."""

    def origin(self, name: str) -> Origin | None:
        """Return an origin by its name, as it was first seen; None if it is unknown."""

    def count_samples(self, origin: str, after: int, until: int) -> int:
        """Return how many samples of an origin are here, of those that lie behind one offset and up to another."""

    def relays(self) -> list[RelayRow]:
        """Return the hubs that have relayed to this one, those that were heard of last first."""

    def holders(self, runs: Sequence[str]) -> dict[str, str]:
        """Return whose each of these runs is: the holder of the relay that began it; the owner's are left out."""

    def delivered(self, digests: Sequence[str], holder: str) -> set[str]:
        """Return those of these files whose bytes some relay of a holder has sent."""

    def delivered_bytes(self, holder: str) -> int:
        """Return how large all files are together that relays of a holder have sent."""

    def refusals(self, span: str = "") -> dict[str, int]:
        """Return how many points each limit has refused, by its name: of a run's processes, or of all."""

    def series(self, spans: Sequence[str] | None = None, name: str | None = None) -> list[SeriesRow]:
        """Return the series of these spans (None: of all), with this name if one is given."""

    def last_values(self, spans: Sequence[str] | None = None) -> dict[str, dict[str, float | int]]:
        """Return the newest sealed value of each series, by span and label, those without tags first."""

    def points(self, series: Sequence[int], within: tuple[int, int] | None = None) -> dict[int, Points]:
        """Return all points of these series, or only those from one time to another, without reading many others."""

    def parts(self, series: Sequence[int]) -> dict[int, list[Part]]:
        """Return the same points, by the process that logged them."""

    def recent(self, series: Sequence[int], count: int) -> dict[int, Points]:
        """Return about `count` of the newest points of each of these series, without reading many others."""

    def written(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when attributes of these spans were last written; an edit must have a later time to win."""

    def advanced(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when the progress of these spans was last written."""

    def weigh(self, spans: Sequence[str] | None = None) -> int:
        """Return about how many bytes these spans and their parts take (None: exactly how many the store uses)."""

    def stretches(self, series: int) -> Iterator[Points]:
        """Yield the points of a series in the order of `points`, chunk by chunk if they are stored in that order."""

    def outline(self, series: int) -> list[ChunkRow]:
        """Return the chunks of a series, without their points, in the order in which each process logged them."""

    def chunks(self, rows: Sequence[ChunkRow]) -> Iterator[tuple[ChunkRow, Points]]:
        """Yield these chunks with their points, as they were logged; skip those that were merged or removed since."""

    def columns(self, where: Where, newest: int) -> list[tuple[str, int]]:
        """Return the attributes and series of the `newest` newest runs that match, and how many runs have each."""

    def projects(self) -> list[str]:
        """Return the projects of all runs, by name."""

    def density(self, span: str, from_t: int, to_t: int, buckets: int) -> list[tuple[int, int, int]]:
        """Count the events of a span and its parts as (bucket, level, count); buckets divide the time equally."""

    def heed(self, enough: Callable[[], bool]) -> None:
        """Interrupt a read with an error of the store as soon as `enough` returns True; it is called often."""

    def close(self) -> None:
        """Close the store."""


class Store(Reader, Protocol):
    """Keeps facts and points, and hands them back.

    One process writes to a store, any number read. A method that writes is one transaction: all of it is kept,
    or it raises and nothing is. What was kept survives the death of any process at once, and a power cut after
    `sync`. To keep the same batch twice is the same as once: facts are known by (origin, lane, n), and samples by
    their offset, since an origin's samples come in order, and those before its mark are here already.

    A span with the claim `purged` is a tombstone. `reclaim` deletes its attributes, all records of it and its parts
    (`id/...`), and all spans that have one of these as parent, with theirs. Records of it that come later are
    dropped, but marks advance. The result is the same in whatever order the records came, but for one thing: what lives
    here does not go because somebody says later that it is below a tombstone. That parent is left out.
    """

    def keep(
        self,
        batches: Iterable[Batch],
        heard: Mapping[str, int] | None = None,
        skews: Mapping[str, float] | None = None,
    ) -> None:
        """Keep batches and their marks in one transaction.

        `heard`: when origins were known alive; `skews`: by how many seconds their clocks are ahead of ours.
        """

    def shippers(self, origins: Sequence[str]) -> dict[str, str]:
        """Return the relay that each of these origins comes from: "" if it is none, UNKNOWN_RELAY if nobody knows.

        What is not an origin here is left out.
        """

    def beginners(self, spans: Sequence[str]) -> dict[str, str]:
        """Return the relay that has begun each of these runs and hosts: "" if it is none.

        What does not exist here is left out.
        """

    def bind(self, relay: str, origins: Sequence[str], spans: Sequence[str], *, anew: bool = False) -> None:
        """Note what belongs to a relay: the first one has it for good. `anew`: spans are its own from now on."""

    def note_relay(self, relay: RelayRow) -> None:
        """Note that a relay was heard of. Its counts are added to those that are here."""

    def note_delivered(self, sizes: Mapping[str, int], relay: str) -> None:
        """Note that a relay has sent the bytes of these files, by their digests; `sizes`: how many each has."""

    def forget_delivered(self, digest: str) -> None:
        """Forget who has sent the bytes of a file: they are here no more."""

    def awaited(self) -> AbstractSet[str]:
        """Return the origins whose records must still come before some span is shown as ended.

        An end may name them (`Span.after`). Until they are here the span is `leaving`; `keep` sees to both. There is a
        most of what is awaited; ends beyond that are shown at once.
        """

    def stop_awaiting(self, origins: Container[str]) -> None:
        """Show the ends that wait for these origins: nothing more will come of them."""

    def prepare(self) -> None:
        """Load what the first points need: somebody is there who may log some."""

    def sync(self) -> None:
        """Flush to disk: when it returns, all that was kept survives a power cut."""

    def tidy(self, origin: str) -> int:
        """Merge an origin's short chunks into long ones; return how many were merged."""

    def tidying(self, origin: str) -> Iterator[int]:
        """Do the same in steps, each one short transaction, where it is worth it; yield how many were merged."""

    def reclaim(self, budget: int = 1000) -> bool:
        """Delete some of what was purged, or free disk space; return whether there is more to do.

        It is about `budget` pages' worth of work, in one short transaction. If the process dies, the next one
        continues.
        """

    def take(self, batch: Batch) -> Taken:
        """Take in what a copy of a spool says, and is not here; return how much. Marks stay as they are.

        The spool itself may come later, and more of it than the copy has: records are known by their offsets.
        """

    def absorb(
        self,
        source: Reader,
        comes: Callable[[str], int | None] = lambda _: None,
        mask: Callable[[Fact], Fact] | None = None,
        *,
        lenient: bool = False,
    ) -> Iterator[Taken]:
        """Take in all that another store has, in steps; each step is one transaction, and yields what came so far.

        Each fact is kept as `mask` returns it.

        Records that are here already are skipped. So doing it twice is the same as once, the order of sources does
        not matter, and after a death it can be repeated. Marks stay as they are, and what is purged there is not
        purged here, nor taken in. `comes`: from which offset on the samples of an origin come by themselves, from its
        spool or another hub; these are left out, and so are its facts that lie behind its mark, but for states and
        progress. They are counted in `to_come`. Raise FormatError when the source is malformed, DamagedError when
        pages of it cannot be read; what was taken in before stays, and is sound. `lenient`: leave out rows that are
        malformed, and count them.
        """
