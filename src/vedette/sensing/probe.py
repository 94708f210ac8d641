"""The parts of most sensors: a kernel file that stays open, and a counter that never decreases."""

import contextlib
import os
from collections.abc import Mapping

_MOST_BYTES = 1 << 20
_MOST_NUMBER = 1 << 63


class OpenFile:
    """A file under /proc or /sys that is read again and again; if it cannot be opened, each read tries again."""

    def __init__(self, path: str, size: int = 1 << 14) -> None:
        """The file is opened at the first read. `size`: the bytes that it usually has at most."""
        self.path = path
        self._size = size
        self._fd = -1

    def read(self) -> bytes:
        """Return its present content; empty if it cannot be read."""
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            data = os.pread(self._fd, self._size, 0)
            while len(data) == self._size < _MOST_BYTES:
                self._size *= 2
                data = os.pread(self._fd, self._size, 0)
        except (OSError, ValueError):  # ValueError: a NUL in the path
            self.close()
            return b""
        return data

    def close(self) -> None:
        """Close it; the next read opens it again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # the user's program may have closed it already
                os.close(fd)

    def __del__(self) -> None:
        self.close()


class Counter:
    """A total that never decreases, from a counter that may restart at 0, such as when a device is plugged in again."""

    def __init__(self) -> None:
        """Start at 0."""
        self.total = 0
        self._last: int | None = None

    def take(self, now: int) -> int:
        """Add the counter's present value, and return its growth since the last one; the first time 0."""
        before, self._last = self._last, now
        if before is None:
            self.total += now
            return 0
        grown = now - before if now >= before else now
        self.total += grown
        return grown


def number(word: bytes) -> int:
    """Parse a whole number of 0 or more, as the kernel writes it; raise ValueError for anything else."""
    if not word.isdigit() or len(word) > 25:  # 2**64 has 20 digits
        raise ValueError(word)
    return int(word)


def sound(values: Mapping[str, float | int | None]) -> dict[str, float | int]:
    """Leave out values that are None or out of range; a damaged file may give any number."""
    return {name: value for name, value in values.items() if value is not None and 0 <= value < _MOST_NUMBER}
