"""What a disk can do to a spool: the reader hands out what was written or nothing, counts, and always goes on."""

import itertools
import os
import random
import time
from collections import Counter
from typing import NamedTuple

import pytest

from tests.soak import SOAK, times
from vedette import segment, wire
from vedette.errors import FormatError, VersionError
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Sample, Span
from vedette.tail import Tail

RECORDS = 400  # in a segment
MUTATED = times(50_000)  # in all of them, of both lanes
PARTS = 4
LARGE = 4 << 20 if SOAK else 2 << 20  # a segment
END = wire.END.to_bytes(4, "little")
ORIGIN = Origin("o", "host", "boot", 1, 2, "run", "run/1/o")


def payloads_of(lane: str, chance: random.Random) -> list[bytes]:
    """Make records as a process writes them, no two the same."""
    facts = [
        lambda n: Event("run", n, "log", 20, f"line {n} " + "of what was said" * chance.randint(0, 3)),
        lambda n: Span("run/1", n, state="running", attrs={"n": n, "config": {"lr": chance.random()}}),
        lambda n: Sample(n, n, {"loss": chance.random(), "acc": chance.random()}),
        lambda n: Sample(n, n, {"loss": 0.5, "zero": 0.0, "on": True}, "run", {"k": "v"}),
    ]
    makers = facts[:2] if lane == LANE_FACTS else facts[2:]
    return [wire.encode(chance.choice(makers)(1_700_000_000_000_000_000 + n)) for n in range(RECORDS)]


def header(lane: str, offset: int, size: int) -> bytes:
    return segment.pack_header(segment.Header(lane, offset, size, ORIGIN))


def write_segment(directory: str, lane: str, offset: int, size: int, records: bytes, *, end: bytes = END) -> str:
    """Write a whole segment: header, records, end mark, zeros."""
    path = os.path.join(directory, segment.segment_name(lane, offset))
    with open(path, "wb") as file:
        file.write((header(lane, offset, size) + records + end).ljust(size, b"\0")[:size])
    return path


def read_all(tail: Tail, *, gone: bool = True) -> list[bytes]:
    """Read until the reader moves no more."""
    got, before = [], -1
    while tail.offset != before:
        before = tail.offset
        got += [payload for _, payload in tail.read(gone=gone)]
    return got


def flip_length(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    return _flipped(frame, chance.randrange(32))


def flip_checksum(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    return _flipped(frame, chance.randrange(32, 64))


def flip_payload(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    return _flipped(frame, chance.randrange(64, len(frame) * 8))


def _flipped(frame: bytes, bit: int) -> bytes:
    byte, mask = bit >> 3, 1 << (bit & 7)
    return frame[:byte] + bytes([frame[byte] ^ mask]) + frame[byte + 1 :]


def swap(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    at = chance.randrange(len(frame) - 1)
    return frame[:at] + frame[at + 1 : at + 2] + frame[at : at + 1] + frame[at + 2 :]


def hole(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    at, stop = sorted((chance.randrange(len(frame)), chance.randrange(1, len(frame) + 1)))
    return frame[:at] + bytes(stop - at) + frame[stop:]


def all_hole(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    return bytes(len(frame))


def noise(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    at = chance.randrange(len(frame))
    return frame[:at] + chance.randbytes(min(6, len(frame) - at)) + frame[at + 6 :]


def splice(chance: random.Random, frame: bytes, other: bytes) -> bytes:
    """Overwrite a part with a part of another record; never with its head too, which might make it a sound record."""
    start = chance.randrange(9, len(other))
    part = other[start : start + len(frame)]
    at = chance.randrange(len(frame) - len(part) + 1)
    return frame[:at] + part + frame[at + len(part) :]


def cut_out(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    at = chance.randrange(1, len(frame))
    return frame[:at] + frame[at + chance.randint(1, 9) :]


def push_in(chance: random.Random, frame: bytes, _: bytes) -> bytes:
    at = chance.randrange(1, len(frame))
    return frame[:at] + chance.randbytes(chance.randint(1, 9)) + frame[at:]


MUTATIONS = [flip_length, flip_checksum, flip_payload, swap, hole, all_hole, noise, splice, cut_out, push_in]


class Damaged(NamedTuple):
    """A segment's records as the disk has them, and which of them it has no longer as they were."""

    pieces: list[bytes]
    touched: list[int]


def damage(chance: random.Random, frames: list[bytes]) -> Damaged:
    """Mutate two thirds of the records, in ones and in runs."""
    pieces = list(frames)
    for number in chance.sample(range(len(frames)), len(frames) * 2 // 3):
        mutate = chance.choice(MUTATIONS)
        piece = mutate(chance, frames[number], frames[chance.randrange(len(frames))])
        if frames[number] not in piece:  # bytes pushed in at an edge may leave the record whole
            pieces[number] = piece
    return Damaged(pieces, [number for number, piece in enumerate(pieces) if piece != frames[number]])


def runs_in(numbers: list[int]) -> int:
    """Count the unbroken runs in a sorted list."""
    return sum(1 for a, b in itertools.pairwise([-2, *numbers]) if b != a + 1)


def faults(written: list[bytes], touched: list[int], got: list[bytes], counted: int, runs: int) -> Counter[str]:
    """Hold what was read against what was written: this is the check that both builds below are put through."""
    found: Counter[str] = Counter()
    number_of = {payload: number for number, payload in enumerate(written)}
    numbers = [number_of.get(payload, -1) for payload in got]
    found["altered"] = numbers.count(-1)
    known = [number for number in numbers if number >= 0]
    found["out of order or twice"] = sum(1 for a, b in itertools.pairwise(known) if b <= a)
    found["neighbours lost"] = len(written) - len(touched) - len(set(known).difference(touched))
    found["miscounted"] = abs(counted - runs)
    return +found


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_records(part: int, tmp_path):
    """Of many mutated records none is handed out altered, twice or out of order, and no neighbour is lost."""
    chance = random.Random(part)
    lane = (LANE_FACTS, LANE_SAMPLES)[part % 2]
    written = payloads_of(lane, chance)
    frames = [wire.frame(payload) for payload in written]
    size = len(header(lane, 0, 0)) + len(b"".join(frames)) * 5 // 4
    mutated, found = 0, Counter()
    started, slowest = time.process_time(), 0.0
    while mutated < MUTATED // PARTS:
        pieces, touched = damage(chance, frames)
        path = write_segment(str(tmp_path), lane, 0, size, b"".join(pieces))
        tail = Tail(str(tmp_path), lane)
        before = time.process_time()
        got = read_all(tail)
        slowest = max(slowest, time.process_time() - before)
        found += faults(written, touched, got, tail.damaged, runs_in(touched))
        mutated += len(touched)
        tail.shut()
        os.unlink(path)

    assert found == Counter()
    assert slowest < 5
    assert time.process_time() - started < 100


def test_a_build_without_checksums_is_caught(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """The check above means something: with the comparison of checksums off, it reports altered records."""

    class Any(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

    chance = random.Random(1)
    written = payloads_of(LANE_FACTS, chance)
    pieces, touched = damage(chance, [wire.frame(payload) for payload in written])
    write_segment(str(tmp_path), LANE_FACTS, 0, 1 << 20, b"".join(pieces))
    monkeypatch.setattr("vedette.tail.crc32", lambda *_: Any())
    tail = Tail(str(tmp_path), LANE_FACTS)
    got = read_all(tail)

    assert faults(written, touched, got, tail.damaged, runs_in(touched))["altered"] > 0


@pytest.mark.parametrize("lane", [LANE_FACTS, LANE_SAMPLES])
def test_a_segment_that_was_cut_off_gives_what_was_before_the_cut(lane: str, tmp_path):
    """A file that ends early gives every record that is whole in it, and counts the one that is not."""
    chance = random.Random(7)
    written = payloads_of(lane, chance)[:60]
    frames = [wire.frame(payload) for payload in written]
    begin = len(header(lane, 0, 1 << 16))
    path = write_segment(str(tmp_path), lane, 0, 1 << 16, b"".join(frames))
    with open(path, "rb") as file:
        whole = file.read()
    ends = list(itertools.accumulate(map(len, frames), initial=begin))
    for cut in [*range(begin, begin + 300), *chance.sample(range(begin, ends[-1]), 300)]:
        with open(path, "wb") as file:
            file.write(whole[:cut])
        tail = Tail(str(tmp_path), lane)
        sound = sum(1 for end in ends[1:] if end <= cut)

        assert read_all(tail) == written[:sound]
        assert tail.damaged == (0 if cut in ends else 1)
        assert read_all(tail) == []
        assert tail.damaged == (0 if cut in ends else 1)
        tail.shut()


def test_the_other_segments_survive_one_that_is_damaged(tmp_path):
    """Damage in one segment takes nothing from the segments before and after it."""
    chance = random.Random(8)
    written = payloads_of(LANE_FACTS, chance)
    frames = [wire.frame(payload) for payload in written]
    size = 1 << 16
    for number in range(3):
        some = frames[number * 100 : number * 100 + 100]
        pieces = damage(chance, some).pieces if number == 1 else some
        write_segment(str(tmp_path), LANE_FACTS, number * size, size, b"".join(pieces))
    tail = Tail(str(tmp_path), LANE_FACTS)
    got = read_all(tail)

    assert got[:100] == written[:100]
    assert got[-100:] == written[200:300]
    assert tail.damaged > 0


def flipped(frame: bytes, _: int) -> bytes:
    return frame[:10] + bytes([frame[10] ^ 1]) + frame[11:]


def long_length(_: bytes, number: int) -> bytes:
    return (0xF0000 + number).to_bytes(4, "little") + b"\1\2\3\4\x94"


def end_marks(_: bytes, number: int) -> bytes:
    return END * (1 + number % 3)


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("spoil", [flipped, long_length, end_marks])
def test_every_other_record_is_damaged(spoil, gone: bool, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """All sound records are found, in work that grows with the segment, also if the damage was made to cost much."""
    size = LARGE if SOAK else 1 << 19
    written, pieces = [], []
    for number in itertools.count():
        payload = wire.encode(Sample(10**18 + number, number, {"x": 0.5 * number}))
        frame = wire.frame(payload)
        pieces.append(spoil(frame, number) if number % 2 else frame)
        written += [] if number % 2 else [payload]
        if number % 500 == 0 and len(b"".join(pieces)) > size - 50_000:
            break
    write_segment(str(tmp_path), LANE_SAMPLES, 0, size, b"".join(pieces))
    read, pread = [0], os.pread

    def counted(fd: int, count: int, at: int) -> bytes:
        data = pread(fd, count, at)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    tail = Tail(str(tmp_path), LANE_SAMPLES, patience_s=0.1)
    got = read_all(tail, gone=gone)
    time.sleep(0.15)
    got += read_all(tail, gone=gone)  # while its writer lives, damage is believed when it is seen a second time

    assert got == written
    assert tail.damaged == len(pieces) // 2
    assert read[0] < 400 * size  # a quadratic search reads thousands of times as much


def small_integers(size: int) -> bytes:
    """Return bytes of which very many look like the length of a record."""
    return b"".join(n.to_bytes(4, "little") for n in random.Random(13).choices(range(999), k=size // 4))


JUNK = {"zeros": bytes, "noise": random.Random(13).randbytes, "small integers": small_integers}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("junk", "size"), [("zeros", LARGE), ("noise", LARGE), ("small integers", 1 << 20)])
def test_a_segment_full_of_junk_is_passed_over_in_bounded_time(junk: str, size: int, tmp_path):
    """A segment of which nearly all is gone costs seconds at most, and what is left of it is read."""
    size = min(size, times(size))
    written = payloads_of(LANE_FACTS, random.Random(14))[:100]
    frames = [wire.frame(payload) for payload in written]
    write_segment(str(tmp_path), LANE_FACTS, 0, size, frames[0] + JUNK[junk](size - 65_536) + b"".join(frames[1:]))
    tail = Tail(str(tmp_path), LANE_FACTS)
    started = time.process_time()

    assert read_all(tail) == written
    assert tail.damaged == 1
    assert time.process_time() - started < 5


@pytest.mark.timeout(10)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("beyond", [1, 20])
def test_a_file_longer_than_its_segment_is_no_trap(beyond: int, large: bool, tmp_path):
    """A record that straddles the end which the header speaks of is not read, nor what is behind it, nor for ever."""
    written = payloads_of(LANE_FACTS, random.Random(15))[:20]
    straddling = wire.frame(bytes(9000 if large else 20))
    records = b"".join(map(wire.frame, written)) + straddling
    size = len(header(LANE_FACTS, 0, 5000)) + len(records) - beyond
    assert len(header(LANE_FACTS, 0, size)) == len(header(LANE_FACTS, 0, 5000))
    with open(os.path.join(tmp_path, segment.segment_name(LANE_FACTS, 0)), "wb") as file:
        file.write(header(LANE_FACTS, 0, size) + records + wire.frame(b"never") + bytes(100))
    for gone in (True, False):
        tail = Tail(str(tmp_path), LANE_FACTS, patience_s=0)

        assert read_all(tail, gone=gone) == written
        tail.shut()


@pytest.mark.parametrize("filling", [b"\xff", b"\xfe\xff\xff\xff"], ids=["end", "closed"])
def test_a_false_end_mark_takes_no_neighbour_with_it(filling: bytes, tmp_path):
    """A record that was overwritten with what looks like an end mark is damage, and what stands behind it is read."""
    written = payloads_of(LANE_FACTS, random.Random(9))[:100]
    frames = [wire.frame(payload) for payload in written]
    frames[50] = (filling * len(frames[50]))[: len(frames[50])]
    write_segment(str(tmp_path), LANE_FACTS, 0, 1 << 16, b"".join(frames))
    tail = Tail(str(tmp_path), LANE_FACTS)

    assert read_all(tail) == written[:50] + written[51:]
    assert tail.damaged == 1


@pytest.mark.parametrize(
    ("left", "newer"), [(0, 2), (1, 2), (3, 2), (4, 2), (7, 2), (8, 2), (8, 1), (9, 1), (12, 1), (100, 1)]
)
def test_damage_at_a_segments_end_does_not_hold_up_a_living_lane(left: int, newer: int, tmp_path):
    """The last record of a full segment is damaged, and its writer lives on in newer ones: the reader gets there too.

    Where fewer than 8 bytes are left there is no whole end mark; that the writer has rolled twice since says as much.
    """
    written = payloads_of(LANE_FACTS, random.Random(10))[:60]
    frames = [wire.frame(payload) for payload in written]
    records = b"".join(frames[:19]) + _flipped(frames[19], 99)
    size = len(header(LANE_FACTS, 0, 5000)) + len(records) + left
    assert len(header(LANE_FACTS, 0, size)) == len(header(LANE_FACTS, 0, 5000))
    write_segment(str(tmp_path), LANE_FACTS, 0, size, records)
    write_segment(str(tmp_path), LANE_FACTS, size, 1 << 16, b"".join(frames[20:40]), end=END if newer == 2 else b"")
    if newer == 2:
        write_segment(str(tmp_path), LANE_FACTS, size + (1 << 16), 1 << 16, b"".join(frames[40:]), end=b"")
    tail = Tail(str(tmp_path), LANE_FACTS, patience_s=0)

    assert read_all(tail, gone=False) == written[:19] + written[20 : 20 + 20 * newer]
    assert tail.damaged == 1


def test_damage_in_a_living_lane_is_passed_over(tmp_path):
    """A damaged record with sound ones behind it is skipped and counted while the writer lives."""
    written = payloads_of(LANE_SAMPLES, random.Random(11))[:100]
    frames = [wire.frame(payload) for payload in written]
    for number in (0, 50, 51, 98):
        frames[number] = _flipped(frames[number], 77)
    write_segment(str(tmp_path), LANE_SAMPLES, 0, 1 << 16, b"".join(frames), end=b"")
    tail = Tail(str(tmp_path), LANE_SAMPLES, patience_s=0)

    assert read_all(tail, gone=False) == [w for n, w in enumerate(written) if n not in {0, 50, 51, 98}]
    assert tail.damaged == 3


def three_segments(directory: str) -> tuple[list[bytes], list[str]]:
    """Write thirty records in three segments of a lane."""
    written = payloads_of(LANE_FACTS, random.Random(12))[:30]
    size = 8192
    paths = [
        write_segment(
            directory, LANE_FACTS, n * size, size, b"".join(wire.frame(p) for p in written[n * 10 : n * 10 + 10])
        )
        for n in range(3)
    ]
    return written, paths


def overwrite(path: str, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("harm", ["zeros", "torn", "empty", "cut", "flipped", "huge"])
def test_a_segment_whose_header_is_damaged_is_counted_once_and_passed_over(which: int, harm: str, tmp_path):
    """A segment without a sound header costs its own records alone, and is counted once however often one reads."""
    written, paths = three_segments(str(tmp_path))
    path, size = paths[which], os.path.getsize(paths[which])
    if harm == "zeros":
        overwrite(path, 0, bytes(size))
    elif harm == "torn":
        overwrite(path, 30, bytes(size - 30))
    elif harm == "empty":
        os.truncate(path, 0)
    elif harm == "cut":
        os.truncate(path, 20)
    elif harm == "flipped":
        with open(path, "rb") as file:
            overwrite(path, 0, _flipped(file.read(), 40 * 8))
    elif harm == "huge":
        overwrite(path, 8, b"\xff\xff\xff\xff")
    tail = Tail(str(tmp_path), LANE_FACTS)
    got = read_all(tail)
    for _ in range(3):
        got += read_all(tail)

    assert got == [payload for number, payload in enumerate(written) if number // 10 != which]
    assert tail.damaged == 1


def test_a_flipped_bit_in_a_header_is_never_believed(tmp_path):
    """Whichever bit of a header is hit, but for the version's, the segment is passed over and counted."""
    written, paths = three_segments(str(tmp_path))
    with open(paths[1], "rb") as file:
        head = file.read(len(header(LANE_FACTS, 8192, 8192)))
    for bit in range(len(head) * 8):
        if bit >> 3 == 7:
            continue
        overwrite(paths[1], 0, _flipped(head, bit))
        tail = Tail(str(tmp_path), LANE_FACTS)

        assert read_all(tail) == written[:10] + written[20:]
        assert tail.damaged == 1
        tail.shut()


def test_the_newest_segment_of_a_living_writer_may_have_no_header_yet(tmp_path):
    """A living writer's newest segment without a header is waited for, and read once its header is there."""
    written, paths = three_segments(str(tmp_path))
    with open(paths[2], "rb") as file:
        head = file.read(100)
    overwrite(paths[2], 0, bytes(100))
    tail = Tail(str(tmp_path), LANE_FACTS)
    got = read_all(tail, gone=False) + read_all(tail, gone=False)
    assert got == written[:20]
    overwrite(paths[2], 0, head)

    assert read_all(tail, gone=False) == written[20:]
    assert tail.damaged == 0


@pytest.mark.parametrize("missing", [{0}, {1}, {0, 1}, {2}], ids=str)
@pytest.mark.parametrize("gone", [True, False])
def test_a_missing_segment_is_stepped_over(missing: set[int], gone: bool, tmp_path):
    """Where segments are missing the reader goes on with the next one there is, whether the writer lives or not."""
    written, paths = three_segments(str(tmp_path))
    for number in missing:
        os.unlink(paths[number])
    tail = Tail(str(tmp_path), LANE_FACTS)

    assert read_all(tail, gone=gone) == [p for number, p in enumerate(written) if number // 10 not in missing]
    assert tail.damaged == 0


def test_a_segment_of_a_newer_version_is_refused(tmp_path):
    """A segment that a newer vedette wrote is not guessed at, and a sentence says what to do."""
    _, paths = three_segments(str(tmp_path))
    overwrite(paths[1], 7, bytes([wire.VERSION + 1]))
    tail = Tail(str(tmp_path), LANE_FACTS)
    with pytest.raises(VersionError, match="upgrade"):
        tail.read(gone=True)
    with open(paths[1], "rb") as file, pytest.raises(VersionError, match="upgrade"):
        segment.read_header(file.fileno())


def test_what_is_no_segment_has_no_header(tmp_path):
    """A header is read from a sound segment alone; anything else is a FormatError."""
    _, paths = three_segments(str(tmp_path))
    with open(paths[0], "rb") as file:
        assert segment.read_header(file.fileno())[0] == segment.Header(LANE_FACTS, 0, 8192, ORIGIN)
    for number, content in enumerate([b"", b"vedette", bytes(4096), b"vedette\x01" + bytes(4096), os.urandom(4096)]):
        path = tmp_path / f"x{number}"
        path.write_bytes(content)
        with open(path, "rb") as file, pytest.raises(FormatError):
            segment.read_header(file.fileno())


def test_names_that_are_no_segments_are_left_alone(tmp_path):
    """Half-made segments, other lanes and strangers' files in the directory are neither read nor in the way."""
    written, _ = three_segments(str(tmp_path))
    for name in ("f.0000000000099999.new", "s.0000000000000000", "f.", "f.x", "stacks", "f.-1"):
        (tmp_path / name).write_bytes(b"\xff" * 100)
    tail = Tail(str(tmp_path), LANE_FACTS)

    assert read_all(tail) == written
    assert tail.damaged == 0
