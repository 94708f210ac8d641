"""The law of the fold: any order, any parts, any number of times, and then what is right."""

import itertools
import math
import tracemalloc

import pytest
from hypothesis import given, settings

from tests.soak import times
from vedette import fold
from vedette.model import Span

from .oracle import Example, right, violations
from .sayings import examples, repeatable_examples


@settings(deadline=None, max_examples=times(60))
@given(examples())
def test_any_order_parts_and_repetition_give_what_is_right(example: Example):
    """However the records of several origins and spans arrive, they add up to what the oracle reads off them."""
    assert violations(fold, [example]) == []


@settings(deadline=None, max_examples=times(60))
@given(examples(dense=True, deliveries=3))
def test_ties_are_broken_alike_in_any_order(example: Example):
    """Claims and writes on one span at one moment by equal voices have one winner, in any order."""
    assert violations(fold, [example]) == []


def test_the_repeatable_examples_hold():
    """The fold as it stands passes the very examples that its mutants must fail."""
    assert violations(fold, repeatable_examples(seed=1, count=times(300))) == []


@pytest.mark.parametrize(
    "amounts", [(0.1, 0.2, 0.3), (1e16, 1.0, -1e16), (math.inf, 1.0, 2.0)], ids=["tenths", "huge", "infinite"]
)
def test_what_was_added_is_one_number_in_any_order(amounts: tuple[float, ...]):
    """Progress that three origins add to comes to the same number, to the last bit, in whatever order they came."""
    sums = set()
    for way in itertools.permutations(zip("abc", amounts, strict=True)):
        folded = fold.Folded()
        for origin, amount in way:
            folded.fold(Span("s", 1, add=amount), origin, 1)
        sums.add(repr(folded.done()))

    assert len(sums) == 1, sums


@pytest.mark.parametrize("places", [(1.0, 2.0, math.nan), (0.0, -0.0, -1.0)], ids=["nan", "zeros"])
def test_the_furthest_is_one_number_in_any_order(places: tuple[float, ...]):
    """The furthest place that three origins have got to is the same in any order, even when one says NaN."""
    furthest = set()
    for way in itertools.permutations(zip("abc", places, strict=True)):
        folded = fold.Folded()
        for origin, place in way:
            folded.fold(Span("s", 1, at=place), origin, 1)
        furthest.add(repr(folded.done()))

    assert len(furthest) == 1, furthest


def told(*records: tuple[str, int, Span]) -> Example:
    """Make an example of records that arrive as told, and the other way round."""
    return Example(records, [[records], [records[::-1]], [[record] for record in records[::-1]]])


def test_the_owner_is_believed_before_all_others():
    """An owner's end holds against a later one by hub, launcher or user, and takes its cause from them."""
    example = told(
        ("a", 1, Span("r", 1, kind="run", state="running")),
        ("a", 2, Span("r", 2, state="cancelled")),
        ("h", 1, Span("r", 5, state="failed", cause="SIGTERM", by="hub")),
        ("l", 1, Span("r", 9, state="failed", cause="TIMEOUT", by="launcher")),
    )

    assert violations(fold, [example]) == []
    assert right(example.records)["r"][3:7] == ("cancelled", "SIGTERM", 1, 2)


def test_before_an_end_the_highest_state_holds():
    """A state that comes late by the clock does not pull a span down again."""
    example = told(
        ("a", 1, Span("r", 1, kind="run", state="running")),
        ("b", 1, Span("r", 7, state="queued", by="launcher")),
    )

    assert violations(fold, [example]) == []
    assert right(example.records)["r"].state == "running"


def test_purged_absorbs_whatever_comes_later():
    """A purged span stays so, by whatever voice, whatever its owner or its tries say afterwards."""
    example = told(
        ("u", 1, Span("r", 1, kind="run", state="purged", by="user")),
        ("a", 1, Span("r", 5, state="done")),
        ("a", 2, Span("r/1", 5, kind="try", parent="r", state="running")),
    )

    assert violations(fold, [example]) == []
    assert right(example.records)["r"].state == "purged"


def test_a_parent_has_the_state_of_its_highest_try():
    """Of two tries the one with the higher n speaks for the run, though the other one ended later."""
    example = told(
        ("a", 1, Span("r", 1, kind="run", state="running")),
        ("a", 2, Span("r/1", 2, kind="try", parent="r", state="running", attrs={"n": 1})),
        ("b", 1, Span("r/2", 3, kind="try", parent="r", state="done", attrs={"n": 2})),
        ("a", 3, Span("r/1", 9, state="retry", cause="x")),
    )

    assert violations(fold, [example]) == []
    assert right(example.records)["r"][3:7] == ("done", "", 1, 3)


def test_none_is_a_value():
    """An attribute that was set to None after it had a value is None, and still there."""
    example = told(("a", 1, Span("r", 1, attrs={"a": {"b": 1}})), ("a", 2, Span("r", 1, attrs={"a.b": None})))

    assert violations(fold, [example]) == []
    assert right(example.records)["r"].attrs == {"a.b": None}


def test_a_value_takes_the_place_of_a_branch_and_a_branch_that_of_a_value():
    """Of a value and of what was below it, the one that was written last stands; what is beside them stays."""
    example = told(
        ("a", 1, Span("r", 1, attrs={"model": {"depth": 3, "kind": {"x": 1}}, "seed": 1})),
        ("b", 1, Span("r", 2, attrs={"model": "small"})),
        ("a", 2, Span("r", 3, attrs={"seed": {"data": 1}})),
    )

    assert violations(fold, [example]) == []
    assert right(example.records)["r"].attrs == {"model": "small", "seed.data": 1}


@pytest.mark.parametrize("attrs", [{"kind": "try", "parent": "victim"}, {"kind": {"x": 1}, "parent.x": 2}])
def test_no_attribute_says_what_a_span_is_or_where_it_belongs(attrs):
    """Kind and parent are fields of a record, which a hub checks; attributes of these names change neither."""
    example = told(
        ("a", 1, Span("r", 1, kind="run", parent="outer", state="running")),
        ("a", 2, Span("r", 2, attrs={**attrs, "n": 1})),
    )

    assert violations(fold, [example]) == []
    row = right(example.records)["r"]
    assert (row.kind, row.parent, row.attrs) == ("run", "outer", {"n": 1})


@pytest.mark.parametrize(
    "attrs",
    [
        {"x" * 500_000: dict.fromkeys(map(str, range(100_000)), 1)},
        {"." * 900_000: 1},
        {"a." * 400 + str(n): 1 for n in range(1000)},
    ],
    ids=["a long branch", "dots", "many dots"],
)
def test_keys_cost_no_more_than_they_say(attrs):
    """However long keys are, and whatever dots they have: a record of a MiB becomes some MiB, and not some GiB."""
    tracemalloc.start()
    state = fold.Folded()
    state.fold(Span("r", 1, attrs=attrs), "a", 1)
    state.attrs()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 100 << 20
