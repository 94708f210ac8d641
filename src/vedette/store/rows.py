"""The rows that a store hands back, one struct for each kind."""

from collections import Counter

from msgspec import Struct, field

from vedette.labels import label
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Value

# Not a real lane: an archive brought samples beyond the mark of lane `s`, up to the offset of this mark. Between the
# two marks some may be missing.
AHEAD = "+"

# Not real lanes either: how far an archive or a copy of a spool has come, as it says itself. They count what it could
# not read. Nothing is skipped because of them: whoever hands us an archive can write what he likes into it.
COPIED = {LANE_FACTS: "f<", LANE_SAMPLES: "s<"}

UNKNOWN_RELAY = "?"  # an origin that came from elsewhere, and nobody knows by which relay: the first to introduce it


class Mark(Struct, frozen=True):
    """How far a lane is committed: all before this offset is in the store. It also counts what could not be read."""

    offset: int = 0
    damaged: int = 0
    refused: int = 0


class SpanRow(Struct, frozen=True, gc=False):
    """A span: all its records, folded into one state."""

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

    @property
    def label(self) -> str:
        """Its name, with its tags in brackets."""
        return label(self.name, self.tags)


class OriginRow(Struct, frozen=True):
    """An origin, when it was last known alive, and what it lost."""

    origin: Origin
    heard_t: int
    damaged: int
    refused: int
    skew_s: float | None = None  # how far its clock is ahead of ours, if that was measured


class BlobRow(Struct, frozen=True, gc=False):
    """A file of a span; its bytes are beside the store, under their digest."""

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
        """Its unique key, by which rows are sorted."""
        return self.span, self.name, self.origin, self.n


class ChunkRow(Struct, frozen=True, gc=False):
    """A chunk of a series, without its points; times are in nanoseconds, min and max ignore NaN."""

    id: int
    process: str
    count: int
    first_t: int
    last_t: int
    min: float | None
    max: float | None
    series: int = 0  # id alone does not identify a chunk: after a purge ids are used again


class RelayRow(Struct, frozen=True):
    """A hub that relays to this one, and how much it has shipped."""

    id: str  # a digest of its public key
    holder: str  # whose token it uses; empty: the owner's
    host: str
    since_t: int
    heard_t: int
    facts: int = 0
    points: int = 0
    refused: int = 0  # records of runs and processes that are not its own


class Taken(Struct):
    """How much of another store was new, and has been taken in so far."""

    spans: int = 0
    events: int = 0
    points: int = 0
    touched: set[str] = set()  # the spans that got something new; whoever shows it empties it
    left_out: Counter[str] = field(default_factory=Counter)  # rows that could not be read, by their table
    to_come: Counter[str] = field(default_factory=Counter)  # records that come by themselves, by their origin
