"""A terminal with lines that scroll, and a few rows below that change.

The cursor always rests where the next line goes, above the changing rows: we draw the rows below it, and move the
cursor back. So the output of others, such as a child or C code, lands in the right place, a resize does no harm, and
a process that is killed leaves no hidden cursor behind.
"""

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Sequence

from vedette import kernel

# First the rest of this line, then all lines below: a terminal that clears a whole screen may save it in its history.
_CLEAR_BELOW = "\x1b[K\n\x1b[J\x1b[A"
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]|\x1b[78DM]")  # a program that moves the cursor draws by itself
_AGAIN_S = 0.03
_YIELD_S = 2.0
_HELD_S = 1.0
_DEFAULT_SIZE = (80, 24)


class Area:
    """Draws on the terminal behind a file descriptor; raises OSError when that is gone."""

    def __init__(
        self, fd: int, encoding: str = "utf-8", clock: Callable[[], float] = time.monotonic, *, raw: bool = False
    ) -> None:
        """`raw`: the terminal does not return to the left edge at a newline."""
        self.lock = threading.RLock()  # reentrant: a signal handler may print while we do
        self.occupied: Callable[[], bool] = lambda: False  # a program uses the whole screen
        self._fd = fd
        self._terminal = _identity(fd)
        self._encoding = encoding or "utf-8"
        self._clock = clock
        self._line_end = "\r\n" if raw else "\n"
        self._rows: list[str] = []
        self._drawn = 0
        self._drawn_at = 0.0
        self._open_line = False  # the program has printed a line without its newline
        self._reading = False  # it reads a line from the user, so the cursor must not move
        self._quiet_until = 0.0  # it draws by itself until then, so we do not
        self._held: list[str] = []  # lines that wait for the unfinished one to end
        self._held_since = 0.0

    @property
    def is_gone(self) -> bool:
        """Whether the descriptor is no longer this terminal, such as after a redirection."""
        try:
            return _identity(self._fd) != self._terminal
        except OSError:
            return True

    @property
    def size(self) -> tuple[int, int]:
        """The terminal's columns and lines."""
        try:
            columns, lines = os.get_terminal_size(self._fd)
        except OSError:
            return _DEFAULT_SIZE
        return columns or _DEFAULT_SIZE[0], lines or _DEFAULT_SIZE[1]

    def above(self, lines: Sequence[str]) -> None:
        """Print lines that scroll, each given without its newline."""
        with self.lock:
            if not self._held:
                self._held_since = self._clock()
            self._held += lines
            self._print()

    def below(self, rows: Sequence[str]) -> None:
        """Set the rows below; they must be no wider than the terminal, and fewer than its lines."""
        with self.lock:
            rows = list(rows)
            changed = rows != self._rows
            self._rows = rows
            if changed or self._held or bool(rows) != bool(self._drawn):
                self._print(draw=True)

    def make_room(self, text: str) -> None:
        """Erase the rows before the program itself prints a text. The caller must hold the lock."""
        if "\x1b" in text and _MOVES.search(text):
            self._quiet_until = self._clock() + _YIELD_S
        if self._drawn or self._held:
            self._print(hide=True)

    def go_on(self, text: str) -> None:
        """Draw the rows again after the program has printed a text. The caller must hold the lock."""
        if text:
            self._open_line = not text.endswith("\n")
        if self._rows or self._held:
            self._print()

    def read(self, on: bool, *, ended: bool = True) -> None:
        """Do not move the cursor while the program reads a line; lines that come meanwhile start on a new line.

        `ended`: the user ended the line with Enter; Ctrl-C and Ctrl-D leave it open.
        """
        with self.lock:
            self._reading = on
            self._open_line = on or not ended
            self._print(hide=on)

    def close(self) -> None:
        """Erase the rows, and print the lines that waited."""
        with self.lock:
            self._rows = []
            self._reading = False
            self._held_since = 0.0
            self._quiet_until = 0.0
            self.occupied = lambda: False
            self._print(draw=True)

    def _print(self, *, draw: bool = False, hide: bool = False) -> None:
        out = [_CLEAR_BELOW] if self._drawn else []
        if self.occupied():  # the cursor is still where we left it: a program that moves it prints first
            self._drawn = 0
            self._write("".join(out))
            return
        now = self._clock()
        if self._held and self._open_line and now - self._held_since >= _HELD_S and not hide:
            out.append("\n")
            self._open_line = False
        out += self._release()
        self._open_line = self._open_line or self._reading
        free = not self._open_line and now >= self._quiet_until and not hide
        if self._rows and free and (draw or now - self._drawn_at > _AGAIN_S):
            out.append("".join("\n" + row for row in self._rows) + f"\x1b[{len(self._rows)}A\r")
            self._drawn, self._drawn_at = len(self._rows), now
        elif out:
            self._drawn = 0
        self._write("".join(out))

    def _release(self) -> list[str]:
        """Return the lines that can be printed now."""
        if self._open_line:
            return []
        lines, self._held = self._held, []
        return [line + "\n" for line in lines]

    def _write(self, text: str) -> None:
        if text and self.is_gone:
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        data = memoryview(text.replace("\n", self._line_end).encode(self._encoding, "replace"))
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                kernel.wait((), [self._fd], 1.0)


def _identity(fd: int) -> tuple[int, int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino, found.st_rdev
