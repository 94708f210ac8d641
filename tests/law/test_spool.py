"""The spool: what was appended is read, in order and once, through rolls, threads, forks, caps and full disks."""

import gc
import itertools
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette import segment, spool, wire
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin
from vedette.tail import Tail

THREADS = 8
BOTH = pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "plain"])
_names = itertools.count()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of one page, so that there are many."""
    monkeypatch.setattr(spool, "_SIZES", (4096,))
    monkeypatch.setattr(spool, "_LEAST_SIZE", 4096)


def new_spool(root: Any, *, mapped: bool = True, cap: int = 1 << 40) -> spool.Spool:
    """Make a spool whose every origin has a name of its own."""
    made = spool.Spool(str(root), lambda: Origin(f"o{os.getpid()}-{next(_names)}"), cap, 1.0)
    made._mapped = mapped
    return made


def record(who: int, number: int, size: int = 0) -> bytes:
    return wire.frame(b"%d %d " % (who, number) + b"x" * size)


def name_of(payload: bytes) -> tuple[int, int]:
    who, number, _ = payload.split(b" ", 2)
    return int(who), int(number)


def read_all(directory: str, lane: str = LANE_SAMPLES, *, gone: bool = True) -> tuple[list[bytes], Tail]:
    """Read a lane to its end with a reader of its own."""
    tail = Tail(directory, lane)
    got = [payload for _, payload in drain(tail, gone=gone)]
    tail.shut()
    return got, tail


def drain(tail: Tail, *, gone: bool = False, limit: int = 4 << 20) -> list[tuple[int, bytes]]:
    """Read until the reader moves no more: it may step into the next segment without a record to show for it."""
    got, before = [], -1
    while tail.offset != before:
        before = tail.offset
        got += tail.read(gone=gone, limit=limit)
    return got


def complaints(got: list[bytes], said: dict[int, int]) -> list[str]:
    """Hold what was read against what each thread said: all of it, in its order, once."""
    heard: dict[int, list[int]] = {who: [] for who in said}
    for payload in got:
        who, number = name_of(payload)
        heard[who].append(number)
    return [
        f"of {said[who]} records of {who}, {len(set(numbers))} came, {len(numbers)} with repeats"
        for who, numbers in heard.items()
        if numbers != list(range(said[who]))
    ]


def in_child(work: Callable[[], Any]) -> Any:
    """Do something in a fork child, and return what it returns; its exception is the test's."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = ["raised", "nothing came"]
        try:
            answer = ["returned", work()]
        except BaseException as error:
            answer = ["raised", repr(error)]
        finally:
            os.write(into, msgspec.msgpack.encode(answer))
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        kind, what = msgspec.msgpack.decode(file.read())
    os.waitpid(pid, 0)
    assert kind == "returned", what
    return what


def write_from_threads(lane: spool.Lane, count: int) -> dict[int, int]:
    """Append from eight threads at once, records of many sizes; return how many each has said."""
    begin = threading.Barrier(THREADS)

    def work(who: int) -> None:
        begin.wait()
        for number in range(count):
            lane.append(record(who, number, (0, 20, 400, 5, 90)[(who + number * 7) % 5]))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(who,)) for who in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return dict.fromkeys(range(THREADS), count)


@BOTH
def test_every_record_of_eight_threads_is_there_in_order(mapped: bool, small: None, tmp_path):
    """What eight threads append through hundreds of rolls is all there, each thread's in its own order, once."""
    made = new_spool(tmp_path, mapped=mapped)
    said = write_from_threads(made.samples, 1200)
    living, tail = read_all(made.directory, gone=False)
    dead, _ = read_all(made.directory)

    assert complaints(living, said) == []
    assert dead == living
    assert tail.damaged == made.lost == 0
    assert len(segment.list_segments(made.directory, LANE_SAMPLES)) > 100


@BOTH
def test_a_reader_beside_eight_threads_gets_every_record(mapped: bool, small: None, tmp_path):
    """A reader that follows the writers, and frees what it has read as the hub does, misses nothing."""
    made = new_spool(tmp_path, mapped=mapped)
    made.samples.append(record(99, 0))
    got: list[bytes] = []
    tail = Tail(made.directory, LANE_SAMPLES)
    over = threading.Event()

    def follow() -> None:
        last = False
        while not last:
            last = over.is_set()
            got.extend(payload for _, payload in (drain(tail) if last else tail.read()))  # one read may end anywhere
            offsets = segment.list_segments(made.directory, LANE_SAMPLES)
            for offset, following in itertools.pairwise(offsets):
                if following <= tail.offset:
                    os.unlink(os.path.join(made.directory, segment.segment_name(LANE_SAMPLES, offset)))

    reader = threading.Thread(target=follow)
    reader.start()
    said = write_from_threads(made.samples, 1200)
    made.close()
    over.set()
    reader.join()

    assert complaints(got[1:], said) == []
    assert tail.closed
    assert tail.damaged == 0


def late_thread(root: Any, *, mapped: bool = True) -> list[str]:
    """Append as a thread does that was suspended between looking `write` up and calling it, while another rolled."""
    made = new_spool(root, mapped=mapped)
    lane = made.samples
    lane.append(record(0, 0))
    stale = lane.write
    lane.append(record(0, 1, 4000))  # does not fit, though there is room left
    try:
        stale(record(0, 2))
    except ValueError:
        lane.roll(record(0, 2))
    lane.append(record(0, 3))
    return complaints(read_all(made.directory, gone=False)[0], {0: 4})


@BOTH
def test_a_late_thread_loses_nothing(mapped: bool, small: None, tmp_path):
    """A thread that writes to a segment after its end was marked is told so, and its record goes to the next."""
    assert late_thread(tmp_path, mapped=mapped) == []


def only_mark(self: segment.Mapped, mark: bytes) -> None:
    """Mark the end of a segment without filling the rest: what a late thread writes there is never read."""
    if len(self) - self.tell() >= len(mark):
        self.write(mark)


def no_mark(self: segment.Mapped, mark: bytes) -> None:
    """Leave a segment without an end: a reader waits there for ever."""


@pytest.mark.parametrize("finish", [only_mark, no_mark])
def test_a_build_that_does_not_fill_the_rest_is_caught(finish: Any, small: None, tmp_path, monkeypatch):
    """The checks above mean something: a roll that does not fill the rest of a segment loses records, or hides them."""
    monkeypatch.setattr(segment.Mapped, "finish", finish)

    assert late_thread(tmp_path) != []


def test_a_build_without_end_marks_is_caught_by_the_threads(small: None, tmp_path, monkeypatch):
    """The check of the eight threads means something: without end marks a living lane is not read through."""
    monkeypatch.setattr(segment.Mapped, "finish", no_mark)
    made = new_spool(tmp_path)
    said = write_from_threads(made.samples, 200)

    assert complaints(read_all(made.directory, gone=False)[0], said) != []


def segment_with(directory: Any, records: bytes, size: int = 8192, offset: int = 0) -> str:
    """Write a segment of a lane by hand."""
    path = os.path.join(str(directory), segment.segment_name(LANE_SAMPLES, offset))
    head = segment.pack_header(segment.Header(LANE_SAMPLES, offset, size, Origin("o")))
    with open(path, "wb") as file:
        file.write((head + records).ljust(size, b"\0"))
    return path


def test_a_torn_record_is_waited_for_or_counted_once(tmp_path):
    """A record that is half there is waited for while its writer lives, and counted once when it is dead."""
    first, second, third = (record(0, number, 40) for number in range(3))
    for cut in range(1, len(second)):
        path = segment_with(tmp_path, first + second[:cut])
        tail = Tail(str(tmp_path), LANE_SAMPLES, patience_s=0)
        assert [p for _, p in tail.read()] == [first[8:]]
        assert tail.read() == tail.read() == []
        dead, dead_tail = read_all(str(tmp_path))
        assert dead == [first[8:]]
        assert dead_tail.damaged == (0 if not second[:cut].strip(b"\0") else 1)
        assert dead_tail.read(gone=True) == dead_tail.read(gone=True) == []
        assert dead_tail.damaged <= 1
        os.rename(path, path + ".before")
        with open(path + ".before", "r+b") as file:  # the very file that the living reader has open
            file.seek(len(segment.pack_header(segment.Header(LANE_SAMPLES, 0, 8192, Origin("o")))))
            file.write(first + second + third)

        assert [p for _, p in tail.read()] == [second[8:], third[8:]]
        assert tail.damaged == 0
        tail.shut()


@pytest.mark.parametrize("size", [40, 6000])
@pytest.mark.parametrize("rolls", [0, 1, 2, 3])
@pytest.mark.parametrize("stitched", [False, True], ids=["whole", "stitched"])
def test_a_record_that_is_being_written_is_not_taken_for_damage(
    stitched: bool, rolls: int, size: int, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    """Whenever between two reads a record is completed and others follow, it is handed out, and nothing is counted.

    A read beside a writer may be stitched: its first bytes from before, its last ones from after. And a reader may
    be suspended between any two of its steps for as long as its writer needs for several rolls.
    """
    first, second, third = (record(0, number, size) for number in range(3))
    capacity = 1 << 16
    begin = len(segment.pack_header(segment.Header(LANE_SAMPLES, 0, capacity, Origin("o"))))
    torn = len(first) + len(second) // 2
    pread = os.pread
    for moment in range(8):
        for path in tmp_path.iterdir():
            path.unlink()
        path = segment_with(tmp_path, (first + second)[:torn], capacity)
        reads = itertools.count()

        def complete(path: str = path) -> None:
            with open(path, "r+b") as file:
                file.seek(begin)
                file.write(first + second + third + (b"\xff" * 4 if rolls else b""))
            for roll in range(1, rolls + 1):
                segment_with(
                    tmp_path, record(0, 2 + roll) + (b"\xff" * 4 if roll < rolls else b""), capacity, roll * capacity
                )

        def read_beside_a_writer(fd: int, size: int, at: int, moment: int = moment, reads: Any = reads) -> bytes:
            before = pread(fd, size, at)
            if next(reads) != moment:
                return before
            complete()
            seam = max(0, begin + torn + 4 - at)
            return before[:seam] + pread(fd, size, at)[seam:] if stitched else before

        monkeypatch.setattr(os, "pread", read_beside_a_writer)
        tail = Tail(str(tmp_path), LANE_SAMPLES)
        got = [payload for _ in range(4) for _, payload in tail.read()]
        monkeypatch.undo()
        complete()
        got += [payload for _, payload in drain(tail)]
        tail.shut()

        assert complaints(got, {0: 3 + rolls}) == [], moment
        assert tail.damaged == 0, moment


def test_a_reader_beside_another_process_gets_every_record(tmp_path):
    """Large and small records by turns, read while another process writes them as fast as it can, are all there."""
    count = 20_000
    made = new_spool(tmp_path)
    directory = made.directory
    pid = os.fork()
    if pid == 0:
        try:
            for number in range(count):
                made.samples.append(record(0, number, 0 if number % 20 else 200_000))
            made.close()
        finally:
            os._exit(0)
    got, deadline = [], time.monotonic() + 60
    tail = Tail(directory, LANE_SAMPLES)
    while not tail.closed and time.monotonic() < deadline:
        got += [payload[:20] for _, payload in tail.read()]
        tail.sync()
        for offset, following in itertools.pairwise(segment.list_segments(directory, LANE_SAMPLES)):
            if following <= tail.offset:
                os.unlink(os.path.join(directory, segment.segment_name(LANE_SAMPLES, offset)))
    os.waitpid(pid, 0)
    tail.shut()

    assert complaints(got, {0: count}) == []
    assert tail.damaged == 0


@settings(deadline=None, max_examples=times(25))
@given(
    sizes=st.lists(st.sampled_from([0, 1, 5, 50, 500, 3000, 9000]), min_size=1, max_size=40),
    mapped=st.booleans(),
    limit=st.sampled_from([1, 100, 5000, 1 << 22]),
    closed=st.booleans(),
    freed=st.booleans(),
    data=st.data(),
)
def test_a_reader_that_starts_again_anywhere_sees_the_rest_once(sizes, mapped, limit, closed, freed, data):
    """From every place that was handed out with a record, a new reader gets the records after it, and those alone."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="vdt-") as root:
        patch.setattr(spool, "_SIZES", (4096, 8192))
        patch.setattr(spool, "_LEAST_SIZE", 4096)
        made = new_spool(root, mapped=mapped)
        written = [record(0, number, size) for number, size in enumerate(sizes)]
        for one in written:
            made.samples.append(one)
        if closed:
            made.close()
        tail = Tail(made.directory, LANE_SAMPLES)
        offsets = drain(tail, limit=limit)
        assert [payload for _, payload in offsets] == [one[8:] for one in written]
        at = data.draw(st.integers(0, len(offsets) - 1))
        if freed:  # as the hub does: what lies wholly behind the mark
            for offset, following in itertools.pairwise(segment.list_segments(made.directory, LANE_SAMPLES)):
                if following <= offsets[at][0]:
                    os.unlink(os.path.join(made.directory, segment.segment_name(LANE_SAMPLES, offset)))
        again = Tail(made.directory, LANE_SAMPLES, offsets[at][0])

        assert drain(again, limit=limit) == offsets[at + 1 :]
        assert again.damaged == tail.damaged == 0
        tail.shut()
        again.shut()


def bytes_in(directory: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory))


@BOTH
@pytest.mark.parametrize("cap", [100_000, 400_000, 3_000_000])
def test_at_the_cap_the_oldest_samples_go_and_each_is_counted(cap: int, mapped: bool, tmp_path):
    """With no reader a spool stays within its cap, keeps the newest samples, and knows just how many it gave up."""
    made = new_spool(tmp_path, mapped=mapped, cap=cap)
    most = [0]
    made.on_roll = lambda: most.append(bytes_in(made.directory))
    count = cap // 20
    for number in range(count):
        made.samples.append(record(0, number, 50))
    got, tail = read_all(made.directory)
    numbers = [name_of(payload)[1] for payload in got]

    assert made.samples.lost == 0
    assert made.dropped == count - len(got) > 0
    assert numbers == list(range(count - len(got), count))
    assert len(got) * 70 > cap // 2, "more was given up than the cap asked for"
    assert max(most) <= cap
    assert tail.damaged == 0


def test_a_small_cap_never_costs_all_that_was_kept(tmp_path):
    """A spool whose cap is below its largest segment still holds about as much as the cap, at every moment."""
    made = new_spool(tmp_path, cap=600_000)
    held = []
    made.on_roll = lambda: held.append(bytes_in(made.directory))
    for number in range(60_000):
        made.samples.append(record(0, number, 50))

    assert made.samples.lost == 0
    assert min(held[len(held) // 2 :]) > 300_000


def test_facts_are_not_given_up_for_samples(tmp_path):
    """At the cap samples make room for facts, never facts for samples, and what finds no room is counted."""
    made = new_spool(tmp_path, cap=500_000)
    for number in range(3000):
        made.samples.append(record(0, number, 50))
    for number in range(9000):
        made.facts.append(record(1, number, 50))
    facts, _ = read_all(made.directory, LANE_FACTS)
    samples, _ = read_all(made.directory)

    assert [name_of(payload)[1] for payload in facts] == list(range(len(facts)))
    assert made.facts.lost == 9000 - len(facts)
    assert made.dropped + made.samples.lost == 3000 - len(samples)
    assert len(facts) * 70 > 300_000


def write_in_both_lanes(made: spool.Spool, count: int) -> None:
    """Append to both lanes from three threads, all of them rolling at the cap."""

    def work(lane: spool.Lane, who: int, size: int) -> None:
        for number in range(count):
            lane.append(record(who, number, size))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        lanes = [(made.samples, 0, 60), (made.samples, 1, 60), (made.facts, 2, 25)]
        threads = [threading.Thread(target=work, args=each) for each in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_what_both_lanes_give_up_at_once_is_counted(tmp_path):
    """When both lanes roll at the cap at the same time, the count of what was given up is still exact."""
    count = 30_000
    for _ in range(times(4)):
        made = new_spool(tmp_path, cap=1_000_000)
        write_in_both_lanes(made, count)
        missing = 3 * count - sum(len(read_all(made.directory, lane)[0]) for lane in (LANE_FACTS, LANE_SAMPLES))

        assert made.lost == missing


def test_what_threads_write_to_a_segment_that_is_given_up_is_counted(tmp_path):
    """When the cap is so small that the segment in use must go, its late records are counted with the others."""
    for _ in range(times(4)):
        made = new_spool(tmp_path, cap=20_000)
        said = write_from_threads(made.samples, 6000)
        got, _ = read_all(made.directory)

        assert made.lost == sum(said.values()) - len(got)


@BOTH
@pytest.mark.parametrize("lane", [LANE_FACTS, LANE_SAMPLES])
def test_a_record_may_be_larger_than_a_segment(mapped: bool, lane: str, small: None, tmp_path):
    """Records of up to 1 MiB come back between small ones, whatever the size of the segments."""
    made = new_spool(tmp_path, mapped=mapped)
    sizes = [0, 5000, 10, 70_000, 0, 4096, wire.MAX_PAYLOAD - 20, 3, 300_000, 300_000, 1]
    for number, size in enumerate(sizes):
        (made.facts if lane == LANE_FACTS else made.samples).append(record(0, number, size))
    for gone in (False, True):
        got, tail = read_all(made.directory, lane, gone=gone)

        assert got == [record(0, number, size)[8:] for number, size in enumerate(sizes)]
        assert tail.damaged == made.lost == 0


@BOTH
@pytest.mark.parametrize("left", range(14))
def test_a_segment_may_be_filled_to_its_last_byte(mapped: bool, left: int, small: None, tmp_path):
    """Whatever number of bytes is left at a segment's end, the reader finds its way into the next one, or waits."""
    made = new_spool(tmp_path, mapped=mapped)
    made.samples.append(record(0, 0))
    room = 4096 - len(segment.pack_header(segment.Header(LANE_SAMPLES, 0, 4096, made.origin))) - len(record(0, 0))
    made.samples.append(record(0, 1, room - len(record(0, 1)) - left))
    assert len(segment.list_segments(made.directory, LANE_SAMPLES)) == 1
    assert complaints(read_all(made.directory, gone=False)[0], {0: 2}) == []
    for number in range(2, 5):
        made.samples.append(record(0, number, 20))

    assert len(segment.list_segments(made.directory, LANE_SAMPLES)) == 2
    assert complaints(read_all(made.directory, gone=False)[0], {0: 5}) == []


@BOTH
def test_a_roll_may_write_records_itself(mapped: bool, small: None, tmp_path):
    """What is appended from inside a roll, even so much that it would roll again, is kept, and rolls come to an end."""
    made = new_spool(tmp_path, mapped=mapped)
    told = itertools.count()

    def tell() -> None:
        for _ in range(3):
            if (number := next(told)) < 60:
                made.samples.append(record(1, number, 1500))
                made.facts.append(record(2, number, 100))

    made.on_roll = tell
    for number in range(500):
        made.samples.append(record(0, number, 60))
    got, _ = read_all(made.directory, gone=False)
    facts, _ = read_all(made.directory, LANE_FACTS, gone=False)

    assert complaints([p for p in got if p.startswith(b"0 ")], {0: 500}) == []
    assert sorted(name_of(p) for p in got if p.startswith(b"1 ")) == [(1, number) for number in range(60)]
    assert sorted(map(name_of, facts)) == [(2, number) for number in range(60)]


@BOTH
def test_what_is_appended_after_closing_is_read_too(mapped: bool, tmp_path):
    """A closed lane says so; what a late thread appends all the same begins a new segment and is read."""
    made = new_spool(tmp_path, mapped=mapped)
    made.samples.append(record(0, 0))
    made.close()
    made.close()
    tail = Tail(made.directory, LANE_SAMPLES)
    assert len(tail.read()) == 1
    assert tail.closed
    made.samples.append(record(0, 1))

    assert [name_of(payload) for _, payload in tail.read()] == [(0, 1)]
    assert not tail.closed
    tail.shut()


@BOTH
def test_a_fork_child_speaks_under_another_origin(mapped: bool, small: None, tmp_path):
    """After a fork both go on, the child under a new origin from its first record, and neither disturbs the other."""
    made = new_spool(tmp_path, mapped=mapped)
    for number in range(100):
        made.samples.append(record(0, number, 50))
    mine = made.directory

    def child() -> str:
        made.renew()
        for number in range(300):
            made.samples.append(record(1, number, 50))
            made.facts.append(record(1, number, 50))
        made.close()
        return made.directory

    theirs = in_child(child)
    for number in range(100, 300):
        made.samples.append(record(0, number, 50))

    assert theirs != mine
    assert complaints(read_all(mine, gone=False)[0], {0: 300}) == []
    assert complaints(read_all(theirs, gone=False)[0], {1: 300}) == []
    assert complaints(read_all(theirs, LANE_FACTS, gone=False)[0], {1: 300}) == []


@BOTH
def test_parent_and_child_write_at_the_same_time(mapped: bool, small: None, tmp_path):
    """A parent that goes on writing while its child does loses nothing, and keeps its own words apart."""
    made = new_spool(tmp_path, mapped=mapped)
    made.samples.append(record(0, 0))
    mine = made.directory
    pid = os.fork()
    if pid == 0:
        try:
            made.renew()
            for number in range(2000):
                made.samples.append(record(1, number, 50))
        finally:
            os._exit(0)
    for number in range(1, 2000):
        made.samples.append(record(0, number, 50))
    os.waitpid(pid, 0)
    (theirs,) = (path for path in (os.path.join(tmp_path, name) for name in os.listdir(tmp_path)) if path != mine)

    assert complaints(read_all(mine, gone=False)[0], {0: 2000}) == []
    assert complaints(read_all(theirs)[0], {1: 2000}) == []


def no_file_over(size: int) -> None:
    """Let this process write no file larger than this: to the one that writes, that is a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@BOTH
def test_a_full_disk_raises_nothing_and_is_counted(mapped: bool, tmp_path):
    """Where no segment can be made an append returns all the same, and what was lost is counted."""

    def child() -> list[Any]:
        made = new_spool(tmp_path, mapped=mapped)
        os.mkdir(made.directory)
        no_file_over(10)
        for number in range(50):
            made.samples.append(record(0, number))
            made.facts.append(record(0, number))
        return [made.samples.lost, made.facts.lost, bool(made.trouble), os.listdir(made.directory)]

    assert in_child(child) == [50, 50, True, []]


def fill_half_segments(root: Any, *, torn: bool) -> tuple[str, int]:
    """Append by os.write on a disk that is full in the middle of every segment; return where, and how much was lost.

    `torn`: the first segment ends in the middle of a record; else right behind one, and without an end mark.
    """

    def child() -> list[Any]:
        made = new_spool(root, mapped=False)
        os.mkdir(made.directory)
        head = len(segment.pack_header(segment.Header(LANE_SAMPLES, 0, 64 << 10, made.origin)))
        no_file_over(head + 150 * len(record(0, 0, 49)) + (20 if torn else 0))
        for number in range(1000):
            made.samples.append(record(0, number, 50 - len(str(number))))
        return [made.directory, made.lost]

    return tuple(in_child(child))


def test_a_disk_that_is_full_in_the_middle_of_a_segment_loses_nothing(tmp_path):
    """A record that os.write could keep only in part goes whole into the next segment; its torn half is counted."""
    directory, lost = fill_half_segments(tmp_path, torn=True)
    got, tail = read_all(directory)

    assert lost == 0
    assert complaints(got, {0: 1000}) == []
    assert tail.damaged == len(segment.list_segments(directory, LANE_SAMPLES)) - 1


@pytest.mark.parametrize("torn", [True, False], ids=["torn", "clean"])
def test_a_segment_without_an_end_does_not_hold_up_a_living_lane(torn: bool, tmp_path):
    """Where a segment could not be ended and its writer has since rolled more than once, a reader goes on."""
    directory, _ = fill_half_segments(tmp_path, torn=torn)
    living = Tail(directory, LANE_SAMPLES, patience_s=0)
    got = [payload for _, payload in drain(living)]
    offset = segment.list_segments(directory, LANE_SAMPLES)[-2]
    living.shut()

    assert complaints(got, {0: len(got)}) == []
    assert living.offset >= offset


def test_a_plain_segment_is_made_without_a_word(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """The first segment of a spool on a file system without mappings leaves nothing on the user's screen."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    made = new_spool(tmp_path, mapped=False)
    made.samples.append(record(0, 0))
    gc.collect()
    monkeypatch.undo()

    assert [str(one.exc_value) for one in said] == []


def test_nothing_is_touched_before_the_first_record(tmp_path):
    """A spool that nothing was written to leaves no directory behind, closed or not."""
    made = new_spool(tmp_path)
    made.close()

    assert os.listdir(tmp_path) == []
