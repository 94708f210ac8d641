"""What sensors are made of: a file of the kernel's that stays open, and a counter that never falls."""

import contextlib
import os
from collections.abc import Mapping

_MOST_BYTES = 1 << 20
_MOST_NUMBER = 1 << 63


class OpenFile:
    """A file under /proc or /sys that is read again and again; where it cannot be opened, each read tries anew."""

    def __init__(self, path: str, size: int = 1 << 14) -> None:
        """Open nothing yet. `size`: what it is likely to hold at most."""
        self.path = path
        self._size = size
        self._fd = -1

    def read(self) -> bytes:
        """Return what stands in it now; empty where it cannot be read."""
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            data = os.pread(self._fd, self._size, 0)
            while len(data) == self._size < _MOST_BYTES:
                self._size *= 2
                data = os.pread(self._fd, self._size, 0)
        except (OSError, ValueError):  # a NUL in a path is the latter
            self.close()
            return b""
        return data

    def close(self) -> None:
        """Let go of it; the next read opens it again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # the program that we live in has closed all that it did not know
                os.close(fd)

    def __del__(self) -> None:
        self.close()


class Counter:
    """A number that only grows, made of one that may begin again from zero, as that of a device put in again does."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.total = 0
        self._last: int | None = None

    def take(self, now: int) -> int:
        """Hear how it stands, and return what it has grown by; the first time, nothing has."""
        before, self._last = self._last, now
        if before is None:
            self.total += now
            return 0
        grown = now - before if now >= before else now
        self.total += grown
        return grown


def number(word: bytes) -> int:
    """Return a whole number that the kernel wrote, not below 0; raises ValueError for anything else."""
    if not word.isdigit() or len(word) > 25:  # 2**64 has 20 digits
        raise ValueError(word)
    return int(word)


def sound(values: Mapping[str, float | int | None]) -> dict[str, float | int]:
    """Return those numbers that are there and can be kept: what a damaged file makes of them may be beyond that."""
    return {name: value for name, value in values.items() if value is not None and 0 <= value < _MOST_NUMBER}
