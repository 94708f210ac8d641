"""Sound records in damaged bytes: all of them are found, and nothing else, as a plain search would find them."""

import itertools
import os
import random
import struct
from zlib import crc32

import numpy as np

from vedette import tail, wire
from vedette.model import Origin, Sample
from vedette.resync import _prefix_crcs, _shift, sound_starts
from vedette.segment import Header, pack_header, segment_name
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


def test_damage_of_a_living_writer_is_searched_a_part_at_a_time(tmp_path, monkeypatch):
    """Lengths that are made up have one call look at a bounded number of bytes; later calls find all that is sound."""
    monkeypatch.setattr(tail, "_MOST_IN_VAIN", 128 << 10)
    origin, size = Origin("o", "host", "boot", 1, 2, "run", "run/1/o"), 16 << 10
    data, sound = bytearray(pack_header(Header("s", 0, size, origin))), 0
    for number in itertools.count():
        if len(data) >= size - 300:
            break
        room = size - len(data) - 16
        data += struct.pack("<II", room, 0)  # a record that takes all the rest, and has another checksum
        if number % 4 == 0:
            data += wire.frame(wire.encode(Sample(10**18, sound, {"x": 1.0})))
            sound += 1
    (tmp_path / segment_name("s", 0)).write_bytes(bytes(data).ljust(size, b"\0"))
    looked_at, pread = [0], os.pread

    def counted(fd, count, offset):
        found = pread(fd, count, offset)
        looked_at[-1] += len(found)
        return found

    monkeypatch.setattr(os, "pread", counted)
    reading, found = tail.Tail(str(tmp_path), "s", patience_s=0.0), 0
    for _ in range(2000):
        looked_at.append(0)
        found += len(reading.read())
        if found == sound:
            break
    assert max(looked_at) < 512 << 10
    assert len(looked_at) > 10  # the control: it was much more than one call may look at
    assert found == sound
