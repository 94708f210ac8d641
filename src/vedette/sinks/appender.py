"""Appends whole lines to a file. Each append is one write, so the lines of several writers never mix.

If the disk is full, a partial line is removed again. If the file was rotated away or removed, a new one is made.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator

from vedette.errors import SettingError

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FLAGS |= getattr(os, "O_BINARY", 0)


class Appender:
    """Appends to the file at a path. When `append` has returned, the operating system has the data."""

    def __init__(self, path: str) -> None:
        """Open the file; raise SettingError, with a sentence, if that fails."""
        self.path = os.path.abspath(os.path.expanduser(path))  # the program may change its directory later
        try:
            self._open()
        except OSError as error:
            raise SettingError(f"{path} cannot be written to: {_why(error, self.path)}") from None

    def _open(self) -> None:
        self._fd = -1
        self._fd = os.open(self.path, _FLAGS, 0o644)
        status = os.fstat(self._fd)
        self.is_new = status.st_size == 0  # the file is empty
        self._regular = stat.S_ISREG(status.st_mode)
        self._has_partial_line = not self.is_new and self._regular and not self._ends_in_line()
        self._unwritten = b""  # the part of the last append that a pipe has not taken

    def _ends_in_line(self) -> bool:
        try:
            with open(self.path, "rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read(1) == b"\n"
        except OSError:  # we may write to it, but not read it
            return True

    def reopen_if_replaced(self) -> bool:
        """Open the file again if another one is at the path now; tell whether that was so.

        Raise OSError if the file cannot be opened.
        """
        if self._fd >= 0 and not self._is_open():
            self._fd = -1
        if self._fd < 0:
            self._open()
            return True
        if self._regular:
            opened = os.fstat(self._fd)
            try:
                at_path = os.stat(self.path)
                same = (at_path.st_dev, at_path.st_ino) == (opened.st_dev, opened.st_ino)
            except PermissionError:  # the program has changed its user; our descriptor still works
                same = True
            except FileNotFoundError:
                same = False
            if not same:
                self.close()
                self._open()
                return True
            self.is_new = opened.st_size == 0  # another process may have written to it or emptied it
        return False

    def _is_open(self) -> bool:
        try:
            os.fstat(self._fd)
        except OSError:  # the user's program has closed our descriptor
            return False
        return True

    def append(self, data: bytes) -> None:
        """Append whole lines by one write; raise OSError if that fails, and then no line was added."""
        whole = (b"\n" if self._has_partial_line else b"") + self._unwritten + data
        written = os.write(self._fd, whole)
        if written == len(whole):
            self.is_new = self._has_partial_line = False
            self._unwritten = b""
        elif not self._regular:
            self._unwritten = whole[written:]
        else:
            self._remove_partial_line(written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def _remove_partial_line(self, written: int) -> None:
        """Remove a partly written line from the end, unless another process has written behind it already."""
        end = os.lseek(self._fd, 0, os.SEEK_CUR)
        self._has_partial_line = True
        if os.fstat(self._fd).st_size == end:
            try:
                os.ftruncate(self._fd, end - written)
                self._has_partial_line = False
            except OSError:
                pass

    @contextlib.contextmanager
    def locked(self, tries: int = 10, pause_s: float = 0.002) -> Iterator[None]:
        """Hold the file's lock; after some tries go on without it, because its holder may have been stopped."""
        try:
            import fcntl  # noqa: PLC0415 - not on every system
        except ImportError:
            yield
            return
        fd, locked = self._fd, False
        while not locked and tries:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
            except OSError:
                tries -= 1
                time.sleep(pause_s)
        try:
            yield
        finally:
            if locked:
                with contextlib.suppress(OSError):  # the file was replaced meanwhile, and is closed
                    fcntl.flock(fd, fcntl.LOCK_UN)

    def beginning(self) -> str:
        """Return the beginning of the file as text."""
        try:
            with open(self.path, encoding="utf-8", errors="replace", newline="") as file:
                return file.read(1 << 20)
        except OSError:
            return ""

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _why(error: OSError, path: str) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no directory {os.path.dirname(path)}"
    if error.errno == errno.ENXIO:
        return "it is a pipe that nobody reads from"
    return error.strerror or str(error)
