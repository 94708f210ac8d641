"""Columns of numbers <-> bytes: the same comes back, and damage is noticed."""

import math
import random

import numpy as np
import pytest

from vedette.errors import FormatError
from vedette.store.chunks import extremes, pack, pack_offsets, to_array, unpack, unpack_offsets
from vedette.store.points import FULL

COLUMNS = {
    "floats": [0.1 * n for n in range(FULL)],
    "noise": np.random.default_rng(1).normal(size=FULL).tolist(),
    "odd floats": [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308] * 20,
    "ints": list(range(-2000, 2000)),
    "extreme ints": [2**63 - 1, -(2**63), 0] * 30,
    "bools": [n % 3 == 0 for n in range(FULL)],
    "one float": [0.5],
    "one int": [7],
    "one bool": [True],
    "eight floats": [0.5] * 8,
    "nine floats": [0.5] * 9,
    "sixty-five bools": [True] * 65,
    "constant": [1.0] * FULL,
    "none": [],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back_bit_by_bit(name):
    """What was packed is unpacked with the same type and the same bits, short or long."""
    array = to_array(COLUMNS[name])
    back = unpack(pack(array))

    assert array.dtype == back.dtype
    assert array.tobytes() == back.tobytes()


def test_nan_comes_back():
    """NaN is a value, with its bits."""
    array = to_array([math.nan, 1.0, math.nan] * 50)

    assert array.tobytes() == unpack(pack(array)).tobytes()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, 2.0], "float64"),
        ([1, 2], "int64"),
        ([True, False], "bool"),
        ([1, 2.0], "float64"),
        ([True, 2], "int64"),
        ([True, 2.0], "float64"),
        ([2**63], "float64"),
        ([2**63, -1], "float64"),
        ([2**64, 1], "float64"),
        ([2**64 - 1, 0.5, True], "float64"),
        ([math.nan, 1], "float64"),
    ],
)
def test_a_column_has_one_of_three_types(values, dtype):
    """A column is float64, int64 or bool: whichever holds all its values."""
    array = to_array(values)

    assert array.dtype == dtype
    assert repr([float(value) for value in values]) == repr([float(value) for value in array])


def test_smooth_columns_are_small():
    """Times that tick and values of few digits take a small part of their plain size."""
    times = np.arange(FULL, dtype=np.int64) * 1_000_000 + 1_790_000_000_000_000
    losses = np.float32(np.exp(-np.arange(FULL) / 1000)).astype(np.float64)

    assert len(pack(times)) < times.nbytes / 20
    assert len(pack(losses)) < losses.nbytes * 5 / 8


def test_short_columns_do_not_grow():
    """A point or two cost a byte more than they are."""
    assert len(pack(to_array([0.5]))) == 9
    assert len(pack(to_array([True]))) == 2


@pytest.mark.parametrize(
    "data", [b"", b"p", b"q", b"f123", b"i" + bytes(9), b"p" + bytes(50), b"qgarbage", b"x", b"\0"]
)
def test_what_is_no_chunk_is_refused(data):
    """Bytes that are no chunk raise FormatError and nothing else."""
    with pytest.raises(FormatError):
        unpack(data)


@pytest.mark.parametrize("name", ["floats", "ints", "bools", "one float"])
def test_damage_never_crashes(name):
    """A chunk with some bytes changed or cut off is refused, or gives a column; never another error."""
    dice = random.Random(name)
    good = pack(to_array(COLUMNS[name]))
    for _ in range(200):
        data = bytearray(good[: dice.randrange(len(good) + 1)] if dice.random() < 0.3 else good)
        for _ in range(dice.randint(1, 5)):
            if data:
                data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            assert unpack(bytes(data)).ndim == 1
        except FormatError:
            continue


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 3.0, 2.0], (1.0, 3.0, 6.0)),
        ([5], (5.0, 5.0, 5.0)),
        ([True, False, True], (0.0, 1.0, 2.0)),
        ([math.nan, 1.0, 2.0], (1.0, 2.0, 3.0)),
        ([math.nan], (None, None, 0.0)),
        ([math.inf, 1.0], (1.0, math.inf, math.inf)),
        ([-math.inf, math.inf], (-math.inf, math.inf, 0.0)),
        ([1e308, 1e308], (1e308, 1e308, math.inf)),
    ],
    ids=repr,
)
def test_extremes(values, found):
    """Min, max and sum are those of the numbers that are numbers, without a warning."""
    low, high, total = extremes(to_array(values))

    assert (low, high) == found[:2]
    assert total == found[2] or math.isnan(total)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 100, 5000])
@pytest.mark.parametrize("apart", ["even", "a gap", "by chance"])
def test_places_come_back(count, apart):
    """Places in a lane come back as they were, and take next to nothing where they lie equally far apart."""
    chance = np.random.default_rng(count)
    steps = chance.integers(1, 1000, size=count) if apart == "by chance" else np.full(count, 40)
    steps[count // 2] += 5000 if apart == "a gap" else 0
    places = np.cumsum(steps)
    packed = pack_offsets(places)

    assert unpack_offsets(packed, count).tolist() == places.tolist()
    assert len(packed) < (100 if apart != "by chance" or count < 9 else 9 * count)
    for wrong in (count - 1, count + 1, 1 << 40):
        with pytest.raises(FormatError):
            unpack_offsets(packed, wrong)
