"""Why one run differs from another."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from vedette.asgi import Refusal
from vedette.query.explain import explain as explained
from vedette.query.finding import find
from vedette.store import Reader
from vedette.views.text import for_json
from vedette.views.web.routes import Request
from vedette.views.web.runs import rows_of
from vedette.views.web.shapes import Number, Row
from vedette.views.web.state import AppState


class Cause(Struct, frozen=True):
    """Something that differs, and how likely it is the cause: weights go from 1 to 0."""

    kind: str
    key: str
    a: Any
    b: Any
    weight: float
    text: str


class Pair(Struct, frozen=True):
    """A key whose values differ."""

    key: str
    a: Any
    b: Any


class PackagePair(Struct, frozen=True):
    """A package whose versions differ; None: not installed."""

    name: str
    a: str | None
    b: str | None


class CodeChange(Struct, frozen=True):
    """A code file that differs; `reached`: the program imports it, as far as we can see."""

    path: str
    change: Literal["added", "removed", "changed"]
    diff: str
    sort: str
    reached: bool


class Commands(Struct, frozen=True):
    """The words of both commands."""

    a: list[str]
    b: list[str]


class Sections(Struct, frozen=True):
    """What differs, part by part; `unread`: sentences on differences whose contents are missing."""

    config: list[Pair]
    code: list[CodeChange]
    packages: list[PackagePair]
    hardware: list[Pair]
    git: list[Pair]
    command: Commands
    environment: list[Pair]
    data: list[Pair]
    unread: list[str]


class MetricPair(Struct, frozen=True):
    """A metric that both runs have; `first_step` is None if they are equal at every step that both have."""

    name: str
    tags: dict[str, str]
    first_step: int | None
    first_t: float | None
    equal_before: int
    common: int
    a_last: Number
    b_last: Number
    delta: Number
    a_best: Number
    b_best: Number
    a_steps: int | None
    b_steps: int | None
    telling: bool


class Speed(Struct, frozen=True):
    """Steps per second, by the series with the most points."""

    metric: str
    a: Number
    b: Number
    ratio: Number


class UsePair(Struct, frozen=True):
    """What both runs used of a resource."""

    a_mean: Number
    b_mean: Number
    a_max: Number
    b_max: Number


class End(Struct, frozen=True):
    """How a run ended."""

    state: str
    cause: str
    duration_s: float | None


class Ends(Struct, frozen=True):
    """How both runs ended."""

    a: End
    b: End


class Outcome(Struct, frozen=True):
    """The results of both runs; `left_out`: how many metrics were not compared."""

    metrics: list[MetricPair]
    only_a: list[str]
    only_b: list[str]
    left_out: int
    speed: Speed
    usage: dict[str, UsePair]
    end: Ends


class Explanation(Struct, frozen=True):
    """Two runs, and why b differs from a; the most likely cause first."""

    a: Row
    b: Row
    causes: list[Cause]
    sections: Sections
    outcome: Outcome


def explain(state: AppState, store: Reader, request: Request) -> Explanation:
    """Explain why b differs from a."""
    if not request.query["a"] or not request.query["b"]:
        raise Refusal(400, "name two runs: a and b")
    ids = [find(store, request.query[side]).id for side in ("a", "b")]
    views, lines = state.listing.look_at(store, ids)
    found = for_json(explained(views[0], views[1], state.home.read_blob).as_dict())
    rows = rows_of(store, views, lines)
    return msgspec.convert(found | {"a": rows[0], "b": rows[1]}, Explanation)
