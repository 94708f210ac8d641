"""A store as somebody with a link reads it: some runs, what is below them, and nothing else.

It has the methods that routes need, and no others: what is not named here is not shared. Series, chunks and points are
asked for by numbers, which come from rows that were read here.
"""

import itertools
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from vedette.ids import above, is_host
from vedette.store import (
    BlobRow,
    Both,
    ChunkRow,
    Compare,
    EventQuery,
    EventRow,
    OriginRow,
    Part,
    Points,
    Reader,
    SeriesRow,
    SpanQuery,
    SpanRow,
    Where,
)

_ONE_BY_ONE = 100  # for so many runs files are read run by run, for more all at once


class NarrowReader:
    """Reads some runs of a store; `hosts`: also the machines, for a question that asks only for those of its run."""

    def __init__(self, store: Reader, runs: frozenset[str], *, hosts: bool = False) -> None:
        self.runs = runs
        self._hosts = hosts
        self._store = store
        self._within = Compare("id", "in", tuple(sorted(runs)))

    def shows(self, span: str) -> bool:
        """Tell whether a span may be seen: it is one of the runs, or below one."""
        return any(one in self.runs for one in above(span)) or (self._hosts and is_host(span))

    def _among(self, spans: Sequence[str] | None) -> list[str]:
        return sorted(self.runs) if spans is None else [span for span in spans if self.shows(span)]

    def spans(self, query: SpanQuery) -> list[SpanRow]:
        """Return spans."""
        return list(self.each_span(query))

    def each_span(self, query: SpanQuery) -> Iterator[SpanRow]:
        """Yield spans."""
        if query.kind == "run":
            return self._store.each_span(replace(query, where=self._and(query.where)))
        rows = (row for row in self._store.each_span(replace(query, limit=None)) if self.shows(row.id))
        return itertools.islice(rows, query.limit)

    def _and(self, where: Where | None) -> Where:
        return self._within if where is None else Both((self._within, where))

    def events(self, query: EventQuery) -> list[EventRow]:
        """Return events of a span that may be seen."""
        return self._store.events(query) if self.shows(query.span) else []

    def density(self, span: str, from_t: int, to_t: int, buckets: int) -> list[tuple[int, int, int]]:
        """Count the events of a span that may be seen."""
        return self._store.density(span, from_t, to_t, buckets) if self.shows(span) else []

    def blobs(self, span: str = "") -> list[BlobRow]:
        """Return the files of a span, or of all runs that may be seen."""
        if span:
            return self._store.blobs(span) if self.shows(span) else []
        if len(self.runs) <= _ONE_BY_ONE:
            return [row for run in sorted(self.runs) for row in self._store.blobs(run)]
        return [row for row in self._store.blobs() if self.shows(row.span)]

    def holders(self) -> dict[str, str]:
        """Return whose each of these runs is; the owner's are left out."""
        return self._store.holders(sorted(self.runs))

    def delivered(self, digests: Sequence[str], holder: str) -> set[str]:
        """Return those of these files whose bytes a holder has sent."""
        return self._store.delivered(digests, holder)

    def origins(self, spans: Sequence[str] | None = None, since: int = 0) -> list[OriginRow]:
        """Return the origins of these runs."""
        return self._store.origins(self._among(spans), since)

    def refusals(self, span: str) -> dict[str, int]:
        """Return how many points of a run each limit has refused."""
        return self._store.refusals(span) if span and self.shows(span) else {}

    def series(self, spans: Sequence[str] | None = None, name: str | None = None) -> list[SeriesRow]:
        """Return the series of these spans."""
        return self._store.series(self._among(spans), name)

    def last_values(self, spans: Sequence[str] | None = None) -> dict[str, dict[str, float | int]]:
        """Return the newest value of each series."""
        return self._store.last_values(self._among(spans))

    def advanced(self, spans: Sequence[str]) -> dict[str, int]:
        """Return when the progress of these spans was last written."""
        return self._store.advanced(self._among(spans))

    def columns(self, where: Where, newest: int) -> list[tuple[str, int]]:
        """Return the attributes and series of the newest runs that match."""
        return self._store.columns(self._and(where), newest)

    def projects(self) -> list[str]:
        """Return the projects of the runs that may be seen, by name."""
        rows = self.spans(SpanQuery(kind="run", only=("project",)))
        return sorted({str(row.attrs["project"]) for row in rows if row.attrs.get("project")})

    def points(self, series: Sequence[int], within: tuple[int, int] | None = None) -> dict[int, Points]:
        """Return the points of series."""
        return self._store.points(series, within)

    def parts(self, series: Sequence[int]) -> dict[int, list[Part]]:
        """Return the same points, by process."""
        return self._store.parts(series)

    def recent(self, series: Sequence[int], count: int) -> dict[int, Points]:
        """Return the newest points of series."""
        return self._store.recent(series, count)

    def stretches(self, series: int) -> Iterator[Points]:
        """Yield the points of a series."""
        return self._store.stretches(series)

    def outline(self, series: int) -> list[ChunkRow]:
        """Return the chunks of a series."""
        return self._store.outline(series)

    def chunks(self, rows: Sequence[ChunkRow]) -> Iterator[tuple[ChunkRow, Points]]:
        """Yield chunks with their points."""
        return self._store.chunks(rows)
