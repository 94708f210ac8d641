"""A question on the console, and the answer that is typed: the console reads the terminal itself."""

import codecs
import os
import termios
import time
from collections.abc import Callable, Iterable

from vedette.errors import VedetteError
from vedette.query.questions import ASKED, Question
from vedette.store import EventRow
from vedette.views.ansi import one_line, plain

_AGAIN_S = 10.0  # if an answer is not confirmed by then, the question is shown again
_ENTER, _ERASE, _KILL, _ESCAPE = "\r\n", "\x7f\x08", "\x15", "\x1b"
_LFLAG, _CC = 3, 6


class Keys:
    """Reads the keys that are typed at the terminal of this process, without echo, while it is open."""

    def __init__(self, path: str = "/dev/tty") -> None:
        self.fd: int | None = None
        self._path = path
        self._before: list[object] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def open(self) -> bool:
        """Start reading keys; return False if that is impossible. A background process would be stopped by it."""
        if self.fd is not None:
            return True
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            if os.tcgetpgrp(fd) != os.getpgrp():
                raise OSError
            before = termios.tcgetattr(fd)
            quiet = termios.tcgetattr(fd)
            quiet[_LFLAG] &= ~(termios.ECHO | termios.ICANON)
            quiet[_CC][termios.VMIN], quiet[_CC][termios.VTIME] = 1, 0
            termios.tcsetattr(fd, termios.TCSANOW, quiet)
        except (OSError, termios.error):
            os.close(fd)
            return False
        self._before, self.fd = before, fd
        self._decoder.reset()
        return True

    def read(self) -> str:
        """Return what was typed."""
        fd = self.fd
        try:
            return self._decoder.decode(os.read(fd, 4096)) if fd is not None else ""
        except OSError:
            return ""

    def close(self) -> None:
        """Restore the terminal."""
        fd, self.fd = self.fd, None  # first: at exit two threads close it, and its number may be reused at once
        if fd is None:
            return
        try:
            termios.tcsetattr(fd, termios.TCSANOW, self._before)  # type: ignore[arg-type]
        except (OSError, termios.error):
            pass
        os.close(fd)


class Asking:
    """Lets the user at the terminal answer the open question."""

    def __init__(self, keys: Keys, send: Callable[[Question, str], str]) -> None:
        """`send` sends an answer, and returns the id of its command; it raises VedetteError if it cannot."""
        self._keys = keys
        self._send = send
        self._question: Question | None = None
        self._typed = ""
        self._sent: dict[str, tuple[str, float]] = {}  # by question: the id of the command, and when it was sent

    @property
    def fd(self) -> int | None:
        """The descriptor that is readable when something was typed; None if keys are not read."""
        return self._keys.fd

    def tend(self, question: Question | None) -> None:
        """Read keys only while there is a question to answer."""
        if question is not None and time.monotonic() - self._sent.get(question.id, ("", -_AGAIN_S))[1] < _AGAIN_S:
            question = None  # its answer is on the way
        if question is None or (self._question is not None and question.id != self._question.id):
            self._typed = ""
        self._question = question
        if question is None:
            self._keys.close()
        else:
            self._keys.open()

    def row(self, question: Question) -> str | None:
        """Return the row with the question and what is typed so far; None if it cannot be answered here."""
        if question != self._question or self._keys.fd is None:
            return None
        typed = "*" * len(self._typed) if question.password else self._typed
        return f"? {one_line(question.prompt)} {typed}\u2588"

    def read(self) -> list[str]:
        """Handle the keys that were typed; return lines to print."""
        for key in self._keys.read():
            if key in _ENTER:
                return self._answer()
            if key == _ESCAPE:
                break  # such as an arrow key: ignore it with the rest of this read
            if key in _ERASE:
                self._typed = self._typed[:-1]
            elif key == _KILL:
                self._typed = ""
            elif plain(key):
                self._typed += key
        return []

    def _answer(self) -> list[str]:
        question, typed, self._typed = self._question, self._typed, ""
        if question is None:
            return []
        shown = "*" * 8 if question.password else one_line(typed)
        try:
            self._sent[question.id] = self._send(question, typed), time.monotonic()
        except VedetteError as error:
            return [f"? {one_line(question.prompt)}: {one_line(str(error))}"]
        finally:
            self.tend(None)
        return [f"? {one_line(question.prompt)} {shown}"]

    def hear(self, events: Iterable[EventRow]) -> list[str]:
        """Check whether an answer from here came too late; return lines that say so."""
        shown = []
        for event in events:
            sent = self._sent.pop(str(event.attrs.get("ask")), None) if event.kind == ASKED else None
            if sent is not None and event.attrs.get("command") != sent[0]:
                shown.append("somebody else had answered before")
        return shown

    def close(self) -> None:
        """Restore the terminal."""
        self._keys.close()
