"""A terminal that a test can type into and read back: a tmux server of its own, with one window."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import vedette

_SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(vedette.__file__)))


def why_not() -> str:
    """Return why tmux cannot be used here; empty if it can."""
    return "" if shutil.which("tmux") else "tmux is not installed: apt-get install tmux"


class Terminal:
    """One window, with a shell in it."""

    def __init__(self, socket: str, columns: int, lines: int, environ: dict[str, str]) -> None:
        self._socket = socket
        # Unbuffered, a forked child's line comes out in pieces, and the parent may draw between them.
        dropped = ("VEDETTE_", "TMUX", "PYTHONUNBUFFERED")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        ours = {"PYTHONPATH": _SOURCE, "PS1": "$ ", "LC_ALL": "C.UTF-8", "TZ": "UTC", "VEDETTE_CAPTURE_ENABLE": "false"}
        self._environ = {**kept, **ours, **environ}
        self._do("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh")
        self._do("set-option", "-g", "status", "off")
        self.resize(columns, lines)

    def _do(self, *args: str) -> str:
        argv = ["tmux", "-u", "-L", self._socket, *args]
        return subprocess.run(argv, env=self._environ, check=True, capture_output=True, text=True).stdout

    def run(self, script: Any, *args: str) -> None:
        """Start a Python script, or `-m vedette ...`, as a user would type it."""
        self.type(shlex.join([sys.executable, str(script), *args]), "Enter")

    def type(self, *keys: str) -> None:
        """Type keys, each a text or a name such as Enter."""
        self._do("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        self._do("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self, *, history: bool = False) -> list[str]:
        """Return the lines on the screen, without the blank lines at the end."""
        text = self._do("capture-pane", "-p", *(["-S", "-", "-J"] if history else []))
        return text.rstrip("\n").split("\n")

    def wait_for(self, text: str, seconds: float = 30.0) -> list[str]:
        """Wait until a text is on the screen; return the screen."""
        deadline = time.monotonic() + seconds
        while text not in "\n".join(screen := self.screen()):
            assert time.monotonic() < deadline, f"{text!r} is not on the screen:\n" + "\n".join(screen)
            time.sleep(0.05)
        return screen

    def title(self) -> str:
        """Return the window's title."""
        return self._do("display-message", "-p", "#{pane_title}").strip()

    def end(self) -> None:
        """End the terminal, and all in it."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True)


@contextmanager
def terminal(columns: int = 100, lines: int = 30, **environ: str) -> Iterator[Terminal]:
    """Open a terminal; it ends with the block."""
    opened = Terminal(f"vedette-{os.getpid()}-{time.monotonic_ns()}", columns, lines, environ)
    try:
        yield opened
    finally:
        opened.end()
