"""What a process has said of itself: in facts about its own span, and in files beside its segments."""

import os
from collections.abc import Mapping

from vedette.model import LEAVING, Span, Value
from vedette.segment import EXIT_CODE, STACKS

_MOST_CHARS = 200_000


class AboutProcess:
    """What the process of one spool has said of itself, as far as it was read."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.state = ""  # as it said last
        self.left_t = 0  # when it said that it leaves
        self.exit_text = self.told = self.mishap = ""  # as in `Evidence`
        self.usage_s: float | None = None  # how often it asks to be measured; 0: never, None: it did not say
        self.launches = False  # it is `vedette run`, which launches a command
        self.terminal: Value = None  # where it draws bars
        self._exit_code: int | None = None

    def note(self, span: Span) -> None:
        """Take in a fact about it."""
        self.state = span.state or self.state
        self.left_t = span.t if span.state == LEAVING else self.left_t
        code = span.attrs.get("exit_code", self._exit_code)
        self._exit_code = code if isinstance(code, int) else None
        self.terminal = span.attrs.get("terminal", self.terminal)
        self.exit_text = str(span.attrs.get("exit_text", self.exit_text))
        self.told = str(span.attrs.get("told", self.told))
        self.mishap = str(span.attrs.get("mishap", self.mishap))
        self.launches = self.launches or span.attrs.get("launches") is True
        if (wished := wished_s(span.attrs)) is not None:
            self.usage_s = wished

    def exit_code(self) -> int | None:
        """Return its exit code, after its death, as it knew it; None when it did not know."""
        if self.state != LEAVING:
            return None
        try:
            with open(os.path.join(self._directory, EXIT_CODE), "rb") as file:
                code = file.read(1)
        except OSError:
            code = b""
        return code[0] if code else self._exit_code

    def exit_t(self) -> int:
        """Return when it wrote down its exit code; 0 when it did not."""
        try:
            found = os.stat(os.path.join(self._directory, EXIT_CODE))
        except OSError:
            return 0
        return found.st_mtime_ns if found.st_size else 0

    def stacks(self) -> str:
        """Return the stacks that it wrote on SIGTERM or on a crash; empty when there are none."""
        try:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(os.path.join(self._directory, STACKS), flags), errors="replace") as file:
                return file.read(_MOST_CHARS)
        except OSError:
            return ""


def wished_s(attrs: Mapping[str, object]) -> float | None:
    """Return how often a process asks to be measured, by its attributes; 0 is never, None when it does not say."""
    wished = attrs.get("usage_s")
    if isinstance(wished, bool) or not isinstance(wished, int | float) or not 0 <= wished <= 3600:
        return None
    return max(float(wished), 0.05) if wished else 0.0
