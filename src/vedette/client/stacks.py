"""Writes the Python stacks when the program dies. faulthandler does it in C: a handler in Python would delay the end.

We never replace a handler that the program itself has set for SIGTERM or crashes, before us or after.
"""

import faulthandler
import os
import signal
from typing import IO, Any
from weakref import ref


class Stacks:
    """Has faulthandler write the stacks to a file `stacks` on SIGTERM or on a crash."""

    def __init__(self) -> None:
        """Watch for nothing yet."""
        self._file: IO[str] | None = None
        self._terminated: ref[_StackFile] | None = None  # dead once somebody else has registered a file
        self._crashed: ref[_StackFile] | None = None

    def watch(self, directory: str) -> None:
        """Begin, except for what the program handles itself: SIGTERM, or crashes by its own faulthandler."""
        on_sigterm = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        on_crash = not faulthandler.is_enabled()
        if not on_sigterm and not on_crash:
            return
        try:
            self._file = open(os.path.join(directory, "stacks"), "w")  # noqa: SIM115 - open until death
            if on_sigterm:
                file = _StackFile(self._file)
                faulthandler.register(signal.SIGTERM, file=file, all_threads=True, chain=True)
                self._terminated = ref(file)
            if on_crash:
                file = _StackFile(self._file)
                faulthandler.enable(file=file, all_threads=True)
                self._crashed = ref(file)
        except (OSError, ValueError, RuntimeError, AttributeError):
            return

    def stop(self) -> None:
        """Undo `watch`, except where somebody has changed the handlers meanwhile."""
        handled = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # unregister() would remove that handler
        if _is_alive(self._terminated) and not handled:
            faulthandler.unregister(signal.SIGTERM)
        if _is_alive(self._crashed):
            faulthandler.disable()
        self._terminated = self._crashed = None
        if self._file is not None:
            self._file.close()
            self._file = None


class _StackFile:
    """The file object that only faulthandler refers to: while it lives, faulthandler uses it."""

    def __init__(self, file: IO[str]) -> None:
        self.fileno = file.fileno
        self.flush = file.flush


def _is_alive(file: Any) -> bool:
    return file is not None and file() is not None
