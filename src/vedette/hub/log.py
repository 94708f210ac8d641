"""The hub's log file: stderr is redirected to it when a process starts the hub. It stays small."""

import contextlib
import os
import sys
import time

from vedette.fileio import open_private

_MOST_BYTES = 1 << 20
_REPEAT_S = 60.0  # the same sentence is written once in this time


class Log:
    """Writes what goes wrong, one sentence per line. The disk that it is on may be full: that is no error."""

    def __init__(self, path: str) -> None:
        """`path` is the file that stderr goes to; it need not exist."""
        self._path = path
        self._last = ("", 0.0)

    def trim(self) -> None:
        """Empty the file if it has grown large."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_size > _MOST_BYTES:
                os.close(open_private(self._path, os.O_WRONLY | os.O_TRUNC))

    def complain(self, text: str) -> None:
        """Write a sentence, unless it was the last one and was written a short time ago."""
        sentence, written_s = self._last
        if text == sentence and time.monotonic() - written_s < _REPEAT_S:
            return
        self._last = text, time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"vedette hub: {text}\n")
            sys.stderr.flush()
