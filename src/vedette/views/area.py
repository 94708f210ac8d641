"""A terminal with lines that stay above and a few that change below.

The cursor always rests where the next line goes, above what changes: it is drawn further down, and the cursor moved
back. So whatever else writes to the terminal, a child or C code, comes out where it should, a resize has nothing to
disturb, and a process that is killed leaves no hidden cursor behind.
"""

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Sequence

from vedette import kernel

# The rest of this line, and then from the next one on: who is told to clear a whole screen may put it into its history.
_CLEAR_BELOW = "\x1b[K\n\x1b[J\x1b[A"
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]|\x1b[78DM]")  # who moves the cursor draws something of its own
_AGAIN_S = 0.03
_YIELD_S = 2.0
_HELD_S = 1.0
_DEFAULT_SIZE = (80, 24)


class Area:
    """Draws on the terminal behind a file descriptor; raises OSError when that is gone."""

    def __init__(
        self, fd: int, encoding: str = "utf-8", clock: Callable[[], float] = time.monotonic, *, raw: bool = False
    ) -> None:
        """`raw`: the terminal does not begin a new line at its left by itself."""
        self.lock = threading.RLock()  # a signal's handler may print while we do
        self.occupied: Callable[[], bool] = lambda: False  # a program has the whole screen to itself
        self._fd = fd
        self._terminal = _identity(fd)
        self._encoding = encoding or "utf-8"
        self._clock = clock
        self._line_end = "\r\n" if raw else "\n"
        self._rows: list[str] = []
        self._drawn = 0
        self._drawn_at = 0.0
        self._open_line = False  # the program has printed a line that it has not ended
        self._reading = False  # it reads a line that is typed: the cursor is where that goes
        self._quiet_until = 0.0  # it draws itself: keep out of its way
        self._held: list[str] = []  # lines that wait for the open one to end
        self._held_since = 0.0

    @property
    def is_gone(self) -> bool:
        """Whether the program leads its output elsewhere by now."""
        try:
            return _identity(self._fd) != self._terminal
        except OSError:
            return True

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        try:
            columns, lines = os.get_terminal_size(self._fd)
        except OSError:
            return _DEFAULT_SIZE
        return columns or _DEFAULT_SIZE[0], lines or _DEFAULT_SIZE[1]

    def above(self, lines: Sequence[str]) -> None:
        """Print lines that stay, each without its newline."""
        with self.lock:
            if not self._held:
                self._held_since = self._clock()
            self._held += lines
            self._print()

    def below(self, rows: Sequence[str]) -> None:
        """Change what is below; the rows are no wider than the terminal, and fewer than it has lines."""
        with self.lock:
            rows = list(rows)
            changed = rows != self._rows
            self._rows = rows
            if changed or self._held or bool(rows) != bool(self._drawn):
                self._print(draw=True)

    def make_room(self, text: str) -> None:
        """Take away what is below: the program itself prints a text here, as it is. Who calls this has the lock."""
        if "\x1b" in text and _MOVES.search(text):
            self._quiet_until = self._clock() + _YIELD_S
        if self._drawn or self._held:
            self._print(hide=True)

    def go_on(self, text: str) -> None:
        """Put everything back: a text has been printed."""
        if text:
            self._open_line = not text.endswith("\n")
        if self._rows or self._held:
            self._print()

    def read(self, on: bool, *, ended: bool = True) -> None:
        """Leave the cursor alone while the program has a line typed; lines that come in between begin anew.

        `ended`: the line was; Ctrl-C and Ctrl-D leave it open.
        """
        with self.lock:
            self._reading = on
            self._open_line = on or not ended
            self._print(hide=on)

    def close(self) -> None:
        """Take what is below away; lines that waited come out."""
        with self.lock:
            self._rows = []
            self._reading = False
            self._held_since = 0.0
            self._quiet_until = 0.0
            self.occupied = lambda: False
            self._print(draw=True)

    def _print(self, *, draw: bool = False, hide: bool = False) -> None:
        if self.occupied():
            return
        now = self._clock()
        out = [_CLEAR_BELOW] if self._drawn else []
        if self._held and self._open_line and now - self._held_since >= _HELD_S:
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
        """Return the lines that may come out now."""
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
