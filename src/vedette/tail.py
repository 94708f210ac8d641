"""The reader of a spool's lane. It never raises on what it finds: it waits, or skips and counts."""

import os
import stat
import time
from zlib import crc32

from vedette import wire
from vedette.errors import FormatError, VersionError
from vedette.fileio import file_size
from vedette.segment import Header, list_segments, read_header, segment_name

RECORD = frozenset(bytes([0x90 + n]) for n in range(16)), wire.MAX_PAYLOAD  # it begins as an array in msgpack
SHIPMENT = frozenset(bytes([0x80 + n]) for n in range(16)), wire.MAX_SHIPMENT  # it begins as a map
_SEARCH_BYTES = 256 << 20  # at most so many bytes are checksummed in search of a sound record
_LEAST_WINDOW, _MOST_WINDOW = 4 << 10, 1 << 20


class Tail:
    """Reads one lane of a spool, from an offset on.

    A torn record at the end of a living writer's lane may still be completed: it waits for that. A damaged record is
    skipped and counted. All records before `offset` were returned or counted.
    """

    def __init__(
        self,
        directory: str,
        lane: str,
        offset: int = 0,
        patience_s: float = 0.2,
        shape: tuple[frozenset[bytes], int] = RECORD,
    ) -> None:
        """Begin at an offset. A record of a living writer counts as damaged after `patience_s`.

        `shape`: the first bytes that a payload can have, and its greatest size. It serves to find the next record
        after a damaged one.
        """
        self._shape = shape
        self.offset = offset
        self.damaged = 0
        self.closed = False
        self.header: Header | None = None
        self._directory = directory
        self._lane = lane
        self._fd: int | None = None
        self._passed: list[int] = []  # segments read to their end, not yet flushed
        self._synced = -1
        self._window = _LEAST_WINDOW  # how much to read at once: little from a quiet lane
        self._doubted = (-1, 0.0, -1)  # an offset that looks damaged, since when, how many bytes were searched in vain
        self._patience_s = patience_s

    def read(self, *, gone: bool = False, limit: int = 4 << 20) -> list[tuple[int, bytes]]:
        """Return records as (offset behind it, payload); none only when there are no more for now.

        `gone`: the writer is dead, so nothing will be completed. Raise VersionError when a newer vedette wrote it.
        """
        records: list[tuple[int, bytes]] = []
        start = self.offset
        while (self.offset - start < limit or not records) and self._open(
            gone
        ):  # after a gap, read on until there is a record
            if not self._read_some(records, gone):
                break
        return records

    def sync(self) -> None:
        """Flush what was read to disk. Its writer need not do it: any descriptor of a file flushes all its pages."""
        for fd in self._passed:
            os.fdatasync(fd)
            os.close(fd)
        self._passed.clear()
        if self._fd is not None and self._synced != self.offset:
            os.fdatasync(self._fd)
            self._synced = self.offset

    def shut(self) -> None:
        """Close the open segments."""
        for fd in (*self._passed, *(() if self._fd is None else (self._fd,))):
            os.close(fd)
        self._passed.clear()
        self._fd = None

    def end(self) -> int:
        """Return an offset behind all that is written by now."""
        offsets = list_segments(self._directory, self._lane)
        if not offsets:
            return self.offset
        return offsets[-1] + file_size(os.path.join(self._directory, segment_name(self._lane, offsets[-1])))

    def _open(self, gone: bool) -> bool:
        """Open the segment that `offset` lies in; skip segments that are missing or have no header."""
        if self._fd is not None and self.header is not None:
            if self.offset < self.header.offset + self.header.size:
                return True
            self._passed.append(self._fd)
            self._fd = None
        offsets = list_segments(self._directory, self._lane)
        later = [offset for offset in offsets if offset > self.offset]
        at = max((offset for offset in offsets if offset <= self.offset), default=None)
        for offset in ([] if at is None else [at]) + later:
            path = os.path.join(self._directory, segment_name(self._lane, offset))
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe must not block
            except FileNotFoundError:  # its writer has just dropped it at the cap
                continue
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise FormatError("not a file")
                header, begin = read_header(fd)
            except VersionError as error:
                os.close(fd)
                raise VersionError(f"{path}: {error}") from None
            except FormatError:
                os.close(fd)
                newest = offset == offsets[-1]
                if newest and not gone:
                    return False
                behind = offset + max(1, file_size(path)) if newest else offsets[offsets.index(offset) + 1]
                if self.offset < behind:  # otherwise it was skipped before
                    self.damaged += 1
                    self.offset = behind
                continue
            if self.offset >= header.offset + header.size:
                os.close(fd)
                continue
            self._fd, self.header = fd, header
            self.offset = max(self.offset, header.offset + begin)
            self.closed = False
            return True
        return False

    def _read_some(self, records: list[tuple[int, bytes]], gone: bool) -> bool:
        """Read on in the open segment; return whether there may be more to read at once."""
        assert self._fd is not None
        assert self.header is not None
        base = self.header.offset
        segment_end = base + self.header.size
        if segment_end - self.offset < wire.HEAD.size:
            self.offset = segment_end
            return True
        data = os.pread(self._fd, min(self._window, segment_end - self.offset), self.offset - base)
        at, end, head, begin = 0, len(data), wire.unpack_head, self.offset
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
        self.offset = begin + at
        if at:
            self._window = min(self._window * 2, _MOST_WINDOW)
            return True
        self._window = _LEAST_WINDOW
        size = head(data, 0)[0] if end >= 8 else 0
        if size == 0 and not gone and (end >= wire.HEAD.size or not self._rolled_past()):
            return False
        if size in (wire.END, wire.CLOSED) and self._is_end():
            self.closed = size == wire.CLOSED
            self.offset = segment_end
            return True
        if 0 < size <= segment_end - self.offset - 8 and 8 + size > end:  # larger than what was read
            payload = os.pread(self._fd, 8 + size, self.offset - base)[8:]
            if len(payload) == size and crc32(payload, size) == head(data, 0)[1]:
                self.offset += 8 + size
                keep((self.offset, payload))
                return True
        return self._pass_over(gone)

    def _is_end(self) -> bool:
        """Tell whether END or CLOSED at this offset is followed by zeros only, and is not damage."""
        assert self._fd is not None
        assert self.header is not None
        done = self.offset - self.header.offset
        return _sound_at(os.pread(self._fd, self.header.size - done, done), 0, self._shape[1])

    def _rolled_past(self) -> bool:
        """Tell whether the writer has begun two segments since, and so has finished this one."""
        assert self.header is not None
        return sum(offset > self.header.offset for offset in list_segments(self._directory, self._lane)) > 1

    def _pass_over(self, gone: bool) -> bool:
        """Skip a hole or a damaged record, if a sound record follows or nothing can follow any more.

        While the writer lives, the record may still be completed. It counts as damaged only after a while, and when a
        sound record follows.
        """
        assert self._fd is not None
        assert self.header is not None
        base, segment_end = self.header.offset, self.header.offset + self.header.size
        gone = gone or self._rolled_past()  # asked before the read: if it is gone, the read gets all that there will be
        data = os.pread(self._fd, segment_end - self.offset, self.offset - base)
        if _sound_at(data, 0, self._shape[1]):
            return True
        filled = len(data.rstrip(b"\0"))
        if not gone:
            if self._doubted[0] != self.offset:
                self._doubted = (self.offset, time.monotonic(), -1)
            _, since, searched = self._doubted
            if time.monotonic() - since < self._patience_s or searched == filled:
                return False
            self._doubted = (self.offset, since, filled)
        skip = _find_sound(data, filled, self._shape)
        if skip is not None:
            self.damaged += 1
            self.offset += skip
            return True
        if not gone:
            return False
        if filled:
            self.damaged += 1
        self.offset = segment_end
        return True


def _find_sound(data: bytes, filled: int, shape: tuple[frozenset[bytes], int]) -> int | None:
    """Return how far ahead the next sound record begins; only so many bytes are searched."""
    budget = _SEARCH_BYTES
    firsts, most = shape
    for at in range(1, min(filled, len(data) - wire.HEAD.size + 1)):
        size = int.from_bytes(data[at : at + 4], "little")
        if size < wire.CLOSED:
            if data[at + wire.HEAD.size : at + wire.HEAD.size + 1] not in firsts:
                continue
            if size <= most:
                budget -= size
        if _sound_at(data, at, most):
            return at
        if budget < 0:
            return None
    return None


def _sound_at(data: bytes, at: int, most: int) -> bool:
    """Tell whether a whole record, or END or CLOSED followed by zeros, begins here."""
    if at + wire.HEAD.size > len(data):
        return False
    size, crc = wire.unpack_head(data, at)
    if size in (wire.END, wire.CLOSED):
        return not data[at + 4 :].strip(b"\0")
    if not 2 < size <= min(most, len(data) - at - wire.HEAD.size):
        return False
    return bool(crc32(data[at + wire.HEAD.size : at + wire.HEAD.size + size], size) == crc)
