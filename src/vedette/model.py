"""The records that everything is stored as: facts (Span, Event, Blob) and samples; and the kinds and states of spans.

Nothing here does I/O. A record is identified by (origin, lane, n): who wrote it, in which lane, and at
which offset. `n` is the offset just behind the record, so a mark of n means that all up to it is here.
"""

from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta, Struct

from vedette.ids import MOST_LENGTH, NAME

Value = Any  # None, bool, int, float, str, and lists and string-keyed dicts of these

Id = Annotated[str, Meta(min_length=1, max_length=MOST_LENGTH, pattern=NAME)]
IdOrNone = Annotated[str, Meta(max_length=MOST_LENGTH, pattern=NAME)]
Text = Annotated[str, Meta(max_length=256)]
Time = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]  # nanoseconds UTC
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

LANE_FACTS = "f"  # Span, Event, Blob: few and important
LANE_SAMPLES = "s"  # Sample: many

OWNER, HUB, LAUNCHER, USER = "owner", "hub", "launcher", "user"
VOICES = (OWNER, HUB, LAUNCHER, USER)  # who may claim an end, the most trusted first; nobody is LAUNCHER yet


class Place(NamedTuple):
    """How far an origin has come: the offsets in its two lanes behind all that it had written."""

    origin: Text
    facts: Time
    samples: Time


class Span(Struct, frozen=True, array_like=True, tag="span"):
    """Something that begins and ends, such as a run. Each record has a part of it; `fold` adds the parts up."""

    id: Id
    t: Time
    state: str = ""
    cause: str = ""
    by: str = OWNER
    kind: str = ""
    name: str = ""
    parent: IdOrNone = ""
    attrs: dict[str, Value] = {}
    at: float | None = None  # progress: the position that this origin has reached ...
    add: float | None = None  # ... and how much it has added, both since its start; neither decreases
    of: Text = ""  # the origin whose progress this is, if a hub reports it
    after: tuple[Place, ...] = ()  # an end is shown only when all up to these offsets is here, too; a hub writes them


class Event(Struct, frozen=True, array_like=True, tag="event"):
    """Something that happened."""

    span: Id
    t: Time
    kind: str
    level: Int64 = 20
    text: str = ""
    attrs: dict[str, Value] = {}


class Blob(Struct, frozen=True, array_like=True, tag="blob"):
    """A file, named by the digest of its bytes; the bytes themselves are beside the store."""

    span: Id
    t: Time
    name: str
    digest: str
    size: Int64
    media: str = ""


class Sample(Struct, array_like=True, gc=False):
    """Named numbers of one span at one moment and step. An empty `span` means the origin's span."""

    t: Time
    step: Int64
    values: dict[str, float | int | bool]
    span: str = ""
    tags: dict[str, str] = {}


Fact = Span | Event | Blob

MOST_VALUES = 200_000  # in the attributes of a fact: an empty list is one byte on the wire, and seventy in memory
MOST_LEVELS = 64  # of lists and dicts in an attribute: code that descends into them must not run out of stack


def shallow(attrs: dict[str, Value]) -> dict[str, Value]:
    """Return attributes in which lists and dicts that lie deeper than `MOST_LEVELS` are {}; mostly the same object."""
    return _cut(attrs, MOST_LEVELS) if _is_deep(attrs, MOST_LEVELS) else attrs


def count_values(value: Value, most: int = MOST_VALUES) -> int:
    """Return how many values a list or dict holds, with those below them; if they are over `most`, any such number."""
    count = len(value)
    for item in value.values() if isinstance(value, dict) else value:
        if count > most:
            break
        if type(item) in (dict, list):
            count += count_values(item, most - count)
    return count


def _is_deep(value: Value, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(type(item) in (dict, list) and (levels == 0 or _is_deep(item, levels - 1)) for item in items)


def _cut(value: Value, levels: int) -> Value:
    if not isinstance(value, dict | list):
        return value
    if levels < 0:
        return {}
    if isinstance(value, dict):
        return {key: _cut(item, levels - 1) for key, item in value.items()}
    return [_cut(item, levels - 1) for item in value]


LEAVING: Final = "leaving"  # about to end; or ended, but not all that it said is here
UNSEEN: Final = "ended"  # an end, and nobody saw its exit status: it may have been a good one or a bad one
ENDS = ("done", "failed", "cancelled", UNSEEN)


class Kind(Struct, frozen=True):
    """A kind of span: the states that it passes through, lowest first, and those that end it."""

    climbing: tuple[str, ...]
    ends: tuple[str, ...] = ENDS


PURGED: Final = "purged"  # an end of every kind: it overrides whatever comes later

# A new kind needs a page in decisions/.
KINDS: dict[str, Kind] = {
    "run": Kind(("created", "queued", "starting", "running", LEAVING)),
    "try": Kind(("created", "queued", "starting", "running", LEAVING), (*ENDS, "retry")),
    "process": Kind(("running", LEAVING)),
    "progress": Kind(("running",)),
    "task": Kind(("created", "queued", "starting", "running")),
    "host": Kind(("up",), ("down",)),
}
UNKNOWN_KIND = Kind(  # for a span whose kind has not arrived yet: all states of all kinds
    tuple(dict.fromkeys(state for kind in KINDS.values() for state in kind.climbing)),
    tuple(dict.fromkeys(state for kind in KINDS.values() for state in kind.ends)),
)


class Origin(Struct, frozen=True):
    """Who writes records: one spool of one process. A fork child is always another origin."""

    name: Id
    host: Text = ""
    boot: Text = ""  # boot id and pid namespace, in which `pid` is valid
    pid: Int64 = 0
    started: Int64 = 0  # the kernel's start time of the process, in clock ticks
    span: IdOrNone = ""  # the span of samples that name no span themselves
    process: IdOrNone = ""  # the span of the process itself
    upstream: Annotated[str, Meta(max_length=4096)] = ""  # the hub that its records are for; empty: this host's hub
    main: bool = False  # the end of this process is the end of the try
    voice: Text = OWNER  # who speaks: HUB in a hub's own spool, which may speak for others; a process only for itself


class Command(Struct, frozen=True, array_like=True, tag="command"):
    """A command to the processes of a run: done at most once, and answered by an Event. Answers to questions, which
    may be passwords, are passed on and never stored.
    """

    id: Id
    to: Id  # a run, a try or a process
    verb: str
    expires_t: Time
    args: dict[str, Value] = {}
