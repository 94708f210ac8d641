"""The append-only files that a process writes; `tail.py` reads them.

A spool is a directory `<origin>/` of segments `<lane>.<offset>`. The offset counts the bytes of the lane: a segment of
size S that starts at offset P is followed by the one at P + S (decisions/003).

The writer appends with one memory copy and takes no lock. Only the roll to the next segment takes one. Nobody ever
truncates a segment.
"""

import errno
import os
import threading
import time
from collections.abc import Callable

import msgspec

from vedette import kernel, wire
from vedette.fileio import exists, file_size, make_directory, make_private_directory, unlink
from vedette.interrupts import is_of_handler, let_through
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin
from vedette.segment import (
    Header,
    Mapped,
    Segment,
    Unmapped,
    count_records,
    list_segments,
    pack_header,
    segment_name,
)

_SIZES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
_LEAST_SIZE = 16 << 10
_RETRY_S = 1.0
_END_BYTES = wire.END.to_bytes(4, "little")
_CLOSED_BYTES = wire.CLOSED.to_bytes(4, "little")


def _shut(_data: bytes) -> None:
    raise ValueError


class Lane:
    """One lane of a spool as its process writes it.

    Hot paths call `write(record)` and, on a ValueError that is not the user's (`let_through`), `roll(record)`; everyone
    else calls `append`.
    """

    __slots__ = (
        "_ended", "_lane", "_lock", "_offset", "_pending", "_retry_at", "_rolling", "_rolls", "_segment", "_spool",
        "_start", "lost", "write",
    )  # fmt: skip

    def __init__(self, spool: "Spool", lane: str) -> None:
        self._spool = spool
        self._lane = lane
        self.renew()

    def renew(self) -> None:
        """Begin without segments: at the start, and in a fork child."""
        self.write: Callable[[bytes], object] = _shut
        self.lost = 0  # records that could not be written
        self._segment: Segment | None = None
        self._start = 0  # where the segment that is written starts
        self._offset = 0  # where the next segment will start
        self._rolls = 0
        self._retry_at = 0.0
        self._lock = threading.RLock()  # a signal handler may log while its own thread rolls
        self._rolling = False
        self._pending: list[bytes] = []
        self._ended: list[Segment] = []

    def append(self, record: bytes) -> None:
        """Write a framed record. After this has returned, only a lost disk can lose it, or `lost` counts it."""
        try:
            self.write(record)
        except ValueError as error:
            let_through(error)
            self.roll(record)

    def roll(self, record: bytes) -> None:
        """Write a record that did not fit to the next segment."""
        with self._lock:
            self._pending.append(record)
            if self._rolling:  # a signal handler interrupted a roll of this thread, which will write it
                return
            self._write_pending()

    def _write_pending(self) -> None:
        """Write all records that wait. An error of a signal handler gets out; the rest then waits for the next roll."""
        self._rolling = True
        try:
            while self._pending:
                self._write_first()
        finally:
            self._rolling = False

    def _write_first(self) -> None:
        record = self._pending[0]
        while True:
            try:
                self.write(record)
                break
            except ValueError as error:
                if is_of_handler(error):
                    del self._pending[0]
                    raise
            except BaseException:  # Ctrl-C, or a handler's, too: Python runs handlers after a call, so it is written
                del self._pending[0]
                raise
            if not self._next_segment(len(record)):
                self.lost += 1
                break
        del self._pending[0]

    def _next_segment(self, need: int) -> bool:
        if self._retry_at and time.monotonic() < self._retry_at:
            return False
        try:
            self._spool.look_after()
            header = Header(self._lane, self._offset, 0, self._spool.origin)
            least = len(pack_header(header)) + 16 + wire.HEAD.size + need
            size = self._spool.make_room(_SIZES[min(self._rolls, len(_SIZES) - 1)], least, self._lane)
            segment = self._spool.make_segment(msgspec.structs.replace(header, size=size))
        except OSError as error:
            let_through(error)
            self._retry_at = time.monotonic() + _RETRY_S
            self._spool.trouble = error.strerror or str(error)
            return False
        self._retry_at = 0.0
        self._rolls += 1
        if self._segment is not None:
            self._ended.append(self._segment)
        self._segment, self._start, self._offset = segment, self._offset, self._offset + size
        self.write = segment.write
        self._finish_ended()  # last, so that the next roll completes one that was interrupted
        self._spool.on_roll()
        return True

    def is_removed(self) -> bool:
        """Tell whether the file that is written is no longer there: a hub never removes the last one of a lane."""
        return self._segment is not None and not exists(self._spool.path(self._lane, self._start))

    def leave_segment(self) -> None:
        """Begin a new segment with the next record, because the file of this one was removed."""
        with self._lock:
            self._segment, self.write = None, _shut

    def _finish_ended(self) -> None:
        while self._ended:
            self._ended[-1].finish(_END_BYTES)
            self._ended.pop()

    def close(self) -> None:
        """Write that nothing will follow. A later append begins a new segment."""
        with self._lock:
            if self._pending and not self._rolling:  # a roll was interrupted
                self._write_pending()
            self._finish_ended()
            if self._segment is not None:
                self._segment.finish(_CLOSED_BYTES)
                self._segment, self.write = None, _shut  # the mapping goes with its last user


class Spool:
    """The directory of one origin, with two lanes. `on_roll` is called after a segment was begun."""

    def __init__(
        self,
        root: str,
        make_origin: Callable[[], Origin],
        cap_bytes: int,
        cap_share: float,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Touch no file yet: directory and origin are made with the first record.

        `cap_bytes`, `cap_share`: how much it may take, in bytes and as a share of the free disk. `prepare` makes the
        root directory, or raises OSError.
        """
        self.root = root
        self._prepare = prepare
        self._make_origin = make_origin
        self._origin: Origin | None = None
        self.trouble = ""
        self.on_roll: Callable[[], None] = lambda: None
        self.on_removed: Callable[[], None] = lambda: None  # called when somebody has removed what was written
        self.dropped = 0  # records in segments that were dropped at the cap; a hub may have read some of them
        self.dropped_segments: list[int] = []  # where each of these began and ended, and how many records it had
        self._cap_bytes = cap_bytes
        self._cap_share = cap_share
        self._room = threading.RLock()  # for what concerns both lanes
        self._mapped = kernel.file_system(root) in kernel.MAPPABLE_FILE_SYSTEMS
        self.facts = Lane(self, LANE_FACTS)
        self.samples = Lane(self, LANE_SAMPLES)

    @property
    def origin(self) -> Origin:
        """Whose spool it is."""
        if self._origin is None:
            with self._room:  # both lanes may begin at once
                self._origin = self._origin or self._make_origin()
        return self._origin

    @property
    def directory(self) -> str:
        """The directory of the segments."""
        return os.path.join(self.root, self.origin.name)

    @property
    def mapped(self) -> bool:
        """Whether its files may be written through memory."""
        return self._mapped

    @property
    def lost(self) -> int:
        """How many records could not be written, or were dropped."""
        return self.facts.lost + self.samples.lost + self.dropped

    def renew(self) -> None:
        """Begin again with a new origin: in a fork child. The parent goes on with the old one."""
        self._origin = None
        self._room = threading.RLock()
        self.dropped = 0
        self.dropped_segments = []
        self.trouble = ""
        self.facts.renew()
        self.samples.renew()

    def make_segment(self, header: Header) -> Segment:
        """Make the file of a segment, whole or not at all."""
        path = os.path.join(self.directory, segment_name(header.lane, header.offset))
        make = Mapped.make if self._mapped else Unmapped
        if exists(path):  # an interrupt came just after it was made: it has no records yet
            return Mapped.adopt(path) if self._mapped else Unmapped(path, header.size, adopted=True)
        try:
            try:
                segment = make(path + ".new", header.size)
            except FileNotFoundError:
                self._prepare()
                make_directory(self.root, 0o700)
                make_private_directory(self.directory)
                segment = make(path + ".new", header.size)
        except OSError:
            unlink(path + ".new")
            raise
        try:
            segment.write(pack_header(msgspec.structs.replace(header, locked=segment.locked)))
        except ValueError as error:
            let_through(error)
            unlink(path + ".new")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        os.rename(path + ".new", path)
        return segment

    def make_room(self, wanted: int, least: int, lane: str) -> int:
        """Return the size that the next segment may have under the cap; drop the oldest samples if need be.

        Raise OSError if a segment of facts does not fit then. A quarter of the cap is a reserve, and two kinds of
        segments may use it: the first one of a lane, and one of samples when all older samples are dropped.
        """
        with self._room:
            used = {
                (part, offset): file_size(self.path(part, offset))
                for part in (LANE_FACTS, LANE_SAMPLES)
                for offset in list_segments(self.directory, part)
            }
            total = sum(used.values())
            try:
                disk = os.statvfs(self.root)
                cap = min(self._cap_bytes, int((disk.f_bavail * disk.f_frsize + total) * self._cap_share))
            except OSError as error:
                let_through(error)
                cap = self._cap_bytes
            size = max(min(wanted, cap // 8), _LEAST_SIZE, -(-least // 4096) * 4096)
            soft = cap - cap // 4
            older = sorted(key for key in used if key[0] == LANE_SAMPLES)[:-1]  # the last is still being written to
            first = lane not in [part for part, _ in used]
            if lane == LANE_FACTS and not first and total + size - sum(used[key] for key in older) > soft:
                raise OSError("the spool is at its cap")
            while total + size > soft and older:
                oldest = older.pop(0)
                count = count_records(self.path(*oldest))
                self.dropped_segments += [oldest[1], oldest[1] + used[oldest], count]
                self.dropped += count
                self.trouble = "the spool was at its cap, so the oldest samples were dropped"
                unlink(self.path(*oldest))
                total -= used[oldest]
            return size

    def look_after(self) -> None:
        """Go on in new files if those that are written were removed: nobody would ever read what is written to them."""
        if self.facts.is_removed() or self.samples.is_removed():
            self.facts.leave_segment()
            self.samples.leave_segment()
            self.on_removed()

    def path(self, lane: str, offset: int) -> str:
        """Return the path of the segment of a lane that starts at an offset."""
        return os.path.join(self.directory, segment_name(lane, offset))

    def close(self) -> None:
        """Write that nothing will follow."""
        self.samples.close()
        self.facts.close()
