"""The console beside a command: it shows the log lines and the progress of the run in the command's own terminal.

The command's output passes unchanged. The console draws nothing while the command has an unfinished line, moves the
cursor, uses the whole screen, or reads single keys.
"""

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vedette.client import faults, screen
from vedette.client.run import Run
from vedette.settings import Settings

if TYPE_CHECKING:
    from vedette.attached.console import Attached

_WHOLE_SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")


class Beside:
    """The console of one command. It starts in a thread of its own, so that the command does not wait for it."""

    def __init__(self, run: Run, settings: Settings, drawn: set[str], takes_keys: Callable[[], bool]) -> None:
        """`drawn`: the bars that the command draws itself; `takes_keys`: it reads its keyboard key by key."""
        self._run, self._settings, self._drawn, self._takes_keys = run, settings, drawn, takes_keys
        self._console: Attached | None = None
        self._whole_screen = False
        self._lock = threading.Lock()
        self._over = False

    def begin(self) -> None:
        """Start the console, if one is wanted."""
        if screen.wanted(self._settings.console.mode, sys.stderr, os.environ) and sys.stderr.isatty():
            threading.Thread(target=self._open, name="vedette console", daemon=True).start()

    def _open(self) -> None:
        try:
            from vedette.access.home_access import HomeAccess
            from vedette.attached.console import Attached

            console = Attached(self._run, HomeAccess.of(self._settings), sys.stderr, beside=True)
            console.leave_alone(self._drawn, self._is_occupied)
            with self._lock:
                if not self._over:
                    console.start(hello=False)
                    self._console = console
        except Exception as error:  # whatever it is: the command goes on
            faults.swallow(error, "the console")

    def _is_occupied(self) -> bool:
        return self._whole_screen or self._takes_keys()

    @contextlib.contextmanager
    def around(self, _name: str, data: bytes) -> Iterator[None]:
        """Make room while the command prints."""
        found = _WHOLE_SCREEN.findall(data)
        console = self._console
        with console.around(sys.stderr, data.decode("utf-8", "replace")) if console else contextlib.nullcontext():
            # Set before the command enters the whole screen, cleared after it leaves: what we print there is lost.
            self._whole_screen = self._whole_screen or b"h" in found
            yield
            if found:
                self._whole_screen = found[-1] == b"h"

    def close(self, name: str, state: str, cause: str) -> None:
        """Close the console."""
        with self._lock:
            self._over = True
        if self._console is not None:
            self._console.close(name, state, cause)
