"""Finds sound records in damaged bytes, in a time that grows with their number only, whatever is in them.

Any four bytes can be a length. So a damaged stretch may hold as many candidates as bytes, of a megabyte each, and to
checksum one after the other would take hours. Here the checksums of all candidates come from those of the prefixes:
the CRC of a stretch is that of all before its end, less that of all before its beginning, shifted by its length.
numpy does that for all of them at once; it is imported only when there is damage.
"""

from functools import cache
from typing import Any
from zlib import crc32

from vedette import wire

_HEAD = wire.HEAD.size
_LEAST_PAYLOAD = 3


def sound_starts(data: bytes, count: int, shape: tuple[frozenset[bytes], int]) -> list[int]:
    """Return where whole records begin in the first `count` bytes of data; they may end behind these.

    `shape`: the first bytes that a payload can have, and its greatest size.
    """
    import numpy as np  # noqa: PLC0415 - only where there is damage

    usable = min(count, len(data) - _HEAD - _LEAST_PAYLOAD + 1)
    if usable <= 0:
        return []
    raw = np.frombuffer(data, np.uint8)
    size = _little(raw, 0, usable)
    room = len(data) - _HEAD - np.arange(usable, dtype=np.int64)
    begins = np.isin(raw[_HEAD : _HEAD + usable], np.frombuffer(b"".join(sorted(shape[0])), np.uint8))
    at = np.flatnonzero(begins & (size >= _LEAST_PAYLOAD) & (size <= np.minimum(room, shape[1])))
    if not len(at):
        return []
    size = size[at]
    begin = at + _HEAD
    places, inverse = np.unique(np.concatenate((begin, begin + size)), return_inverse=True)
    prefix = np.array(_prefix_crcs(data, places.tolist()), np.uint32)[inverse]
    said = _little(raw, 4, usable)[at].astype(np.uint32)
    wanted = said ^ prefix[len(at) :]
    return [int(place) for place in at[_shift(size.astype(np.uint32) ^ prefix[: len(at)], size) == wanted]]


def _little(raw: Any, first: int, count: int) -> Any:
    """Return the little-endian number of four bytes at each of `count` places, the first of them at `first`."""
    import numpy as np  # noqa: PLC0415 - see above

    parts = [raw[first + byte : first + byte + count].astype(np.int64) << (8 * byte) for byte in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]


def _prefix_crcs(data: bytes, places: list[int]) -> list[int]:
    """Return the checksum of all bytes before each of these places, which rise."""
    view, found, before, crc = memoryview(data), [], 0, 0
    for place in places:
        crc = crc32(view[before:place], crc)
        found.append(crc)
        before = place
    return found


def _shift(crcs: Any, sizes: Any) -> Any:
    """Return the checksums as they are after so many more zero bytes each, without the effect of their beginning."""
    import numpy as np  # noqa: PLC0415 - see above

    shifted = crcs.copy()
    for power in range(int(sizes.max()).bit_length()):
        some = np.flatnonzero(sizes >> power & 1)
        shifted[some] = _apply(_operator(power), shifted[some])
    return shifted


@cache
def _operator(power: int) -> Any:
    """Return what 2**power zero bytes do to a checksum: for each of its four bytes, what each value of it becomes."""
    import numpy as np  # noqa: PLC0415 - see above

    if power:
        half = _operator(power - 1)
        return np.stack([_apply(half, part) for part in half])
    values = np.arange(256, dtype=np.uint32)
    table = values.copy()
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0xEDB88320), table >> 1)
    return np.stack([table, values, values << 8, values << 16])


def _apply(operator: Any, crcs: Any) -> Any:
    parts = (operator[byte][crcs >> (8 * byte) & 0xFF] for byte in range(4))
    first, second, third, fourth = parts
    return first ^ second ^ third ^ fourth
