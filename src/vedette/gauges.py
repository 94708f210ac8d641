"""The progress of a process's bars, in a mapped file of its spool: an update is one store of eight bytes.

A store into the mapping survives a kill of the process. The file `progress` is a row of slots of 256 bytes. The first
slot has the file's magic; each other slot has `at` and `add` (float64, as in a Span; `at` is NaN if there is none),
the length and the checksum of a bar's id, and the id. `Gauges` writes the file. `read` is for the hub, which
reports the progress, and checks everything that it finds.
"""

import math
import mmap
import os
import stat
import struct
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol
from zlib import crc32

from vedette.fileio import open_private

FILE = "progress"
_MAGIC = b"vedette progress 1\n"
_SLOT = 256
_HEAD = struct.Struct("<II")  # length of the id, its checksum; zeros: the slot is free
_HEAD_AT, _ID_AT = 16, 24
_MOST_ID = 128
_FIRST_BYTES = mmap.ALLOCATIONGRANULARITY
_MOST_BYTES = _FIRST_BYTES * 255
_number = struct.Struct("<d").pack
_slot = struct.Struct("<ddII").unpack_from


class Numbers(Protocol):
    """An array of float64; a reader never sees half of a number."""

    def __setitem__(self, position: int, number: float, /) -> None:
        """Set one number."""


class Slot(NamedTuple):
    """Where one bar's numbers are: `at` is at `position`, and `add` at the next one."""

    numbers: Numbers
    position: int
    sheet: "Sheet"


class Gauges:
    """The slots of one process. The file about doubles when it is full, and slots that were given back are reused."""

    def __init__(self, *, mapped: bool) -> None:
        """Create no file yet; `mapped=False`: write each number by os.pwrite, where mappings are not safe."""
        self._mapped = mapped
        self.renew()

    def renew(self) -> None:
        """Forget every slot, in a fork child: the slots are the parent's."""
        self._lock = threading.RLock()
        self._size = 0
        self._free: list[tuple[Sheet, int]] = []

    def take(self, directory: str, id_: str) -> Slot:
        """Give a bar a new slot without progress; raise OSError when there is no room."""
        key = id_.encode()
        if not 0 < len(key) <= _MOST_ID:
            raise OSError(f"an id of {len(key)} bytes is too long")
        with self._lock:
            if not self._free:
                self._grow(os.path.join(directory, FILE))
            sheet, begin = self._free.pop()
            slot = Slot(sheet.numbers, begin // 8, sheet)
            slot.numbers[slot.position] = math.nan
            slot.numbers[slot.position + 1] = 0.0
            sheet.put(begin + _ID_AT, key)
            sheet.put(
                begin + _HEAD_AT, _HEAD.pack(len(key), crc32(key, len(key)))
            )  # last: from now on readers see the slot
            return slot

    def give_back(self, slot: Slot) -> None:
        """Free a slot, after its numbers were recorded as facts."""
        begin = slot.position * 8
        with self._lock:
            slot.sheet.put(begin + _HEAD_AT, bytes(_HEAD.size))
            self._free.append((slot.sheet, begin))

    def _grow(self, path: str) -> None:
        begin, size = self._size, self._size + _FIRST_BYTES
        if begin + size > _MOST_BYTES:
            raise OSError("there are too many progress bars at once")
        fd = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, begin, size)  # so that a full disk is an error here, and not a SIGBUS later
            sheet: Sheet = _Mapped(fd, begin, size) if self._mapped else _Plain(fd, begin)
        finally:
            os.close(fd)
        if begin == 0:
            sheet.put(0, _MAGIC)
        self._free += [(sheet, at) for at in reversed(range(0 if begin else _SLOT, size, _SLOT))]
        self._size += size


class Sheet(Protocol):
    """A part of the file, from one step of its growth."""

    numbers: Numbers

    def put(self, position: int, data: bytes) -> None:
        """Write bytes."""


class _Mapped:
    """Slots in a mapping of the file: what is stored there survives this process."""

    def __init__(self, fd: int, begin: int, size: int) -> None:
        self._bytes = mmap.mmap(fd, size, offset=begin)
        self.numbers: Numbers = memoryview(self._bytes).cast("d")

    def put(self, position: int, data: bytes) -> None:
        self._bytes[position : position + len(data)] = data


class _Plain:
    """Slots that are written by os.pwrite."""

    def __init__(self, fd: int, begin: int) -> None:
        self._fd = os.dup(fd)
        self._begin = begin
        self.numbers: Numbers = self

    def put(self, position: int, data: bytes) -> None:
        os.pwrite(self._fd, data, self._begin + position)

    def __setitem__(self, position: int, number: float) -> None:
        os.pwrite(self._fd, _number(number), self._begin + position * 8)

    def __del__(self) -> None:
        os.close(self._fd)


class GaugesFile(NamedTuple):
    """The content of a gauges file: its bytes, to detect changes, and (at, add) by id."""

    data: bytes = b""
    gauges: Mapping[str, tuple[float | None, float | None]] = MappingProxyType({})


def read(directory: str, before: GaugesFile) -> GaugesFile:
    """Return the gauges of a spool, or `before` itself when nothing has changed; a damaged file never raises.

    The process may be writing at the same time, so we read twice and take the lower numbers. When a slot passes to
    another bar, or a number is half-written, the result is too low for a moment, and never too high.
    """
    try:
        fd = os.open(os.path.join(directory, FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return before
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return before
        data = os.pread(fd, _MOST_BYTES, 0)
        if data == before.data:
            return before
        again = os.pread(fd, _MOST_BYTES, 0)
    except OSError:
        return before
    finally:
        os.close(fd)
    first, second = _slots(data), _slots(again)
    both = first.keys() & second.keys()
    unchanged = data if data == again else b""  # if it changed while we read, the next call must read it again
    return GaugesFile(unchanged, {id_: (_less(first, second, id_, 0), _less(first, second, id_, 1)) for id_ in both})


def _slots(data: bytes) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    if data[: len(_MAGIC)] != _MAGIC:
        return found
    for begin in range(_SLOT, len(data) - _SLOT + 1, _SLOT):
        at, add, length, crc = _slot(data, begin)
        if 0 < length <= _MOST_ID:
            key = data[begin + _ID_AT : begin + _ID_AT + length]
            if crc32(key, length) == crc:
                try:
                    found[key.decode()] = at, add
                except UnicodeDecodeError:
                    continue
    return found


def _less(
    first: dict[str, tuple[float, float]], second: dict[str, tuple[float, float]], id_: str, which: int
) -> float | None:
    least = min(first[id_][which], second[id_][which])
    return least if math.isfinite(least) and math.isfinite(second[id_][which]) else None
