"""What the program prints, line by line: a tee in `sys.stdout` and `sys.stderr` themselves.

The streams stay the objects that they were; only their `write` is another. So whoever holds one, asks for its
descriptor, its class or its encoding, or puts another in its place, finds all as it was.
"""

import codecs
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from vedette.client.faults import let_through, swallow
from vedette.client.journal import Journal
from vedette.client.messages import sound
from vedette.client.quiet import here as quiet
from vedette.sources.colours import split
from vedette.sources.output import MAX_LINE, Lines


class _Thread(threading.local):
    """What holds in one thread."""

    in_text = False  # the text layer of a stream is at work: its bytes have been seen as text


_here = _Thread()
_tees: list["Tee"] = []


class Tee:
    """Takes down what one stream prints, as events `output` of a journal."""

    def __init__(self, journal: Journal, stream: Any, name: str) -> None:
        self._journal = journal
        self._stream = stream
        self._name = name
        self._put: list[tuple[Any, str, Any, Any]] = []  # object, name of the method, ours, what it had of its own
        self._over = False
        self.after_fork()

    def after_fork(self) -> None:
        """Begin anew: what is pending was printed by the parent, and a lock may be held by a thread that is no more."""
        self._lock = threading.RLock()
        self._owner = 0  # the thread that takes something down
        self._late: list[str] = []  # printed by a signal handler while this very thread took something down
        self._lines = Lines()
        self._parts: list[str] = []  # printed, with no line ended
        self._size = 0
        self._decoder: codecs.IncrementalDecoder | None = None

    def install(self) -> None:
        """Put our methods in place of the stream's; a stream that does not let us is left alone."""
        try:
            buffer = getattr(self._stream, "buffer", None)
        except ValueError:  # it has been detached
            buffer = None
        replaced = self._replace(self._stream, "write", self._tee_text)
        if replaced and buffer is not None and self._replace(self._stream, "flush", _as_text):
            self._replace(buffer, "write", self._tee_bytes)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
        try:
            own = vars(owner).get(name)
            ours = make(getattr(owner, name))
            setattr(owner, name, ours)
        except Exception:  # whatever a stranger's stream raises: it is none that we can take part in
            return False
        self._put.append((owner, name, ours, own))
        return True

    def remove(self) -> None:
        """Put the stream's own methods back unless somebody has replaced ours; take the last line down."""
        while self._put:
            owner, name, ours, own = self._put.pop()
            try:
                if vars(owner).get(name) is ours:
                    setattr(owner, name, own) if own is not None else delattr(owner, name)
            except Exception as error:
                swallow(error, "the end of the tee")
        with self._lock:
            self._over = True  # somebody may hold our methods for longer
            last = self._cut("\n" if self._parts or self._lines.pending else "")
        for line in last:
            self._tell(line)

    def _tee_text(self, original: Any) -> Any:
        def write(*args: Any, **named: Any) -> Any:
            before = _here.in_text
            _here.in_text = True
            try:
                written = original(*args, **named)
            finally:
                _here.in_text = before
            if args and not before and not quiet.on:
                self.take(args[0])
            return written

        return write

    def _tee_bytes(self, original: Any) -> Any:
        def write(*args: Any, **named: Any) -> Any:
            written = original(*args, **named)
            if args and not _here.in_text and not quiet.on:
                self._take_bytes(args[0])
            return written

        return write

    def _take_bytes(self, data: Any) -> None:
        try:
            if self._decoder is None:
                coding = getattr(self._stream, "encoding", None) or "utf-8"
                self._decoder = codecs.getincrementaldecoder(coding)("replace")
            self.take(self._decoder.decode(bytes(data)))
        except Exception as error:
            let_through(error)
            swallow(error, "the record of what was printed")

    def take(self, text: Any) -> None:
        """Take down what was printed; never raise."""
        if self._over or not isinstance(text, str):
            return
        this = threading.get_ident()
        if self._owner == this:
            self._late.append(text)
            return
        try:
            with self._lock:  # not while it is told: whoever holds the journal's lock may come to print
                self._owner = this
                try:
                    found = self._cut(text)
                    while self._late:
                        found += self._cut(self._late.pop(0))
                finally:
                    self._owner = 0
            for line in found:
                self._tell(line)
        except Exception as error:
            let_through(error)
            swallow(error, "the record of what was printed")

    def _cut(self, text: str) -> list[str]:
        """Return the lines that are over."""
        self._parts.append(text)
        self._size += len(text)
        if "\n" not in text and "\r" not in text and self._size <= MAX_LINE:
            return []
        whole = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return [line.text for line in self._lines.feed(whole) if line.over]

    def _tell(self, text: str) -> None:
        attrs = {"stream": self._name, "pid": os.getpid()}
        text, ansi = split(text)
        if ansi:
            attrs["ansi"] = sound(ansi)
        self._journal.event("output", sound(text), 20, attrs)


def _as_text(original: Any) -> Any:
    """Make a `flush` of the text layer, whose bytes have been seen as text."""

    def flush(*args: Any, **named: Any) -> Any:
        before = _here.in_text
        _here.in_text = True
        try:
            return original(*args, **named)
        finally:
            _here.in_text = before

    return flush


def install(journal: Journal) -> None:
    """Take down what is printed from now on, for this journal."""
    remove()
    seen: list[Any] = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is not None and not any(stream is other for other in seen):
            seen.append(stream)
            tee = Tee(journal, stream, name)
            tee.install()
            _tees.append(tee)


def remove() -> None:
    """Let the streams be as they were."""
    while _tees:
        _tees.pop().remove()


def after_fork() -> None:
    """Go on in a child process."""
    for tee in _tees:
        tee.after_fork()
