"""Sound records in damaged bytes: all of them are found, and nothing else, as a plain search would find them."""

import random
from zlib import crc32

import numpy as np

from vedette import wire
from vedette.resync import _prefix_crcs, _shift, sound_starts
from vedette.tail import RECORD


def plain_search(data, count):
    """Try every place, one after the other."""
    found = []
    for at in range(min(count, len(data) - 10)):
        size, crc = wire.unpack_head(data, at)
        payload = data[at + 8 : at + 8 + size]
        if 2 < size <= len(data) - at - 8 and payload[:1] in RECORD[0] and crc32(payload, size) == crc:
            found.append(at)
    return found


def test_all_records_are_found_among_noise():
    """Between noise, holes and records that were altered, the sound ones are found where they begin."""
    chance = random.Random(1)
    for _ in range(20):
        pieces = []
        for _ in range(60):
            record = wire.frame(b"\x93" + chance.randbytes(chance.randrange(2, 90)))
            at = chance.randrange(len(record))
            altered = record[:at] + bytes([record[at] ^ 1 << chance.randrange(8)]) + record[at + 1 :]
            lengths = chance.randrange(1 << 12).to_bytes(4, "little") + bytes(4) + b"\x93"
            pieces.append(chance.choice([record, altered, bytes(40), chance.randbytes(30), lengths]))
        data = b"".join(pieces)
        count = chance.choice([len(data), len(data) // 2])
        assert sound_starts(data, count, RECORD) == plain_search(data, count)
    assert sound_starts(b"", 10, RECORD) == sound_starts(bytes(5000), 5000, RECORD) == []


def test_checksums_come_from_those_of_prefixes():
    """The checksum of any stretch, with its length before it, is what zlib gives."""
    chance = random.Random(2)
    data = chance.randbytes(5000)
    places = sorted(chance.choices(range(5000), k=400))
    crcs = np.array(_prefix_crcs(data, places), np.uint32)
    for begin, end in ((0, 1), (3, 300), (100, 399), (7, 7)):
        size = places[end] - places[begin]
        shifted = _shift(np.array([size], np.uint32) ^ crcs[[begin]], np.array([size]))[0]
        assert shifted ^ crcs[end] == crc32(data[places[begin] : places[end]], size)
