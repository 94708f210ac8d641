"""Columns of numbers <-> bytes. pcodec compresses long ones; short ones are stored raw, as they would only grow."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pcodec import ChunkConfig, standalone

from vedette.errors import FormatError

_FAST, _TIGHT = ChunkConfig(compression_level=4), ChunkConfig(compression_level=8)
_SHORT_BYTES = 64
_RAW = {np.dtype("float64"): b"f", np.dtype("int64"): b"i", np.dtype("bool"): b"b"}
_DTYPES = {code: dtype for dtype, code in _RAW.items()}
_PCO = b"p"
_PCO_BOOL = b"q"  # pcodec has no bool: stored as int16
_RUNS = b"r"  # run-length encoded offsets: the first, the distances, and how often each repeats
_INSIDE = {_PCO: ("float64", "int64"), _PCO_BOOL: ("int16",)}


def to_array(values: Sequence[Any]) -> NDArray[Any]:
    """Make a column of float64, int64 or bool, whichever holds the values unchanged."""
    try:
        array = np.array(values)
    except OverflowError:
        array = np.array(values, dtype=object)
    if array.dtype in _RAW:
        return array
    return np.array([float(value) for value in values], dtype=np.float64)


def pack(array: NDArray[Any], *, tight: bool = False) -> bytes:
    """Return the bytes of a column; `tight`: a few percent fewer, for four times the work."""
    config = _TIGHT if tight else _FAST
    code = _RAW[array.dtype]
    if array.nbytes <= _SHORT_BYTES:
        return code + array.tobytes()
    if code == b"b":
        return _PCO_BOOL + bytes(standalone.simple_compress(array.astype(np.int16), config))
    return _PCO + bytes(standalone.simple_compress(array, config))


def unpack(data: bytes) -> NDArray[Any]:
    """Return the column that `pack` was given; raise FormatError when the bytes are not from `pack`."""
    code = data[:1]
    try:
        if code in _DTYPES:
            return np.frombuffer(data, dtype=_DTYPES[code], offset=1)
        array = standalone.simple_decompress(data[1:]) if code in (_PCO, _PCO_BOOL) else None
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        raise FormatError(f"a chunk cannot be read: {error}") from None
    if array is None:
        raise FormatError("a chunk is of an unknown kind")
    return np.asarray(array).astype(bool) if code == _PCO_BOOL else np.asarray(array)


def unpack_exactly(data: bytes, count: int) -> NDArray[Any]:
    """Return a column of exactly `count` numbers; raise FormatError if it has more or fewer, unpacking no more."""
    code = data[:1]
    array: NDArray[Any] | None = None
    if code in _DTYPES and len(data) - 1 == count * _DTYPES[code].itemsize:
        array = np.frombuffer(data, dtype=_DTYPES[code], offset=1)
        if code == b"b" and np.any(array.view(np.uint8) > 1):
            array = None
    elif code in (_PCO, _PCO_BOOL):
        array = next((into for kind in _INSIDE[code] if (into := _unpack_as(kind, data, count)) is not None), None)
    if array is None:
        raise FormatError(f"a chunk does not have {count} numbers, as its axis does")
    return array.astype(bool) if code == _PCO_BOOL else array


def pack_offsets(n: NDArray[np.int64]) -> bytes:
    """Return the bytes of offsets in a lane; most distances are equal, so run-length encoding makes them small."""
    apart = np.diff(n)
    starts = np.flatnonzero(np.diff(apart, prepend=apart[:1] - 1))
    lengths = np.diff(starts, append=len(apart))
    runs = _RUNS + np.concatenate((n[:1], apart[starts], lengths)).astype("<i8").tobytes()
    packed = pack(n) if len(runs) > _SHORT_BYTES else runs
    return runs if len(runs) <= len(packed) else packed


def unpack_offsets(data: bytes, count: int) -> NDArray[np.int64]:
    """Return the offsets that `pack_offsets` was given; raise FormatError when they are not `count`."""
    if data[:1] != _RUNS:
        return unpack_exactly(data, count)
    numbers = np.frombuffer(data, dtype="<i8", offset=1) if len(data) % 8 == 1 else np.empty(0, dtype=np.int64)
    half = len(numbers) // 2
    first, apart, lengths = numbers[:1], numbers[1 : half + 1], numbers[half + 1 :]
    sound = len(numbers) % 2 == 1 and half < count and np.all((lengths > 0) & (lengths < count))
    if not sound or int(lengths.sum()) != count - 1:
        raise FormatError(f"the offsets of a chunk are not {count}, as its axis has")
    return np.cumsum(np.concatenate((first, np.repeat(apart, lengths))))


def dtype_of(data: bytes) -> np.dtype[Any]:
    """Return the type of a column's numbers, without unpacking more than a few of them."""
    code = data[:1]
    if code == _PCO_BOOL:
        return np.dtype(np.bool_)
    if code in _DTYPES:
        return _DTYPES[code]
    try:
        standalone.simple_decompress_into(data[1:], np.empty(1, dtype=np.float64))
    except RuntimeError:
        return np.dtype(np.int64)
    return np.dtype(np.float64)


def _unpack_as(kind: str, data: bytes, count: int) -> NDArray[Any] | None:
    try:
        into = np.empty(count, dtype=kind)
        progress = standalone.simple_decompress_into(data[1:], into)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic in the Rust library is not an Exception
        return None
    return into if progress.finished and progress.n_processed == count else None


def extremes(array: NDArray[Any]) -> tuple[float | None, float | None, float]:
    """Return min, max and sum of a column, without its NaNs."""
    numbers = array.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
        total = float(numbers.sum())
        if math.isnan(total):
            total = float(np.nansum(numbers))
    if math.isnan(low):  # all values are NaN
        return None, None, 0.0
    return low, high, total
