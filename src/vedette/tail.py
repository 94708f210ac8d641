"""The reader of a spool's lane. It never raises on what it finds: it waits, or skips and counts."""

import bisect
import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from vedette import wire
from vedette.errors import FormatError, VersionError
from vedette.fileio import file_size
from vedette.model import Origin
from vedette.resync import sound_starts
from vedette.segment import Header, list_segments, read_header, segment_name

RECORD = frozenset(bytes([0x90 + n]) for n in range(16)), wire.MAX_PAYLOAD  # it begins as an array in msgpack
SHIPMENT = frozenset(bytes([0x80 + n]) for n in range(16)), 16 << 20  # a map; it was twice as large once
_SEARCH_BYTES = 512 << 10  # that are searched for sound records at once
_LEAST_WINDOW, _MOST_WINDOW = 4 << 10, 1 << 20
_MOST_IN_VAIN = 64 << 20  # bytes that one call looks at and cannot return, in what is damaged
_LAST = (wire.END, wire.CLOSED)
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe must not block


class OpenFiles:
    """Keeps the segments open that were read last, and closes the others: a hub reads any number of spools."""

    def __init__(self, most: int) -> None:
        """Keep so many open at most."""
        self._most = most
        self._tails: dict[Tail, None] = {}

    def used(self, tail: "Tail") -> None:
        """Note that a tail has opened its segment, or uses it again."""
        self._tails.pop(tail, None)
        self._tails[tail] = None
        while len(self._tails) > self._most:
            next(iter(self._tails)).rest()

    def closed(self, tail: "Tail") -> None:
        """Note that a tail has closed its segment."""
        self._tails.pop(tail, None)


class _Search(NamedTuple):
    """Where sound records begin between two offsets."""

    begin: int = -1
    end: int = -1
    starts: tuple[int, ...] = ()
    final: bool = False  # nobody writes there any more, so there are no others

    def covers(self, offset: int) -> bool:
        """Tell whether an offset was searched."""
        return self.begin <= offset < self.end

    def next(self, offset: int) -> int | None:
        """Return where the next sound record begins, not before an offset."""
        at = bisect.bisect_left(self.starts, offset)
        return self.starts[at] if at < len(self.starts) else None


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
        files: OpenFiles | None = None,
    ) -> None:
        """Begin at an offset. A record of a living writer counts as damaged after `patience_s`.

        `shape`: the first bytes that a payload can have, and its greatest size. It serves to find the next record
        after a damaged one. `files`: with whom it shares the number of open files.
        """
        self._shape = shape
        self.offset = offset
        self.damaged = 0
        self.closed = False
        self.has_more = False  # the last call did not get to the end of what is there
        self._in_vain = 0  # bytes that it has looked at and could not return
        self.header: Header | None = None
        self.origin: Origin | None = None  # whose lane it is, as the first segment that was read says
        self._directory = directory
        self._lane = lane
        self._files = files
        self._fd: int | None = None
        self._passed: list[tuple[str, int]] = []  # segments read to their end and not flushed: path, and where it ends
        self._synced = -1
        self._window = _LEAST_WINDOW  # how much to read at once: little from a quiet lane
        self._seen = (
            float("-inf"),
            -1,
        )  # when something looked damaged, and up to which offset bytes were written then
        self._old_until = -1  # all bytes before this offset were written longer ago than `patience_s`
        self._filled = (-1, 0)  # of a segment that nobody writes to: its offset, and the one behind its last byte
        self._search = _Search()
        self._vain = (-1, -1)  # between these offsets there was nothing sound
        self._counted = -1  # the offset up to which damage was skipped, if it goes on there
        self._patience_s = patience_s

    def read(self, *, gone: bool = False, limit: int = 4 << 20) -> list[tuple[int, bytes]]:
        """Return records as (offset behind it, payload); after much damage there may be none although `offset` moved.

        `gone`: the writer is dead, so nothing will be completed. Raise VersionError when a newer vedette wrote it.
        """
        records: list[tuple[int, bytes]] = []
        start, self._in_vain, self.has_more = self.offset, 0, False
        while self._open(gone):
            if self.offset - start >= limit or self._in_vain >= _MOST_IN_VAIN:
                self.has_more = True
                break
            if not self._read_some(records, gone):
                break
        return records

    def read_until(self, offset: int, *, gone: bool, limit: int = 4 << 20) -> Iterator[list[tuple[int, bytes]]]:
        """Yield records up to about an offset, some at a time, as far as there are any."""
        before = -1
        while before < self.offset < offset:
            before = self.offset
            yield self.read(gone=gone, limit=limit)

    def sync(self, kept: int = 0) -> None:
        """Flush what was read to disk. Its writer need not do it: any descriptor of a file flushes all its pages.

        `kept`: all before this offset is committed elsewhere. Segments that end before it are not needed any more; one
        that goes on is flushed all the same, or a power cut would make it look damaged.
        """
        for path, end in self._passed:
            if end > kept:
                _flush(path)
        self._passed.clear()
        ended = self.closed and self.offset <= kept
        if self.header is not None and self._synced != self.offset and not ended:
            if self._fd is not None:
                os.fdatasync(self._fd)
            else:
                _flush(self._path(self.header.offset))
            self._synced = self.offset

    def rest(self) -> None:
        """Close the open segment for now; the next read opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._files is not None:
            self._files.closed(self)

    def shut(self) -> None:
        """Close the open segment, and forget what is not flushed."""
        self.rest()
        self._passed.clear()
        self.header = None

    def end(self) -> int:
        """Return an offset behind all that is written by now."""
        offsets = list_segments(self._directory, self._lane)
        return offsets[-1] + file_size(self._path(offsets[-1])) if offsets else self.offset

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, segment_name(self._lane, offset))

    def _open(self, gone: bool) -> bool:
        """Open the segment that `offset` lies in; skip segments that are missing or have no header."""
        if self.header is not None:
            end = self.header.offset + self.header.size
            if self.offset < end and (self._fd is not None or self._reopen()):
                if self._files is not None:
                    self._files.used(self)
                return True
            if self.offset >= end:
                self._passed.append((self._path(self.header.offset), end))
            self.rest()
            self.header = None
        offsets = list_segments(self._directory, self._lane)
        later = [offset for offset in offsets if offset > self.offset]
        at = max((offset for offset in offsets if offset <= self.offset), default=None)
        for offset in ([] if at is None else [at]) + later:
            path = self._path(offset)
            try:
                fd = os.open(path, _OPEN)
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
            self.origin = self.origin or header.origin
            if self._files is not None:
                self._files.used(self)
            self.offset = max(self.offset, header.offset + begin)
            self.closed = False
            return True
        return False

    def _reopen(self) -> bool:
        """Open the segment that was closed for a while; tell whether it is still there."""
        assert self.header is not None
        try:
            self._fd = os.open(self._path(self.header.offset), _OPEN)
        except FileNotFoundError:
            return False
        return True

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
        if size in _LAST and self._ends_at(self.offset + 4):
            self.closed = size == wire.CLOSED
            self.offset = segment_end
            return True
        is_known = self._search.final and self._search.covers(self.offset)  # then no length need be believed
        if 8 + size > end and (self._search.next(self.offset) == self.offset if is_known else self._fits(size)):
            payload = os.pread(self._fd, 8 + size, self.offset - base)[8:]
            self._in_vain += size
            if len(payload) == size and crc32(payload, size) == head(data, 0)[1]:
                self.offset += 8 + size
                keep((self.offset, payload))
                return True
        return self._pass_over(gone, is_known=is_known)

    def _fits(self, size: int) -> bool:
        """Tell whether a record of this size can be at this offset."""
        assert self.header is not None
        room = self.header.offset + self.header.size - self.offset - wire.HEAD.size
        return 0 < size <= min(room, self._shape[1])

    def _filled_until(self, *, final: bool) -> int:
        """Return the offset behind the segment's last byte that is not zero; `final`: nobody writes there any more."""
        assert self._fd is not None
        assert self.header is not None
        base = self.header.offset
        if self._filled[0] != base:
            done = self.offset - base
            found = self.offset + len(os.pread(self._fd, self.header.size - done, done).rstrip(b"\0"))
            self._in_vain += found - self.offset
            if not final:
                return found
            self._filled = base, found
        return max(self.offset, self._filled[1])

    def _rolled_past(self) -> bool:
        """Tell whether the writer has begun two segments since, and so has finished this one."""
        assert self.header is not None
        return sum(offset > self.header.offset for offset in list_segments(self._directory, self._lane)) > 1

    def _pass_over(self, gone: bool, *, is_known: bool) -> bool:
        """Skip a hole or a damaged record, if a sound record follows or nothing can follow any more.

        While the writer lives, the record may still be completed. It counts as damaged only after a while, and when a
        sound record follows that was there for as long. `is_known`: it has not become sound since it was read.
        """
        assert self.header is not None
        segment_end = self.header.offset + self.header.size
        final = gone or self._rolled_past()  # asked before we read: if so, we get all that there will be
        until = self._filled_until(final=True) if final else self._old()
        if not is_known and self._is_sound_now():
            return True
        if not final and (until <= self.offset or (self.offset, until) == self._vain):
            return False
        found, searched = self._next_sound(until, final=final)
        if found is None and not final:
            self._vain = self.offset, until
            return False
        self.damaged += self.offset != self._counted and until > self.offset
        if found is None:
            found = self._counted = segment_end if searched >= until else searched  # there it is the same damage
        self.offset = found
        return True

    def _is_sound_now(self) -> bool:
        """Tell whether a whole record or an end mark is at our offset, though none was when it was read just before."""
        assert self._fd is not None
        assert self.header is not None
        at = self.offset - self.header.offset
        head = os.pread(self._fd, wire.HEAD.size, at)
        if len(head) < wire.HEAD.size:
            return False
        size, crc = wire.unpack_head(head)
        if size in _LAST:
            return self._ends_at(self.offset + 4)
        if not self._fits(size):
            return False
        payload = os.pread(self._fd, size, at + wire.HEAD.size)
        self._in_vain += size
        return len(payload) == size and bool(crc32(payload, size) == crc)

    def _old(self) -> int:
        """Return the offset before which all bytes are old enough to count as damaged, if they are not sound."""
        since, until = self._seen
        if time.monotonic() - since >= self._patience_s:
            self._old_until = max(self._old_until, until)
            self._seen = time.monotonic(), self._filled_until(final=False)
        return self._old_until

    def _next_sound(self, until: int, *, final: bool = False) -> tuple[int | None, int]:
        """Return the offset of the next sound record or end mark that begins before `until`, and how far it searched.

        `final`: nobody writes there any more, and `until` is behind its last byte. Then it searches one part only.
        """
        at = self.offset + 1
        while at < until:
            if not self._search.covers(at) or self._search.final != final:
                self._search = self._searched(at, min(at + _SEARCH_BYTES, until), final=final)
            if (found := self._search.next(at)) is not None:
                return found, found
            last = until - 4  # an end mark has only zeros behind it
            if self._search.covers(last) and at <= last and self._word(last) in _LAST and self._ends_at(until):
                return last, last
            at = self._search.end
            if final:
                break
        return None, at

    def _searched(self, begin: int, end: int, *, final: bool) -> _Search:
        assert self._fd is not None
        assert self.header is not None
        until = min(end + wire.HEAD.size + self._shape[1], self.header.offset + self.header.size)
        data = os.pread(self._fd, until - begin, begin - self.header.offset)
        self._in_vain += len(data)
        return _Search(begin, end, tuple(begin + at for at in sound_starts(data, end - begin, self._shape)), final)

    def _ends_at(self, offset: int) -> bool:
        """Tell whether there are only zeros behind an offset."""
        assert self._fd is not None
        assert self.header is not None
        at, end = offset - self.header.offset, self.header.size
        for until in (min(at + 64, end), end):  # mostly the first bytes tell
            data = os.pread(self._fd, until - at, at)
            if data.count(0) < len(data):
                return False
            at = until
        return True

    def _word(self, offset: int) -> int:
        assert self._fd is not None
        assert self.header is not None
        return int.from_bytes(os.pread(self._fd, 4, offset - self.header.offset), "little")


def written_until(directory: str, lane: str, offset: int, *, gone: bool = False, limit: int = 4 << 20) -> int:
    """Return the offset of a lane just behind all that is written by now, read or not, beginning to look at `offset`.

    Only the last segment is searched for that, and only to its end: its writer may write faster than anybody reads.
    """
    tail = Tail(directory, lane, max(offset, *list_segments(directory, lane)[-1:], 0))
    try:
        for _ in tail.read_until(tail.end(), gone=gone, limit=limit):
            pass
        return tail.offset
    finally:
        tail.shut()


def _flush(path: str) -> None:
    """Flush a file that is not open; nothing if its writer has dropped it."""
    try:
        fd = os.open(path, _OPEN)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
