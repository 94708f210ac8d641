"""Downsampling: what is left looks like the whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.soak import times
from vedette.query.downsample import PER_PIXEL, downsample, odd, pick

VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0])
)
Y = arrays.arrays(np.float64, st.integers(0, 150), elements=VALUES)


def climbing(length):
    """Some x that climb, as steps and as times do: with gaps, and with ties."""
    steps = st.lists(st.sampled_from([0, 1, 1, 2, 1000]), min_size=length, max_size=length)
    kinds = st.sampled_from([np.int64, np.float64])
    return st.tuples(steps, kinds).map(lambda both: np.cumsum(np.array(both[0], dtype=np.int64)).astype(both[1]))


CURVES = Y.flatmap(lambda y: st.tuples(climbing(len(y)), st.just(y)))


def pixels_of(x, width):
    """Say in another way which pixel each point lies in."""
    first, last = x[0].item(), x[-1].item()
    parts = range(width)
    if isinstance(first, int):
        edges = [first + (last - first) * pixel // width for pixel in parts]
    else:
        edges = [first + (last - first) * (pixel / width) for pixel in parts]
    return [max(pixel for pixel, edge in enumerate(edges) if edge <= value) for value in x.tolist()]


def check(x, y, width, kept):
    """The promise, whole: few points, in order, first and last, and each pixel's lowest and highest finite value."""
    assert np.all(np.diff(kept) > 0)
    if len(x) <= PER_PIXEL * width:
        assert len(kept) == len(x)
        return
    assert (kept[0], kept[-1]) == (0, len(x) - 1)
    pixels = np.array(pixels_of(x, width))
    for pixel in set(pixels.tolist()):
        within = np.flatnonzero(pixels == pixel)
        stays = [place for place in kept.tolist() if pixels[place] == pixel]
        assert len(stays) <= PER_PIXEL
        assert {within[0], within[-1]} <= set(stays)
        finite = y[within][np.isfinite(y[within])]
        if len(finite):
            left = y[stays][np.isfinite(y[stays])]
            assert (left.min(), left.max()) == (finite.min(), finite.max())


@settings(max_examples=times(50), deadline=None)
@given(CURVES, st.integers(1, 30))
def test_every_spike_stays(curve, width):
    """Whatever the curve, each pixel keeps its first, lowest, highest and last, at most four points, in order."""
    x, y = curve
    check(x, y, width, pick(x, y, width))


def every_nth(x, y, width):
    return np.unique(np.append(np.arange(0, len(x), max(1, len(x) // width)), len(x) - 1))


def with_nan(x, y, width):
    """The same as ours, but with numpy's own idea of a lowest value, which is NaN."""
    pixels = np.array(pixels_of(x, width))
    kept = set()
    for pixel in set(pixels.tolist()):
        within = np.flatnonzero(pixels == pixel)
        kept |= {within[0], within[-1], within[y[within].argmin()], within[y[within].argmax()]}
    return np.array(sorted(kept))


@pytest.mark.parametrize("broken", [every_nth, with_nan])
def test_a_lossy_one_is_caught(broken):
    """The check catches one that takes every nth point, and one in which a NaN hides a spike."""
    x = np.arange(1000)
    y = np.zeros(1000)
    y[501], y[502], y[503] = np.nan, 1e9, -1e9

    check(x, y, 10, pick(x, y, 10))
    with pytest.raises(AssertionError):
        check(x, y, 10, broken(x, y, 10))


@given(st.lists(VALUES, max_size=300), st.lists(VALUES, min_size=300, max_size=300), st.integers(-3, 20))
@settings(deadline=None)
def test_an_x_that_goes_to_and_fro(values, other, width):
    """By another metric, which may be anything, the order is kept, and so are first, last, lowest and highest."""
    y = np.array(values)
    x = np.array(other[: len(y)])
    kept = pick(x, y, width)

    assert np.all(np.diff(kept) > 0)
    assert len(kept) <= max(len(x) if len(x) <= PER_PIXEL * max(1, width) else 0, PER_PIXEL * max(1, width))
    finite = y[np.isfinite(y)]
    if len(finite):
        left = y[kept][np.isfinite(y[kept])]
        assert (left.min(), left.max()) == (finite.min(), finite.max())


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.bool_])
def test_what_fits_is_exact(kind):
    """Points that fit come back as they are; what is left of more are the very same values."""
    x = np.arange(100)
    y = (np.arange(100) % 7).astype(kind)

    same_x, same_y = downsample(x, y, 25)
    assert same_x is x
    assert same_y is y
    less_x, less_y = downsample(x, y, 10)
    assert less_y.dtype == kind
    assert np.array_equal(less_y, y[less_x])


def test_nanoseconds_keep_their_pixels():
    """Times since 1970 a few nanoseconds apart lie in pixels of their own."""
    x = 1_790_000_000 * 10**9 + np.arange(1000)
    y = np.sin(np.arange(1000))

    check(x, y, 100, pick(x, y, 100))
    assert len(pick(x, y, 100)) > 300


def test_where_the_odd_ones_are():
    """NaN and infinities are told by their places, as they may not be drawn."""
    assert odd(np.array([1.0, np.nan, 2.0, -np.inf, np.inf])).tolist() == [1, 3, 4]
    assert odd(np.array([1, 2])).tolist() == []
    assert odd(np.array([True])).tolist() == []
