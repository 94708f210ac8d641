"""What processes might say of spans: by hypothesis, and by a plain generator for checks that must be repeatable.

Within an origin n grows and t never falls, and what stands at (origin, n) is always the same: that is the law.
Values are few and close together, so that ties of every sort come up.
"""

import itertools
import random
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from vedette.model import Span

from .oracle import Delivery, Example, Record

STATES = "created queued starting running leaving done failed cancelled ended retry odd".split()
ENDS = "done failed cancelled ended".split()
ORIGINS = ("a", "b", "c")
TRIES = ("r/1", "r/2", "q/1")
IDS = ("r", "q", *TRIES, "r/p")
VOICES = ("owner", "hub", "launcher", "user", "stranger")
VALUES: tuple[Any, ...] = (None, True, 1, 0.5, "x", [1, None], {}, {"b": 2}, {"b": {"c": None}}, {"b": {}, "d": "y"})
OF = ("", "", "a", "b", "d")  # whose progress: mostly one's own, else that of one who speaks, or never does
QUARTERS = (None, 0.0, 0.25, 1.0, 2.5)  # sums of these are exact


def _spans(ids: tuple[str, ...], states: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Return the fields of a Span but for its time."""

    def of(id_: str) -> st.SearchStrategy[dict[str, Any]]:
        is_try = id_ in TRIES
        fields: dict[str, st.SearchStrategy[Any]] = {
            "id": st.just(id_),
            "state": st.sampled_from(("", *states)),
            "cause": st.sampled_from(("", "", "x", "y")),
            "by": st.sampled_from(VOICES),
            "kind": st.sampled_from(("", "try", "try", "task") if is_try else ("", "", "run", "process", "mystery")),
            "name": st.sampled_from(("", "", "one", "two")),
            "parent": st.sampled_from(("", "r", "r", "q") if is_try else ("",)),
            "attrs": st.dictionaries(st.sampled_from(("a", "a.b", "e")), st.sampled_from(VALUES), max_size=2),
        }
        if is_try:
            fields["attrs"] = st.dictionaries(st.sampled_from(("n", "a")), st.integers(1, 3), max_size=2)
        if id_ == "r/p":
            fields |= {"at": st.sampled_from(QUARTERS), "add": st.sampled_from(QUARTERS), "of": st.sampled_from(OF)}
        return st.fixed_dictionaries(fields)

    return st.sampled_from(ids).flatmap(of)


@st.composite
def examples(draw: st.DrawFn, *, dense: bool = False, deliveries: int = 2) -> Example:
    """Draw what one to three origins say, and how it arrives; `dense`: of one span, at two moments."""
    states = (*ENDS, "running", "purged") if dense else (*STATES, *STATES, "purged")
    saying = _spans(("r",) if dense else IDS, states)
    records: list[Record] = []
    for origin in ORIGINS[: draw(st.integers(1, 3))]:
        t = n = 0
        for later, fields in draw(st.lists(st.tuples(st.integers(0, 1), saying), max_size=6 if dense else 10)):
            t = min(t + later, 1) if dense else t + later
            n += 1 + later
            records.append((origin, n, Span(t=t, **fields)))
    ways = []
    for _ in range(deliveries):
        again = draw(st.lists(st.sampled_from(records), max_size=6)) if records else []
        ways.append(cut(draw(st.permutations([*records, *again])), draw(st.lists(st.integers(0, 40), max_size=4))))
    return Example(records, ways)


PARENTS = {"r/1": "r", "r/2": "r", "q/1": "r", "r/p": "q"}  # some of them another's part: it goes with either


def with_fixed_parents(example: Example) -> Example:
    """Have each record of a span name one parent, if any: one that changes or comes late may be left out."""

    def fixed(record: Record) -> Record:
        origin, n, span = record
        return origin, n, structs.replace(span, parent=PARENTS.get(span.id, ""))

    deliveries = [[[fixed(record) for record in part] for part in way] for way in example.deliveries]
    return Example([fixed(record) for record in example.records], deliveries)


def cut(records: list[Record], places: list[int]) -> Delivery:
    """Cut a list into parts; places beyond its end cut nothing off."""
    bounds = [0, *sorted(min(place, len(records)) for place in places), len(records)]
    return [records[a:b] for a, b in itertools.pairwise(bounds)]


def repeatable_examples(seed: int, count: int) -> list[Example]:
    """Make the same examples each time; every second one is dense."""
    chance = random.Random(seed)
    return [_example(chance, dense=number % 2 == 0) for number in range(count)]


def _example(chance: random.Random, *, dense: bool) -> Example:
    pick = chance.choice
    records: list[Record] = []
    for origin in ORIGINS[: chance.randint(1, 3)]:
        t = n = 0
        for _ in range(chance.randint(0, 5 if dense else 9)):
            later = pick((0, 0, 1))
            t = min(t + later, 1) if dense else t + later
            n += 1 + later
            records.append((origin, n, _span(chance, t, dense=dense)))
    ways = []
    for _ in range(3):
        way = records + [pick(records) for _ in range(4) if records]
        chance.shuffle(way)
        ways.append(cut(way, [chance.randint(0, 30) for _ in range(chance.randint(0, 3))]))
    return Example(records, ways)


def _span(chance: random.Random, t: int, *, dense: bool) -> Span:
    pick = chance.choice
    id_ = "r" if dense else pick(IDS)
    is_try = id_ in TRIES
    attrs = {pick(("a", "a.b", "e")): pick(VALUES) for _ in range(pick((0, 0, 1, 2)))}
    return Span(
        id=id_,
        t=t,
        state=pick(("", "done", *ENDS, "running", "purged") if dense else ("", "", *STATES, *STATES, "purged")),
        cause=pick(("", "x", "y")),
        by=pick(("owner", "owner", "hub", "user") if dense else VOICES),
        kind=pick(("", "try", "try", "task") if is_try else ("", "", "run", "process", "mystery")),
        name=pick(("", "", "one", "two")),
        parent=pick(("", "r", "r", "q")) if is_try else "",
        attrs={pick(("n", "a")): chance.randint(1, 3)} if is_try and chance.random() < 0.7 else attrs,
        at=pick(QUARTERS) if id_ == "r/p" else None,
        add=pick(QUARTERS) if id_ == "r/p" else None,
        of=pick(OF) if id_ == "r/p" else "",
    )
