"""A file that whole lines are appended to: one write for each piece, which no other writer's can come into.

What a full disk tears is cut off again, and a file that was rotated away, or removed, is made anew.
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
    """Appends to the file of a path. What `append` has returned from, only a lost disk loses."""

    def __init__(self, path: str) -> None:
        """Open it; raise SettingError, in a sentence, when that cannot be done."""
        self.path = os.path.abspath(os.path.expanduser(path))  # the program may change its directory later
        try:
            self._open()
        except OSError as error:
            raise SettingError(f"{path} cannot be written to: {_why(error, self.path)}") from None

    def _open(self) -> None:
        self._fd = -1
        self._fd = os.open(self.path, _FLAGS, 0o644)
        status = os.fstat(self._fd)
        self.is_new = status.st_size == 0  # nothing was written to this file yet, by anybody
        self._regular = stat.S_ISREG(status.st_mode)
        self._torn = not self.is_new and self._regular and not self._ends_in_line()
        self._rest = b""  # what a pipe has not taken of the last piece

    def _ends_in_line(self) -> bool:
        try:
            with open(self.path, "rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read(1) == b"\n"
        except OSError:  # one may write and not read it
            return True

    def look(self) -> bool:
        """Make sure that the file is the one that goes by the path, and tell whether it is another than before.

        Raise OSError when there can be none.
        """
        if self._fd >= 0 and not self._is_open():
            self._fd = -1
        if self._fd < 0:
            self._open()
            return True
        if self._regular:
            held = os.fstat(self._fd)
            try:
                here = os.stat(self.path)
                same = (here.st_dev, here.st_ino) == (held.st_dev, held.st_ino)
            except PermissionError:  # the program has become another user, and may still write
                same = True
            except FileNotFoundError:
                same = False
            if not same:
                self.close()
                self._open()
                return True
            self.is_new = held.st_size == 0  # another has begun it, or it was emptied
        return False

    def _is_open(self) -> bool:
        try:
            os.fstat(self._fd)
        except OSError:  # the program that we live in has closed what it did not know
            return False
        return True

    def append(self, data: bytes) -> None:
        """Append whole lines by one write; raise OSError when they are not there, and then none of them is."""
        whole = (b"\n" if self._torn else b"") + self._rest + data
        written = os.write(self._fd, whole)
        if written == len(whole):
            self.is_new = self._torn = False
            self._rest = b""
        elif not self._regular:
            self._rest = whole[written:]
        else:
            self._cut(written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def _cut(self, written: int) -> None:
        """Take back the piece of a line that the disk had room for, unless another has written behind it already."""
        end = os.lseek(self._fd, 0, os.SEEK_CUR)
        self._torn = True
        if os.fstat(self._fd).st_size == end:
            try:
                os.ftruncate(self._fd, end - written)
                self._torn = False
            except OSError:
                pass

    @contextlib.contextmanager
    def held(self, tries: int = 10, pause_s: float = 0.002) -> Iterator[None]:
        """Keep out others who hold it so, too; after some tries go on without, as one of them may have been stopped."""
        try:
            import fcntl  # noqa: PLC0415 - not on every system
        except ImportError:
            yield
            return
        fd, held = self._fd, False
        while not held and tries:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except OSError:
                tries -= 1
                time.sleep(pause_s)
        try:
            yield
        finally:
            if held:
                with contextlib.suppress(OSError):  # it was rotated away meanwhile, and is closed
                    fcntl.flock(fd, fcntl.LOCK_UN)

    def head(self) -> str:
        """Return what the file begins with."""
        try:
            with open(self.path, encoding="utf-8", errors="replace", newline="") as file:
                return file.read(1 << 20)
        except OSError:
            return ""

    def close(self) -> None:
        """Let go of the file."""
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
