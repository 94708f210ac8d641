"""The four facts that everything is said in, and the kinds and states of what lives.

Nothing here does I/O. A fact says what happened. A record is identified by (origin, lane, n): who said it, in which
lane, and at which offset. `n` is the offset just behind the record, so a mark of n means that all up to it is here.
"""

import os
import time
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

Value = Any  # None, bool, int, float, str, and lists and string-keyed dicts of these

Id = Annotated[str, Meta(min_length=1, max_length=128)]
Text = Annotated[str, Meta(max_length=256)]
Time = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]  # nanoseconds UTC
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

LANE_FACTS = "f"  # Span, Event, Blob: few and important
LANE_SAMPLES = "s"  # Sample: many

OWNER, HUB, LAUNCHER, USER = "owner", "hub", "launcher", "user"
VOICES = (OWNER, HUB, LAUNCHER, USER)  # who may speak of an end, the most trusted first


class Span(Struct, frozen=True, array_like=True, tag="span"):
    """Something that lives. Each record tells a part; `fold` adds the parts up."""

    id: Id
    t: Time
    state: str = ""
    cause: str = ""
    by: str = OWNER
    kind: str = ""
    name: str = ""
    parent: str = ""
    attrs: dict[str, Value] = {}
    at: float | None = None  # progress: this origin has got this far ...
    add: float | None = None  # ... and has added this much, both since its start; neither ever falls
    of: Text = ""  # whose progress, where a hub speaks for another origin


class Event(Struct, frozen=True, array_like=True, tag="event"):
    """Something that happened."""

    span: Id
    t: Time
    kind: str
    level: Int64 = 20
    text: str = ""
    attrs: dict[str, Value] = {}


class Blob(Struct, frozen=True, array_like=True, tag="blob"):
    """Bytes named by their digest; the bytes themselves lie beside the store."""

    span: Id
    t: Time
    name: str
    digest: str
    size: Int64
    media: str = ""


class Sample(Struct, array_like=True, gc=False):
    """Named numbers of one span at one moment and step. An empty span means the spool's own."""

    t: Time
    step: Int64
    values: dict[str, float | int | bool]
    span: str = ""
    tags: dict[str, str] = {}


Fact = Span | Event | Blob


class Kind(Struct, frozen=True):
    """What a span can be: the states that it climbs, lowest first, and those that end it."""

    climbing: tuple[str, ...]
    ends: tuple[str, ...] = ("done", "failed", "cancelled")


PURGED: Final = "purged"  # the end of every kind that absorbs whatever comes later

# A new kind needs a page in decisions/.
KINDS: dict[str, Kind] = {
    "run": Kind(("created", "queued", "starting", "running")),
    "try": Kind(("created", "queued", "starting", "running"), ("done", "failed", "cancelled", "retry")),
    "process": Kind(("running", "leaving")),
    "progress": Kind(("running",)),
    "task": Kind(("created", "queued", "starting", "running")),
    "host": Kind(("up",), ("down",)),
}
UNKNOWN_KIND = Kind(  # a span whose kind has not come yet is judged by all that is known
    tuple(dict.fromkeys(state for kind in KINDS.values() for state in kind.climbing)),
    tuple(dict.fromkeys(state for kind in KINDS.values() for state in kind.ends)),
)


class Origin(Struct, frozen=True):
    """Who speaks: one spool of one process. A fork child is another origin, always."""

    name: Id
    host: Text = ""
    boot: Text = ""  # boot id and pid namespace: where `pid` means something
    pid: Int64 = 0
    started: Int64 = 0  # the kernel's start time of the process, in clock ticks
    span: Text = ""  # the span that samples belong to unless they say another
    process: Text = ""  # the span of the process itself
    upstream: Annotated[str, Meta(max_length=4096)] = (
        ""  # the hub that this origin is meant for; empty: the one on this host
    )
    main: bool = False  # the end of this process is the end of the try
    voice: Text = OWNER  # who speaks: HUB in a hub's own spool, which may speak for others; a process only for itself


class Command(Struct, frozen=True, array_like=True, tag="command"):
    """Asked of a process: done at most once, and answered by an Event. Its args are never stored."""

    id: Id
    to: Id  # the span of a process
    verb: str
    expires_t: Time
    args: dict[str, Value] = {}


def above(span: str) -> list[str]:
    """Return a span's id and then those that it is a part of, the nearest first: `a/b/c`, `a/b`, `a`."""
    return [span, *(span[:at] for at in range(len(span) - 1, 0, -1) if span[at] == "/")] if span else []


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH_S = 1_704_067_200  # 2024-01-01: six characters of time last until 2058


def new_id(random_chars: int = 8) -> str:
    """Make an id that sorts by its second of birth: six characters of time, the rest chance.

    A cluster begins a thousand runs in a second; with eight, two of them have the same once in two million times.
    """
    number = max(0, int(time.time()) - _EPOCH_S)
    chars = []
    for _ in range(6):
        number, digit = divmod(number, 32)
        chars.append(_ALPHABET[digit])
    return "".join(reversed(chars)) + "".join(_ALPHABET[b & 31] for b in os.urandom(random_chars))


def looks_like_run(text: str) -> bool:
    """Tell whether a text could be the id of a run, as `new_id` makes them, or made them when they were shorter."""
    return len(text) in (10, 14) and all(char in _ALPHABET for char in text)
