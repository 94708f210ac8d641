"""Questions to a store: which spans, which events, and conditions on spans."""

from typing import Any

from msgspec import Struct


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
    only: tuple[str, ...] | None = None  # read only these attributes, None where a span has none: faster for many rows
    order: tuple[str, ...] = ()  # sort by these fields of `Compare` instead; -field: descending. None comes last


class EventQuery(Struct, frozen=True):
    """Which events: those of a span and of the spans below it, or of all; oldest first."""

    span: str = ""
    after: int = 0  # the id of the last event already seen
    kinds: tuple[str, ...] = ()
    level: int = 0
    search: str = ""  # words for the full-text index
    last: int | None = None  # only this many, the newest
    before: int | None = None  # the id of the first event already seen
    first: int | None = None  # only this many, the oldest
    from_t: int | None = None
    to_t: int | None = None
    contains: str = ""  # text, ignoring case
    process: str = ""  # only events of this process
