"""The append-only files that a process writes, and their reader.

A spool is a directory `<origin>/` of segments `<lane>.<place>`, where place counts the bytes of the lane: a
segment of size S that starts at place P is followed by P + S (decisions/003). A segment is a header and then
frames as in `wire`; length 0 means nothing yet, END go to the next segment, CLOSED nothing will follow.

The writer appends with one memory copy and takes no lock; only the change to the next segment does. Nobody
ever truncates a segment. The reader never raises on what it finds: it waits, or skips and counts.
"""

import errno
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from typing import Protocol
from zlib import crc32

import msgspec
from msgspec import Struct

from vedette import kernel, wire
from vedette.errors import FormatError, VersionError
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin

MAGIC = b"vedette"
_SIZES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
_LEAST_SIZE = 16 << 10
_RETRY_S = 1.0
_ARRAYS = {bytes([0x90 + length]) for length in range(16)}  # a record begins as an array in msgpack
_SEARCH_BYTES = 256 << 20  # to be checksummed at most in search of a sound record
_LEAST_WINDOW, _MOST_WINDOW = 4 << 10, 1 << 20
_START = struct.Struct("<8sII")  # magic and version, length of the header, its checksum
_END_BYTES = wire.END.to_bytes(4, "little")
_CLOSED_BYTES = wire.CLOSED.to_bytes(4, "little")


class Header(Struct, frozen=True):
    """What stands at the start of each segment."""

    lane: str
    place: int
    size: int
    origin: Origin


_decode_header = msgspec.msgpack.Decoder(Header).decode


def segment_name(lane: str, place: int) -> str:
    """Return the file name of the segment that starts at a place."""
    return f"{lane}.{place:016d}"


def list_segments(directory: str, lane: str) -> list[int]:
    """Return the places at which a lane's segments start, in order."""
    prefix = lane + "."
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted(int(n[len(prefix) :]) for n in names if n.startswith(prefix) and n[len(prefix) :].isdigit())


def pack_header(header: Header) -> bytes:
    """Return a segment's first bytes."""
    body = wire.encode(header)
    return _START.pack(MAGIC + bytes([wire.VERSION]), len(body), crc32(body, len(body))) + body


def read_header(fd: int) -> tuple[Header, int]:
    """Return a segment's header and where its records begin; raise FormatError when there is none."""
    start = os.pread(fd, _START.size, 0)
    if len(start) < _START.size:
        raise FormatError("the segment ends inside its header")
    magic, size, crc = _START.unpack(start)
    if magic[:7] != MAGIC:
        raise FormatError("the segment has no header")
    if magic[7] > wire.VERSION:
        raise VersionError(
            f"its format is version {magic[7]}, and this vedette reads up to {wire.VERSION}: upgrade vedette"
        )
    body = os.pread(fd, min(size, wire.MAX_PAYLOAD), _START.size)
    if len(body) != size or crc32(body, size) != crc:
        raise FormatError("the segment's header is damaged")
    try:
        return _decode_header(body), _START.size + size
    except wire.UNREADABLE as error:
        raise FormatError(f"the segment's header cannot be read: {error}") from None


class _Segment(Protocol):
    """A file of fixed capacity: `write` appends, whole or with ValueError; `finish` marks its end for good."""

    def write(self, data: bytes, /) -> object: ...
    def finish(self, mark: bytes) -> None: ...


class _Mapped(mmap.mmap):
    """A segment in memory that the kernel keeps whatever happens to this process."""

    @classmethod
    def make(cls, path: str, size: int) -> "_Mapped":
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)  # a full disk is an error here, never a SIGBUS later
            return cls(fd, size)
        finally:
            os.close(fd)

    def finish(self, mark: bytes) -> None:
        """Fill all the rest in one write, so that a late thread's write fails and is tried again."""
        while (rest := len(self) - self.tell()) > 0:
            try:
                self.write((mark + bytes(rest))[:rest])
            except ValueError:
                continue  # another thread has just written: the rest is less now


class _Plain:
    """A segment written by os.write, for file systems on which a mapping is not to be trusted."""

    def __init__(self, path: str, size: int) -> None:
        self._fd = -1
        self._size = size
        self._at = 0
        self._lock = threading.RLock()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._at + len(data) > self._size:
                raise ValueError
            try:
                written = os.write(self._fd, data)
            except OSError:
                written = 0
            self._at += written
            if written != len(data):  # the disk is full: this segment is at its end
                self._at = self._size
                raise ValueError

    def finish(self, mark: bytes) -> None:
        with self._lock:
            try:
                self.write(mark + bytes(4))
            except ValueError:
                pass
            self._at = self._size

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _shut(_data: bytes) -> None:
    raise ValueError


class Lane:
    """One lane of a spool as its process writes it.

    Hot paths call `write(record)` and, on ValueError, `roll(record)`; everyone else calls `append`.
    """

    __slots__ = (
        "_ended", "_lane", "_lock", "_pending", "_place", "_retry_at", "_rolling", "_rolls", "_segment", "_spool",
        "lost", "write",
    )  # fmt: skip

    def __init__(self, spool: "Spool", lane: str) -> None:
        self._spool = spool
        self._lane = lane
        self.renew()

    def renew(self) -> None:
        """Forget every segment and begin anew: at the start, and in a fork child."""
        self.write: Callable[[bytes], object] = _shut
        self.lost = 0  # records that could not be kept
        self._segment: _Segment | None = None
        self._place = 0  # where the next segment will start
        self._rolls = 0
        self._retry_at = 0.0
        self._lock = threading.RLock()  # a signal handler may log while its own thread rolls
        self._rolling = False
        self._pending: list[bytes] = []
        self._ended: list[_Segment] = []

    def append(self, record: bytes) -> None:
        """Keep a framed record. When this has returned, only a lost disk loses it, or `lost` counts it."""
        try:
            self.write(record)
        except ValueError:
            self.roll(record)

    def roll(self, record: bytes) -> None:
        """Keep a record that did not fit, in the next segment."""
        with self._lock:
            self._pending.append(record)
            if self._rolling:  # called from inside a roll of this very thread, which will see to it
                return
            self._rolling = True
            try:
                while self._pending:
                    self._place_record(self._pending[0])
                    del self._pending[0]
            finally:
                self._rolling = False

    def _place_record(self, record: bytes) -> None:
        while True:
            try:
                self.write(record)
                return
            except ValueError:
                if not self._next_segment(len(record)):
                    self.lost += 1
                    return

    def _next_segment(self, need: int) -> bool:
        if self._retry_at and time.monotonic() < self._retry_at:
            return False
        try:
            header = Header(self._lane, self._place, 0, self._spool.origin)
            least = len(pack_header(header)) + 16 + wire.HEAD.size + need
            size = self._spool.make_room(_SIZES[min(self._rolls, len(_SIZES) - 1)], least, self._lane)
            segment = self._spool.make_segment(msgspec.structs.replace(header, size=size))
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_S
            self._spool.trouble = error.strerror or str(error)
            return False
        self._retry_at = 0.0
        self._rolls += 1
        if self._segment is not None:
            self._ended.append(self._segment)
        self._segment, self._place, self.write = segment, self._place + size, segment.write
        self._finish_ended()  # last, so that an interrupted roll is made good by the next
        self._spool.on_roll()
        return True

    def _finish_ended(self) -> None:
        while self._ended:
            self._ended[-1].finish(_END_BYTES)
            self._ended.pop()

    def close(self) -> None:
        """Say that nothing will follow; what is appended after all begins a new segment."""
        with self._lock:
            self._finish_ended()
            if self._segment is not None:
                self._segment.finish(_CLOSED_BYTES)


class Spool:
    """What one process has to say: a directory with two lanes. `on_roll` is called when a segment was begun."""

    def __init__(
        self,
        root: str,
        make_origin: Callable[[], Origin],
        cap_bytes: int,
        cap_share: float,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Touch nothing yet: the directory, and who speaks there, are made with the first record.

        `prepare` makes what the root lies in, or raises OSError.
        """
        self.root = root
        self._prepare = prepare
        self._make_origin = make_origin
        self._origin: Origin | None = None
        self.trouble = ""
        self.on_roll: Callable[[], None] = lambda: None
        self.dropped = 0  # records in segments that were given up at the cap
        self._cap_bytes = cap_bytes
        self._cap_share = cap_share
        self._room = threading.RLock()  # one lane at a time may give samples up
        self._mapped = kernel.file_system(root) in kernel.MAPPABLE_FILE_SYSTEMS
        self.facts = Lane(self, LANE_FACTS)
        self.samples = Lane(self, LANE_SAMPLES)

    @property
    def origin(self) -> Origin:
        """Who speaks here."""
        if self._origin is None:
            self._origin = self._make_origin()
        return self._origin

    @property
    def directory(self) -> str:
        """Where the segments lie."""
        return os.path.join(self.root, self.origin.name)

    @property
    def lost(self) -> int:
        """How many records could not be kept."""
        return self.facts.lost + self.samples.lost + self.dropped

    def renew(self) -> None:
        """Begin anew under another origin: in a fork child, whose parent goes on with the old one."""
        self._origin = None
        self._room = threading.RLock()
        self.dropped = 0
        self.trouble = ""
        self.facts.renew()
        self.samples.renew()

    def make_segment(self, header: Header) -> _Segment:
        """Make the file of a segment, whole or not at all."""
        path = os.path.join(self.directory, segment_name(header.lane, header.place))
        make = _Mapped.make if self._mapped else _Plain
        try:
            segment = make(path + ".new", header.size)
        except FileNotFoundError:
            self._prepare()
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            segment = make(path + ".new", header.size)
        except OSError:
            _unlink(path + ".new")
            raise
        try:
            segment.write(pack_header(header))
        except ValueError:
            _unlink(path + ".new")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        os.rename(path + ".new", path)
        return segment

    def make_room(self, wanted: int, least: int, lane: str) -> int:
        """Keep to the cap: return the size that a segment may have, giving up the oldest samples for it if need be.

        Raise OSError when there is no room even so. A lane of samples is always let through once its older
        segments are gone, and so is the first segment of any lane: that is what the quarter in reserve is for.
        """
        with self._room:
            used = {
                (part, place): _size(self._path(part, place))
                for part in (LANE_FACTS, LANE_SAMPLES)
                for place in list_segments(self.directory, part)
            }
            total = sum(used.values())
            try:
                disk = os.statvfs(self.root)
                cap = min(self._cap_bytes, int((disk.f_bavail * disk.f_frsize + total) * self._cap_share))
            except OSError:
                cap = self._cap_bytes
            size = max(min(wanted, cap // 8), _LEAST_SIZE, -(-least // 4096) * 4096)
            soft = cap - cap // 4
            older = sorted(key for key in used if key[0] == LANE_SAMPLES)[:-1]  # the last is still being written to
            first = all(part != lane for part, _ in used)
            if lane == LANE_FACTS and not first and total + size - sum(used[key] for key in older) > soft:
                raise OSError("the spool is at its cap")
            while total + size > soft and older:
                oldest = older.pop(0)
                self.dropped += count_records(self._path(*oldest))
                self.trouble = "the spool was at its cap, so the oldest samples were given up"
                _unlink(self._path(*oldest))
                total -= used[oldest]
            return size

    def _path(self, lane: str, place: int) -> str:
        return os.path.join(self.directory, segment_name(lane, place))

    def close(self) -> None:
        """Say that nothing will follow."""
        self.samples.close()
        self.facts.close()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def count_records(path: str) -> int:
    """Count the records of a whole segment."""
    try:
        with open(path, "rb") as file:
            _, at = read_header(file.fileno())
            data = file.read()
    except (OSError, FormatError):
        return 0
    count = 0
    while at + wire.HEAD.size <= len(data):
        size, _ = wire.unpack_head(data, at)
        if size == 0 or size >= wire.CLOSED:
            break
        at += wire.HEAD.size + size
        count += 1
    return count


class Tail:
    """Reads one lane of a spool from a place on.

    A torn record at the end of a living writer's lane is waited for; what is damaged is skipped and counted.
    `place` is always such that all before it has been handed out or counted.
    """

    def __init__(self, directory: str, lane: str, place: int = 0, patience_s: float = 0.2) -> None:
        """Begin at a place; `patience_s`: how long a record of a living writer may look damaged."""
        self.place = place
        self.damaged = 0
        self.closed = False
        self.header: Header | None = None
        self._directory = directory
        self._lane = lane
        self._fd: int | None = None
        self._passed: list[int] = []  # segments read to their end, not yet flushed
        self._synced = -1
        self._window = _LEAST_WINDOW  # how much to read at once: little from a quiet lane
        self._doubted = (-1, 0.0, -1)  # a place that looks damaged, since when, and how much was searched in vain
        self._patience_s = patience_s

    def read(self, *, gone: bool = False, limit: int = 4 << 20) -> list[tuple[int, bytes]]:
        """Return records as (place behind, payload); `gone`: the writer is dead, so nothing is on its way.

        Raise VersionError when the lane was written by a newer vedette.
        """
        records: list[tuple[int, bytes]] = []
        start = self.place
        while self.place - start < limit and self._open(gone):
            if not self._read_some(records, gone):
                break
        return records

    def sync(self) -> None:
        """Flush what has been read to disk: any descriptor of a file flushes all its pages."""
        for fd in self._passed:
            os.fdatasync(fd)
            os.close(fd)
        self._passed.clear()
        if self._fd is not None and self._synced != self.place:
            os.fdatasync(self._fd)
            self._synced = self.place

    def shut(self) -> None:
        """Let go of the open segments."""
        for fd in (*self._passed, *(() if self._fd is None else (self._fd,))):
            os.close(fd)
        self._passed.clear()
        self._fd = None

    def end(self) -> int:
        """Return a place that all which is written by now lies before."""
        places = list_segments(self._directory, self._lane)
        if not places:
            return self.place
        return places[-1] + _size(os.path.join(self._directory, segment_name(self._lane, places[-1])))

    def _open(self, gone: bool) -> bool:
        """Make sure that the segment holding `place` is open; step over what is missing or has no header."""
        if self._fd is not None and self.header is not None:
            if self.place < self.header.place + self.header.size:
                return True
            self._passed.append(self._fd)
            self._fd = None
        places = list_segments(self._directory, self._lane)
        behind = [place for place in places if place > self.place]
        at = max((place for place in places if place <= self.place), default=None)
        for place in ([] if at is None else [at]) + behind:
            path = os.path.join(self._directory, segment_name(self._lane, place))
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                header, begin = read_header(fd)
            except VersionError as error:
                os.close(fd)
                raise VersionError(f"{path}: {error}") from None
            except FormatError:
                os.close(fd)
                newest = place == places[-1]
                if newest and not gone:
                    return False
                if self.place <= place:  # else it was passed over before
                    self.damaged += 1
                self.place = max(self.place, place + 1 if newest else places[places.index(place) + 1])
                continue
            if self.place >= header.place + header.size:
                os.close(fd)
                continue
            self._fd, self.header = fd, header
            self.place = max(self.place, header.place + begin)
            self.closed = False
            return True
        return False

    def _read_some(self, records: list[tuple[int, bytes]], gone: bool) -> bool:
        """Read on in the open segment; return whether there may be more to read at once."""
        assert self._fd is not None
        assert self.header is not None
        base = self.header.place
        segment_end = base + self.header.size
        if segment_end - self.place < wire.HEAD.size:
            self.place = segment_end
            return True
        data = os.pread(self._fd, min(self._window, segment_end - self.place), self.place - base)
        at, end, head, begin = 0, len(data), wire.unpack_head, self.place
        keep = records.append
        while end - at >= 8:
            size, crc = head(data, at)
            stop = at + 8 + size
            if size == 0 or stop > end:
                break
            payload = data[at + 8 : stop]
            if crc32(payload, size) != crc:
                break
            keep((begin + stop, payload))
            at = stop
        self.place = begin + at
        if at:
            self._window = min(self._window * 2, _MOST_WINDOW)
            return True
        self._window = _LEAST_WINDOW
        size = head(data, 0)[0] if end >= 8 else 0
        if size == 0 and not gone:
            return False
        if size in (wire.END, wire.CLOSED) and self._is_end():
            self.closed = size == wire.CLOSED
            self.place = segment_end
            return True
        if 0 < size <= segment_end - self.place - 8 and 8 + size > end:  # larger than what was read
            payload = os.pread(self._fd, 8 + size, self.place - base)[8:]
            if len(payload) == size and crc32(payload, size) == head(data, 0)[1]:
                self.place += 8 + size
                keep((self.place, payload))
                return True
        return self._pass_over(gone)

    def _is_end(self) -> bool:
        """Tell whether the mark at this place really fills the rest of the segment, and is not damage."""
        assert self._fd is not None
        assert self.header is not None
        done = self.place - self.header.place
        return _sound_at(os.pread(self._fd, self.header.size - done, done), 0)

    def _pass_over(self, gone: bool) -> bool:
        """Step over a hole or a damaged record, if something sound follows or nothing can follow any more.

        While the writer lives, what looks damaged may be on its way: it must look so for a while, and be followed
        by something sound, before it counts as damaged.
        """
        assert self._fd is not None
        assert self.header is not None
        base, segment_end = self.header.place, self.header.place + self.header.size
        data = os.pread(self._fd, segment_end - self.place, self.place - base)
        if _sound_at(data, 0):
            return True
        filled = len(data.rstrip(b"\0"))
        if not gone and filled:  # a writer that has rolled twice since is done with this segment
            gone = sum(place > base for place in list_segments(self._directory, self._lane)) > 1
        if not gone:
            if self._doubted[0] != self.place:
                self._doubted = (self.place, time.monotonic(), -1)
            _, since, searched = self._doubted
            if time.monotonic() - since < self._patience_s or searched == filled:
                return False
            self._doubted = (self.place, since, filled)
        skip = _find_sound(data, filled)
        if skip is not None:
            self.damaged += 1
            self.place += skip
            return True
        if not gone:
            return False
        if filled:
            self.damaged += 1
        self.place = segment_end
        return True


def _find_sound(data: bytes, filled: int) -> int | None:
    """Return how far ahead something sound begins, looking into a bounded number of bytes."""
    budget = _SEARCH_BYTES
    for at in range(1, min(filled, len(data) - wire.HEAD.size + 1)):
        size = int.from_bytes(data[at : at + 4], "little")
        if size < wire.CLOSED:
            if data[at + wire.HEAD.size : at + wire.HEAD.size + 1] not in _ARRAYS:
                continue
            if size <= wire.MAX_PAYLOAD:
                budget -= size
        if _sound_at(data, at):
            return at
        if budget < 0:
            return None
    return None


def _sound_at(data: bytes, at: int) -> bool:
    """Tell whether a whole record, or the mark that fills the rest of a segment, begins here."""
    if at + wire.HEAD.size > len(data):
        return False
    size, crc = wire.unpack_head(data, at)
    if size in (wire.END, wire.CLOSED):
        return not data[at + 4 :].strip(b"\0")
    if not 2 < size <= min(wire.MAX_PAYLOAD, len(data) - at - wire.HEAD.size):
        return False
    return bool(crc32(data[at + wire.HEAD.size : at + wire.HEAD.size + size], size) == crc)
