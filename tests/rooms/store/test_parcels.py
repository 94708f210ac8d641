"""Batches <-> parcels: the same comes back, and nothing that is wrong is believed."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette import wire
from vedette.errors import FormatError
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.store import Batch, Block, Columns, chunks, parcels

US = Origin("o", "camp", "b", 7, 9, "r", "r/1/o", "vedette://secret@x:1")


def samples(start=0, count=5, names=("x", "y"), **more):
    offsets = list(range(start + 10, start + 10 + 10 * count, 10))
    rows = [tuple(float(p) for _ in names) for p in offsets]
    columns = Columns("r", {}, names, offsets, [p * 1000 for p in offsets], offsets, rows)
    return Batch(US, LANE_SAMPLES, offsets[-1], 1, 2, columns=[columns], start=start, **more)


def same(one: Block, two: Block) -> bool:
    arrays = zip((one.n, one.t, one.step, *one.values), (two.n, two.t, two.step, *two.values), strict=True)
    return (one.span, one.tags, one.names) == (two.span, two.tags, two.names) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in arrays
    )


def through_the_wire(parcel):
    return wire.unpack_message(wire.encode(wire.Shipment(1, [parcel]))).parcels[0]


@settings(max_examples=times(25))
@given(
    st.lists(st.tuples(st.floats() | st.integers(-(1 << 63), (1 << 63) - 1) | st.booleans()), min_size=1, max_size=300),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)
def test_samples_come_back(rows, tags):
    """What is packed, sent and unpacked is what was there, to the last bit."""
    n = list(range(1, len(rows) + 1))
    columns = Columns("r", dict(sorted(tags.items())), ("x",), n, n, n, rows)
    batch = Batch(US, LANE_SAMPLES, len(n), columns=[columns])
    [parcel] = parcels.pack(batch)

    back = parcels.unpack(through_the_wire(parcel))

    assert (back.end, back.start) == (len(n), 0)
    assert same(back.columns[0], columns.block())


def test_facts_come_back_in_parcels_that_fit():
    """Facts that are too many for one parcel go into several, without a gap between them."""
    facts = [(n, Event("r", n, "mark", 20, "x" * 300_000)) for n in range(1, 11)]
    batch = Batch(US, LANE_FACTS, 12, facts=facts, start=0)

    made = parcels.pack(batch, over=True)
    back = [parcels.unpack(through_the_wire(parcel)) for parcel in made]

    assert len(made) > 2
    assert [item for part in back for item in part.facts] == facts
    assert [part.start for part in back] == [0, *(part.end for part in back[:-1])]
    assert back[-1].end == 12
    assert [parcel.over for parcel in made] == [False] * (len(made) - 1) + [True]


def test_samples_that_are_too_many_are_cut():
    """A batch that would not fit into one shipment goes into several, each row once, counts of refusals once."""
    rng = np.random.default_rng(1)
    n = np.arange(1, 300_001, dtype=np.int64)
    block = Block("r", {}, ("x", "y"), n, n, n, (rng.random(len(n)), rng.random(len(n))))
    batch = Batch(US, LANE_SAMPLES, 300_000, columns=[block], refusals={"limits.name_chars": 3})

    made = parcels.pack(batch)
    back = [parcels.unpack(parcel) for parcel in made]

    assert len(made) > 1
    assert np.array_equal(np.concatenate([part.columns[0].n for part in back]), n)
    assert all(len(wire.encode(parcel)) < wire.MAX_SHIPMENT for parcel in made)
    assert [part.start for part in back] == [0, *(part.end for part in back[:-1])]
    assert sum(part.refusals.get("limits.name_chars", 0) for part in back) == 3


def test_no_token_travels():
    """The address that an origin is meant for, which may hold a token, does not go into a parcel."""
    assert b"secret" not in wire.encode(parcels.pack(samples())[0])


def test_a_process_speaks_for_itself_alone():
    """Only a hub's own origin may say something in another voice than the owner's."""
    span = Span("r", 1, "done", by=HUB)
    facts = [(1, span)]
    process = parcels.unpack(parcels.pack(Batch(US, LANE_FACTS, 1, facts=facts))[0])
    hub = parcels.unpack(parcels.pack(Batch(Origin("h", voice=HUB), LANE_FACTS, 1, facts=facts))[0])
    liar = parcels.unpack(parcels.pack(Batch(msgspec.structs.replace(US, voice=HUB), LANE_FACTS, 1, facts=facts))[0])

    assert [batch.facts[0][1].by for batch in (process, hub, liar)] == ["owner", "hub", "owner"]


BOMB = chunks.pack(np.zeros(1 << 22))
FALSE = {
    "another lane": {"lane": "x"},
    "backwards": {"start": 100, "end": 50},
    "beyond all offsets": {"end": 1 << 63},
    "from before all offsets": {"start": -5},
    "facts out of order": {"facts": [(20, b""), (10, b"")]},
    "facts behind the end": {"facts": [(10_000, b"")]},
}
FALSE_BLOCKS = {
    "fewer values": {"values": [chunks.pack(np.zeros(3)), chunks.pack(np.zeros(5))]},
    "a bomb": {"values": [BOMB, BOMB]},
    "a bomb for offsets": {"n": BOMB},
    "no bytes": {"values": [b"", b""]},
    "no such code": {"t": b"zzz"},
    "offsets that are no integers": {"n": chunks.pack(np.arange(5.0))},
    "offsets that fall": {"n": chunks.pack(np.array([50, 40, 30, 20, 10]))},
    "offsets behind the parcel": {"n": chunks.pack(np.array([10, 20, 30, 40, 5000]))},
    "offsets before the parcel": {"n": chunks.pack(np.array([0, 20, 30, 40, 50]))},
    "times before all time": {"t": chunks.pack(np.array([-1, 1, 1, 1, 1]))},
    "a name twice": {"names": ["x", "x"]},
    "no names": {"names": [], "values": []},
    "more names than columns": {"names": ["x", "y", "z"]},
    "no rows": {"count": 0},
    "too many rows": {"count": 1 << 40},
    "no span": {"span": ""},
    "a span too long": {"span": "s" * 200},
    "damaged bytes": {"values": [chunks.pack(np.random.default_rng(1).random(5))[:-3]] * 2},
}


@pytest.mark.parametrize("what", FALSE)
def test_false_parcels(what):
    """A parcel that is not what it claims is refused."""
    [parcel] = parcels.pack(samples())

    with pytest.raises(FormatError):
        parcels.unpack(through_the_wire(msgspec.structs.replace(parcel, **FALSE[what])))


@pytest.mark.parametrize("what", FALSE_BLOCKS)
def test_false_blocks(what):
    """A block that is not what it claims is refused, in little memory; counted, its offset is passed."""
    [parcel] = parcels.pack(samples())
    block = msgspec.structs.replace(parcel.blocks[0], **FALSE_BLOCKS[what])
    false = msgspec.structs.replace(parcel, blocks=[block])

    with pytest.raises(FormatError):
        parcels.unpack(through_the_wire(false))
    passed = parcels.nothing_of(false)
    assert (passed.end, passed.damaged, passed.columns) == (parcel.end, parcel.damaged + 1, [])


def test_made_up_refusals_are_not_counted():
    """Only limits that there are can have been reached, and not a negative number of times."""
    [parcel] = parcels.pack(samples(refusals={"limits.name_chars": 3}))
    lying = msgspec.structs.replace(parcel, refusals={"limits.name_chars": 3, "<b>": 5, "limits.connections": -1})

    assert parcels.unpack(lying).refusals == {"limits.name_chars": 3}
