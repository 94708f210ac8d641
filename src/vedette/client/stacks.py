"""Where the program was when it died: Python stacks, written in C, since a handler in Python would delay death.

What the program itself has set for SIGTERM or for crashes stands, whether it was set before us or after.
"""

import faulthandler
import os
import signal
from typing import IO, Any
from weakref import ref


class Stacks:
    """Has stacks written to a file `stacks` when SIGTERM comes, or when the program crashes."""

    def __init__(self) -> None:
        """Watch for nothing yet."""
        self._file: IO[str] | None = None
        self._terminated: ref[_Held] | None = None  # dead as soon as somebody has registered another file
        self._crashed: ref[_Held] | None = None

    def watch(self, directory: str) -> None:
        """Begin; who handles SIGTERM, or has crashes reported elsewhere, is left to it."""
        terminable = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        crashes = not faulthandler.is_enabled()
        if not terminable and not crashes:
            return
        try:
            self._file = open(os.path.join(directory, "stacks"), "w")  # noqa: SIM115 - open until death
            if terminable:
                held = _Held(self._file)
                faulthandler.register(signal.SIGTERM, file=held, all_threads=True, chain=True)
                self._terminated = ref(held)
            if crashes:
                held = _Held(self._file)
                faulthandler.enable(file=held, all_threads=True)
                self._crashed = ref(held)
        except (OSError, ValueError, RuntimeError, AttributeError):
            return

    def leave(self) -> None:
        """Put things back as they were, unless somebody has changed them meanwhile."""
        handled = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # to unregister would take that away
        if _holds(self._terminated) and not handled:
            faulthandler.unregister(signal.SIGTERM)
        if _holds(self._crashed):
            faulthandler.disable()
        self._terminated = self._crashed = None
        if self._file is not None:
            self._file.close()
            self._file = None


class _Held:
    """What faulthandler is given, and nobody else keeps: while it lives, faulthandler writes there."""

    def __init__(self, file: IO[str]) -> None:
        self.fileno = file.fileno
        self.flush = file.flush


def _holds(held: Any) -> bool:
    return held is not None and held() is not None
