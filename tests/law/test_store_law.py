"""The law as the store keeps it: what is in its tables is what the records add up to, and points come back exactly."""

import itertools
import json
import math
import random
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette import fold
from vedette.errors import VersionError
from vedette.model import KINDS, LANE_FACTS, LANE_SAMPLES, UNKNOWN_KIND, Blob, Event, Origin, Span
from vedette.store import Batch, Columns, EventQuery, Mark, SpanQuery, chunks, sqlite_bounds
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_bounds import standing
from vedette.store.sqlite_file import VERSION, open_reader

from .oracle import Delivery, Example, Row, add_up, right
from .sayings import VOICES, examples, repeatable_examples, with_fixed_parents


@contextmanager
def new_store() -> Iterator[SqliteStore]:
    """Open a store of one's own; hypothesis asks for many within one test."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as directory, closing(SqliteStore(f"{directory}/store")) as store:
        yield store


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with new_store() as opened:
        yield opened


def batches_of(part) -> list[Batch]:
    """Return one part of a delivery as the hub would hand it over: a batch for each origin."""
    by_origin: dict[str, list] = {}
    for origin, n, fact in part:
        by_origin.setdefault(origin, []).append((n, fact))
    return [
        Batch(Origin(origin), LANE_FACTS, max(n for n, _ in facts), facts=facts) for origin, facts in by_origin.items()
    ]


def keep(store: SqliteStore, delivery: Delivery) -> None:
    for part in delivery:
        store.keep(batches_of(part))


def rows_of(store: SqliteStore) -> dict[str, Row]:
    return {
        row.id: Row(
            row.kind, row.name, row.parent, row.state, row.cause, row.start_t, row.end_t, row.done,
            dict(sorted(row.attrs.items())),
        )
        for row in store.spans(SpanQuery())
    }  # fmt: skip


def everything_in(store: SqliteStore) -> list[str]:
    return list(store.connection.iterdump())


@settings(deadline=None, max_examples=times(30))
@given(examples())
def test_the_table_of_spans_is_what_the_records_add_up_to(example: Example):
    """However records arrive, the rows of `spans` are those of the fold in memory, and those that are right."""
    if any(span.state == "purged" for _, _, span in example.records):
        example = with_fixed_parents(example)
    for delivery in example.deliveries:
        with new_store() as store:
            keep(store, delivery)

            assert texts(rows_of(store)) == texts(right(example.records))
            assert texts(rows_of(store)) == texts(add_up(fold, delivery, random.Random(1)))


def texts(rows: dict[str, Row]) -> dict[str, str]:
    """Return rows as text, in which 1 and True and 1.0 are not the same."""
    return {id_: repr(row) for id_, row in rows.items()}


def test_many_arrivals_into_one_store_end_in_the_same_rows():
    """Every delivery of an example, one after another into the same store, changes nothing any more."""
    for example in repeatable_examples(seed=3, count=40):
        with new_store() as store:
            keep(store, example.deliveries[0])
            rows = rows_of(store)
            for delivery in example.deliveries[1:]:
                keep(store, delivery)

            assert texts(rows_of(store)) == texts(rows)


def test_a_try_of_a_try_counts_all_the_way_up():
    """When the highest try of a run has tries of its own, the run has the state of the highest of those."""
    records = [
        ("a", 1, Span("r", 1, kind="run", state="running")),
        ("a", 2, Span("r/1", 2, kind="try", parent="r", state="running", attrs={"n": 1})),
        ("a", 3, Span("r/1/1", 3, kind="try", parent="r/1", state="running", attrs={"n": 1})),
        ("a", 4, Span("r/1/1", 4, state="failed", cause="x")),
    ]
    ends = set()
    for way in itertools.permutations(records):
        for delivery in ([[record] for record in way], [way], [way[:2], way[2:]]):
            with new_store() as store:
                keep(store, delivery)
                ends.add(rows_of(store)["r"].state)

    assert ends == {"failed"}


def told_by(claims) -> list:
    """What claims add up to, whatever kind of span they are of."""
    return [fold.judge(kind, claims) for kind in (*KINDS.values(), UNKNOWN_KIND)]


@pytest.mark.parametrize("seed", range(60))
def test_the_claims_that_are_kept_decide_as_all_do(seed: int, monkeypatch):
    """In whatever order and parts claims come, the same few are kept, and these add up to what all of them do."""
    monkeypatch.setattr(sqlite_bounds, "_MOST_OTHER_STATES", 3)
    chance = random.Random(seed)
    states = [*UNKNOWN_KIND.climbing, *UNKNOWN_KIND.ends, "purged", *(f"odd{n}" for n in range(8))]
    states = chance.sample(states, chance.randint(1, len(states)))
    pick = chance.choice
    claims = [
        fold.Claim(pick(states), chance.randint(1, 9), pick(VOICES), pick(("a", "b")), pick(("x", "y", "")))
        for _ in range(pick((1, 3, 10, 200)))
    ]
    want = standing(claims)
    kept: set[fold.Claim] = set()
    for claim in chance.sample(claims, len(claims)):
        kept = standing({*kept, claim})
        if chance.random() < 0.2:
            kept = standing(kept | standing(chance.sample(claims, len(claims) // 2)))

    assert kept == want
    assert told_by(kept) == told_by(claims)
    most = 3 * len(UNKNOWN_KIND.climbing + UNKNOWN_KIND.ends) + 3 * 3 + 1
    assert len([claim for claim in kept if claim.state != "purged"]) <= most


def test_the_check_of_claims_finds_what_is_missing():
    """The positive control: each claim that is kept of some would be missed for what it adds."""
    claims = {
        fold.Claim("done", 5, "owner", "a", ""), fold.Claim("done", 9, "hub", "a", "why"),
        fold.Claim("done", 2, "user", "a", ""), fold.Claim("done", 6, "user", "a", ""),
    }  # fmt: skip

    kept = standing(claims)
    assert kept == {claim for claim in claims if claim.t != 6}
    assert all(told_by(kept - {claim}) != told_by(claims) for claim in kept)


def test_a_chain_of_tries_without_end_costs_little(store: SqliteStore):
    """One change goes up some levels of tries, however many there are."""
    chain = [Span(f"r/{n}", 1, "running", kind="try", parent=f"r/{n + 1}", attrs={"n": 1}) for n in range(2000)]
    store.keep(batches_of([("a", n, span) for n, span in enumerate(chain, 1)]))
    steps: list[str] = []
    store.connection.set_trace_callback(steps.append)
    store.keep(batches_of([("a", 3000, Span("r/0", 2, "failed"))]))

    assert rows_of(store)["r/2"].state == "failed"
    assert len(steps) < 200


@settings(deadline=None, max_examples=times(15))
@given(st.randoms(use_true_random=False))
def test_events_and_blobs_stay_single(chance: random.Random):
    """An event or a blob that comes again, in whatever part and order, is there once, in the full text too."""
    facts = [("a", n, Event("r", n, "log", 20, f"word{n}", {"k": n})) for n in (10, 20, 30)]
    facts += [("b", n, Event("r", n, "log", 20, f"word{n}", {"k": n})) for n in (10, 20)]
    facts += [("b", 40, Blob("r", 4, "code", "abc", 3))]
    delivered = facts * 2
    chance.shuffle(delivered)
    cut = chance.randrange(len(delivered))
    with new_store() as store:
        keep(store, [delivered[:cut], delivered[cut:], facts])

        texts = sorted((event.t, event.text, event.attrs["k"]) for event in store.events(EventQuery()))
        assert texts == sorted((n, f"word{n}", n) for n in (10, 20, 30, 10, 20))
        assert len(store.events(EventQuery(search="word10"))) == 2
        assert store.connection.execute("SELECT count(*) FROM blobs").fetchone() == (1,)


FLOATS = st.floats(width=64)
INTS = st.integers(-(1 << 63), (1 << 63) - 1)
SMALL = st.integers(-(1 << 53), 1 << 53)  # exact as floats too
KINDS_OF_COLUMNS = {
    "float64": st.lists(FLOATS),
    "int64": st.lists(INTS | st.sampled_from([-(1 << 63), (1 << 63) - 1, 0])),
    "bool": st.lists(st.booleans()),
    "mixed": st.lists(FLOATS | SMALL | st.booleans()),
    "huge": st.lists(st.integers((1 << 63), (1 << 64) - 1) | SMALL),
}


def bits(value) -> bytes:
    """Return what must be the same: the bits of a float, NaN and -0.0 among them."""
    return struct.pack("<d", value)


def same(values: list, array: np.ndarray) -> bool:
    """Tell whether a column has come back as it was; what has no common exact form is a float64 of equal value."""
    types = {type(value) for value in values}
    if types <= {bool}:
        return array.dtype == bool and array.tolist() == values
    if types <= {int, bool} and all(-(1 << 63) <= value < 1 << 63 for value in values):
        return array.dtype == np.int64 and array.tolist() == [int(value) for value in values]
    return array.dtype == np.float64 and [bits(v) for v in array.tolist()] == [bits(float(v)) for v in values]


def points_of(store: SqliteStore, name: str):
    (series,) = store.series(name=name)
    return store.points([series.id])[series.id]


@pytest.mark.parametrize("kind", KINDS_OF_COLUMNS)
@settings(deadline=None, max_examples=times(25))
@given(data=st.data())
def test_a_column_comes_back_bit_by_bit(kind: str, data: st.DataObject):
    """Points of every number type come back exactly, t to the microsecond, before and after `tidy`, from any chunks."""
    values = data.draw(KINDS_OF_COLUMNS[kind].filter(bool)) * data.draw(st.sampled_from([1, 1, 7, 400]))
    times = [1_700_000_000_123_456_789 + 1_000_003 * number for number in range(len(values))]
    seals = sorted({0, len(values), *data.draw(st.lists(st.integers(0, len(values)), max_size=4))})
    with new_store() as store:
        for a, b in itertools.pairwise(seals):
            rows = [(value, 1) for value in values[a:b]]
            part = Columns("r", {}, ("x", "y"), list(range(a + 1, b + 1)), times[a:b], list(range(a, b)), rows)
            store.keep([Batch(Origin("a"), LANE_SAMPLES, b, columns=[part])])
        for _ in range(2):
            points = points_of(store, "x")
            assert points.step.tolist() == list(range(len(values)))
            assert points.t.tolist() == [t // 1000 * 1000 for t in times]
            if len(seals) == 2 or kind not in {"mixed", "huge"}:
                assert same(values, points.value)
            else:  # each chunk has its own type, and numpy's common type of them is what is handed out
                assert [bits(float(v)) for v in points.value.tolist()] == [bits(float(v)) for v in values]
            store.tidy("a")


@pytest.mark.parametrize("count", [1, 8, 9, 4095, 4096, 4097, 10_000])
@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_chunks_of_every_length_come_back(count: int, dtype: str):
    """Short, full and over-full columns are cut, compressed or not, and come back."""
    chance = random.Random(count)
    number = {"float64": chance.random, "int64": lambda: chance.getrandbits(63), "bool": lambda: chance.random() < 0.1}
    values = [number[dtype]() for _ in range(count)]
    with new_store() as store:
        column = Columns(
            "r", {"k": "v"}, ("x",), list(range(1, count + 1)), list(range(0, count * 1000, 1000)),
            list(range(count)), [(value,) for value in values],
        )  # fmt: skip
        store.keep([Batch(Origin("a"), LANE_SAMPLES, count, columns=[column])])

        assert same(values, points_of(store, "x").value)
        assert store.series()[0].count == count
        assert store.series()[0].last == values[-1]


@pytest.mark.parametrize("values", [[math.nan] * 3, [math.inf, -math.inf, math.nan], [-0.0, 5e-324, 1.7e308]], ids=str)
def test_what_is_no_number_is_kept(store: SqliteStore, values: list[float]):
    """NaN and infinities come back as they are, alone in a chunk too, from raw and from compressed ones."""
    values *= 50
    for number in range(3):
        column = Columns("r", {}, ("x",), [number + 1] * 150, [number] * 150, [number] * 150, [(v,) for v in values])
        store.keep([Batch(Origin("a"), LANE_SAMPLES, number + 1, columns=[column])])
    for _ in range(2):
        assert same(values * 3, points_of(store, "x").value)
        store.tidy("a")


def test_tidy_merges_and_loses_nothing():
    """Five hundred chunks of a few points become few, of series that come and go, and every point is still there."""
    chance = random.Random(4)
    said: dict[str, list] = {"x": [], "y": [], "z": []}
    with new_store() as store:
        for n in range(500):
            names = tuple(sorted(chance.sample("xyz", chance.randint(1, 3))))
            rows = [tuple(chance.random() for _ in names) for _ in range(chance.randint(1, 20))]
            offsets = [n * 100 + k + 1 for k in range(len(rows))]
            store.keep(
                [
                    Batch(
                        Origin("a"), LANE_SAMPLES, offsets[-1],
                        columns=[Columns("r", {}, names, offsets, [p * 1000 for p in offsets], offsets, rows)],
                    )
                ]
            )  # fmt: skip
            for name, column in zip(names, zip(*rows, strict=True), strict=True):
                said[name] += zip(offsets, column, strict=True)
        before = store.connection.execute("SELECT count(*) FROM axes").fetchone()[0]
        for _ in range(3):
            for name, points in said.items():
                found = points_of(store, name)
                assert list(zip(found.step.tolist(), found.value.tolist(), strict=True)) == points
                assert (found.t == found.step * 1000).all()
            store.tidy("a")

        assert store.connection.execute("SELECT count(*) FROM axes").fetchone()[0] < before / 10


def test_points_come_by_step_and_then_by_time(store: SqliteStore):
    """Points of several origins that share a step are handed out in the order of their times."""
    for origin, first in (("a", 5_000), ("b", 2_000)):
        column = Columns("r", {}, ("x",), [1, 2], [first, first + 10_000], [1, 1], [(first,), (first + 1,)])
        store.keep([Batch(Origin(origin), LANE_SAMPLES, 2, columns=[column])])

    assert points_of(store, "x").t.tolist() == [2_000, 5_000, 12_000, 15_000]


@pytest.mark.parametrize("steps", [[5, 3], [(1 << 63) - 1, -(1 << 63)], [0, -(1 << 63), (1 << 63) - 1]], ids=str)
def test_points_come_by_step_whatever_the_steps_are(store: SqliteStore, steps: list[int]):
    """Steps that fall, even from one end of what 64 bits hold to the other, are put in order."""
    count = len(steps)
    column = Columns("r", {}, ("x",), list(range(1, count + 1)), [1000] * count, steps, [(s,) for s in steps])
    store.keep([Batch(Origin("a"), LANE_SAMPLES, count, columns=[column])])

    assert points_of(store, "x").step.tolist() == points_of(store, "x").value.tolist() == sorted(steps)


def test_points_of_one_step_keep_their_order_through_tidy(store: SqliteStore):
    """Points that one origin logged at the same step, with other names between, are in order after `tidy` too."""
    for n, names in enumerate([("x",), ("x", "y"), ("x",), ("x", "y")], 1):
        column = Columns("r", {}, names, [n], [n * 1_000_000], [7], [(n,) * len(names)])
        store.keep([Batch(Origin("a"), LANE_SAMPLES, n, columns=[column])])
    before = points_of(store, "x").value.tolist()
    store.tidy("a")

    assert before == [1, 2, 3, 4]
    assert points_of(store, "x").value.tolist() == before


def test_the_same_batch_of_samples_twice_is_the_same_as_once(store: SqliteStore):
    """A batch of samples that lies wholly before the mark is already there, and adds nothing."""
    batch = Batch(
        Origin("a"), LANE_SAMPLES, 2, columns=[Columns("r", {}, ("x",), [1, 2], [1000, 2000], [1, 2], [(1.0,), (2.0,)])]
    )
    store.keep([batch])
    store.keep([batch])

    assert points_of(store, "x").value.tolist() == [1.0, 2.0]
    assert store.series()[0].count == 2


@settings(deadline=None, max_examples=times(15))
@given(st.lists(st.integers(0, 50), min_size=1, max_size=12))
def test_marks_never_go_back(offsets: list[int]):
    """Whatever comes again from earlier, a lane's mark stays where it was furthest."""
    with new_store() as store:
        for offset in offsets:
            store.keep([Batch(Origin("a"), LANE_FACTS, offset), Batch(Origin("a"), LANE_SAMPLES, offset // 2)])

        marks = store.marks()
        assert marks["a", LANE_FACTS].offset == max(offsets)
        assert marks["a", LANE_SAMPLES].offset == max(offsets) // 2


def test_an_earlier_batch_again_leaves_the_counts_of_damage(store: SqliteStore):
    """What could not be read before the mark is still known when an earlier batch comes a second time."""
    store.keep([Batch(Origin("a"), LANE_FACTS, 10, damaged=1, refused=1)])
    store.keep([Batch(Origin("a"), LANE_FACTS, 20, damaged=3, refused=4)])
    store.keep([Batch(Origin("a"), LANE_FACTS, 10, damaged=1, refused=1)])

    assert store.marks()["a", LANE_FACTS] == Mark(20, 3, 4)


RAGGED = Columns("r", {}, ("x", "y"), [1, 2], [1, 2], [1, 2], [(1.0, 2.0), (3.0,)])


@pytest.mark.parametrize(
    "bad",
    [
        Batch(Origin("c"), LANE_SAMPLES, 9, columns=[RAGGED]),
        Batch(Origin("c"), LANE_FACTS, 9, facts=[(9, Event("r", 1 << 70, "log"))]),
        Batch(Origin("c"), "s", 1 << 70),
    ],
    ids=["ragged", "time", "place"],
)
def test_a_failed_transaction_keeps_nothing(store: SqliteStore, bad: Batch):
    """When one batch cannot be kept, none of those with it is, and the same ones without it are kept afterwards."""
    good = [
        Batch(Origin("a"), LANE_FACTS, 5, facts=[(4, Span("r", 1, state="running")), (5, Event("r", 1, "log"))]),
        Batch(Origin("b"), LANE_SAMPLES, 5, columns=[Columns("r", {}, ("x",), [5], [1], [1], [(1.0,)])]),
    ]
    store.keep([Batch(Origin("a"), LANE_FACTS, 3, facts=[(3, Event("r", 1, "log"))])])
    before = everything_in(store)
    with pytest.raises((ValueError, OverflowError, sqlite3.Error)):
        store.keep([*good, bad], {"a": 77})

    assert everything_in(store) == before

    store.keep(good, {"a": 77})

    assert {name for name, _ in store.marks()} == {"a", "b"}
    assert len(store.events(EventQuery())) == 2
    assert points_of(store, "x").value.tolist() == [1.0]
    assert [row.state for row in store.spans(SpanQuery())] == ["running"]
    assert {row.origin.name: row.heard_t for row in store.origins()} == {"a": 77, "b": 0}


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    """A store that a newer vedette wrote is neither read nor written, and a sentence says what to do."""
    path = str(tmp_path / "store")
    with closing(SqliteStore(path)) as store:
        store.keep([Batch(Origin("a"), LANE_FACTS, 3)])
        store.connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    for opening in (SqliteStore, open_reader):
        with pytest.raises(VersionError, match="upgrade"):
            opening(path)


def test_what_a_chunk_is_given_it_gives_back():
    """Columns of few and of many numbers, of all three types, are the same after `pack` and `unpack`."""
    chance = random.Random(6)
    for count in (0, 1, 7, 8, 9, 64, 65, 5000):
        for dtype in (np.float64, np.int64, np.bool_):
            array = np.frombuffer(chance.randbytes(8 * count), dtype=np.int64).view(np.float64)
            array = array if dtype == np.float64 else array.view(np.int64)
            array = array > 0 if dtype == np.bool_ else array
            back = chunks.unpack(chunks.pack(array))
            assert back.dtype == array.dtype
            assert back.tobytes() == array.tobytes()


def test_attributes_that_json_has_not_can_be_asked_for(store: SqliteStore):
    """NaN and infinities in attributes are text in the table, and the table stays JSON that SQLite can read."""
    store.keep(batches_of([("a", 1, Span("r", 1, attrs={"a": {"b": math.nan, "c": [math.inf]}, "d": (1 << 64) - 1}))]))

    (row,) = store.connection.execute("SELECT attrs, json_valid(attrs) FROM spans").fetchall()
    assert row[1] == 1
    assert json.loads(row[0]) == {"a.b": "nan", "a.c": ["inf"], "d": (1 << 64) - 1}
