"""One file of a spool: its name, its header, and the two ways to write it.

A segment is a header, then frames as in `wire`. In place of a frame's length, 0 means that nothing is written yet, END
that the next segment follows, CLOSED that nothing will follow. Its name is the lane and the offset where it starts.
"""

import mmap
import os
import struct
import threading
from typing import Protocol
from zlib import crc32

import msgspec
from msgspec import Struct, field

from vedette import wire
from vedette.errors import FormatError, VersionError
from vedette.fileio import open_private
from vedette.interrupts import let_through
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MAGIC = b"vedette"
EXIT_CODE = "exit_code"  # a file beside the segments: the exit code of the process, as one byte
STACKS = "stacks"  # a file beside the segments: the Python stacks, if it got SIGTERM or crashed
_MOST_SIZE = 64 << 20
_START = struct.Struct("<8sII")  # magic and version, length of the header, its checksum


class Header(Struct, frozen=True):
    """What stands at the start of each segment."""

    lane: str
    offset: int = field(name="place")  # at which it starts
    size: int
    origin: Origin
    locked: bool = False  # its writer holds a lock on it until it goes on to the next one, or dies


_decode_header = msgspec.msgpack.Decoder(Header).decode


def segment_name(lane: str, offset: int) -> str:
    """Return the file name of the segment that starts at an offset."""
    return f"{lane}.{offset:016d}"


def list_segments(directory: str, lane: str) -> list[int]:
    """Return the offsets at which a lane's segments start, in order."""
    prefix = lane + "."
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError) as error:  # after any other error there may be some
        let_through(error)
        return []
    offsets = [name[len(prefix) :] for name in names if name.startswith(prefix)]
    return sorted(int(offset) for offset in offsets if offset.isascii() and offset.isdigit() and len(offset) < 19)


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
        header = _decode_header(body)
        if not 0 < header.size <= _MOST_SIZE or header.offset < 0:
            raise FormatError(f"the segment's header claims {header.size} bytes")
        return header, _START.size + size
    except wire.UNREADABLE as error:
        let_through(error)
        raise FormatError(f"the segment's header cannot be read: {error}") from None


def origin_of(directory: str) -> Origin | None:
    """Return the origin of a spool, from its first readable segment; None while there is none."""
    try:
        return read_origin(directory)
    except OSError:
        return None


def read_origin(directory: str) -> Origin | None:
    """Return the same; raise OSError if there are segments that cannot be read now."""
    failed: OSError | None = None
    for lane in (LANE_FACTS, LANE_SAMPLES):
        for offset in list_segments(directory, lane):
            path = os.path.join(directory, segment_name(lane, offset))
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            except OSError as error:
                failed = error
                continue
            try:
                return read_header(fd)[0].origin
            except FormatError:
                continue
            except OSError as error:
                failed = error
            finally:
                os.close(fd)
    if failed is not None:
        raise failed
    return None


def is_held(path: str) -> bool | None:
    """Tell whether the writer of a segment holds its lock, so that it lives; None if that cannot be told.

    The kernel releases the lock with the last mapping or descriptor, however the process ends, and whatever its pid
    namespace is.
    """
    if fcntl is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not read_header(fd)[0].locked:
            return None
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FormatError, OSError):
        return None
    finally:
        os.close(fd)
    return False


def _lock(fd: int) -> bool:
    """Take the writer's lock on a segment; tell whether the file system has locks. It never waits."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        let_through(error)
        return False
    return True


class Segment(Protocol):
    """A file of fixed capacity, to which records are appended until it is finished."""

    locked: bool  # we hold a lock on it

    def write(self, data: bytes, /) -> object:
        """Append all of it; raise ValueError when it does not fit."""

    def finish(self, ending: bytes) -> None:
        """Write END or CLOSED as the last bytes; nothing can be appended after that."""


class Mapped(mmap.mmap):
    """A segment that is mapped into memory: the kernel keeps what is written even if this process is killed.

    A mapping keeps its file open, so the lock is held as long as it is there, without a descriptor.
    """

    locked = False

    @classmethod
    def make(cls, path: str, size: int) -> "Mapped":
        """Make the file and map it; raise OSError when the disk has no room for all of it."""
        fd = open_private(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            os.posix_fallocate(fd, 0, size)  # a full disk is an error here, never a SIGBUS later
            segment = cls(fd, size)
            segment.locked = _lock(fd)
            return segment
        finally:
            os.close(fd)

    @classmethod
    def adopt(cls, path: str) -> "Mapped":
        """Map a segment that has a header and no records."""
        fd = open_private(path, os.O_RDWR)
        try:
            header, begin = read_header(fd)
            segment = cls(fd, header.size)
            segment.locked = _lock(fd)
        except FormatError as error:
            raise OSError(str(error)) from None
        finally:
            os.close(fd)
        segment.seek(begin)
        return segment

    def finish(self, ending: bytes) -> None:
        """Fill all the rest in one write, so that a late thread's write fails and is tried again."""
        while (rest := len(self) - self.tell()) > 0:
            try:
                self.write((ending + bytes(rest))[:rest])
            except ValueError as error:
                let_through(error)
                continue  # another thread has just written: the rest is less now


class Unmapped:
    """A segment that is written by os.write, for file systems where mapped files are not reliable."""

    def __init__(self, path: str, size: int, *, adopted: bool = False) -> None:
        self._fd = -1
        self._size = size
        self._over = False
        self._lock = threading.RLock()
        self._fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if adopted else os.O_TRUNC))
        self.locked = _lock(self._fd)

    def write(self, data: bytes) -> None:
        """Append all of it; raise ValueError when it does not fit."""
        with self._lock:
            # Its size is asked of the file: an interrupt between writing and counting cannot make it wrong.
            if self._over or os.lseek(self._fd, 0, os.SEEK_END) + len(data) > self._size:
                raise ValueError
            try:
                written = os.write(self._fd, data)
            except OSError as error:
                let_through(error)
                written = 0
            if written != len(data):  # the disk is full: nothing more is written to this segment
                self._over = True
                raise ValueError

    def finish(self, ending: bytes) -> None:
        """Write END or CLOSED, and nothing after it."""
        with self._lock:
            try:
                self.write(ending + bytes(4))
            except ValueError as error:
                let_through(error)
            self._over = True

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def count_records(path: str) -> int:
    """Count the records of a whole segment."""
    try:
        with open(path, "rb") as file:
            _, at = read_header(file.fileno())
            data = file.read()
    except (OSError, FormatError) as error:
        let_through(error)
        return 0
    count = 0
    while at + wire.HEAD.size <= len(data):
        size, _ = wire.unpack_head(data, at)
        if size == 0 or size >= wire.CLOSED:
            break
        at += wire.HEAD.size + size
        count += 1
    return count
