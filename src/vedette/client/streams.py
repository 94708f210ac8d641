"""Records what the program prints, line by line: a tee inside `sys.stdout` and `sys.stderr`.

The streams stay the same objects; only their `write` is replaced. So their descriptor, class and encoding are as
before, and code that keeps a reference to a stream, or replaces it, still works.
"""

import codecs
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from vedette.client.faults import swallow
from vedette.client.journal import Journal
from vedette.client.messages import clean_text
from vedette.client.quiet import quiet
from vedette.interrupts import let_through
from vedette.sources.colours import split
from vedette.sources.output import MAX_LINE, Lines


class _Thread(threading.local):
    """State of one thread."""

    in_text = False  # the text layer of a stream writes: we have its text, so ignore its bytes


_this_thread = _Thread()
_tees: list["Tee"] = []


class Tee:
    """Records what one stream prints, as `output` events of a journal."""

    def __init__(self, journal: Journal, stream: Any, name: str) -> None:
        self._journal = journal
        self._stream = stream
        self._name = name
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # (object, method, our function, the previous attribute)
        self._is_closed = False
        self.after_fork()

    def after_fork(self) -> None:
        """Start empty: pending text belongs to the parent, and its lock may be held by a thread that is gone."""
        self._lock = threading.RLock()
        self._owner = 0  # the thread that is in `take`
        self._late: list[str] = []  # printed by a signal handler while its thread was in `take`
        self._lines = Lines()
        self._parts: list[str] = []  # printed text of a line that is not complete
        self._size = 0
        self._decoder: codecs.IncrementalDecoder | None = None

    def install(self) -> None:
        """Replace the stream's methods by ours; leave a stream alone that does not allow that."""
        try:
            buffer = getattr(self._stream, "buffer", None)
        except ValueError:  # it has been detached
            buffer = None
        replaced = self._replace(self._stream, "write", self._tee_text)
        if replaced and buffer is not None and self._replace(self._stream, "flush", _mark_as_text):
            self._replace(buffer, "write", self._tee_bytes)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
        try:
            previous = vars(owner).get(name)
            ours = make(getattr(owner, name))
            setattr(owner, name, ours)
        except Exception:  # a user's stream may raise anything
            return False
        self._replaced.append((owner, name, ours, previous))
        return True

    def remove(self) -> None:
        """Put the stream's methods back, unless somebody has replaced ours; record the last line."""
        while self._replaced:
            owner, name, ours, previous = self._replaced.pop()
            try:
                if vars(owner).get(name) is ours:
                    setattr(owner, name, previous) if previous is not None else delattr(owner, name)
            except Exception as error:
                swallow(error, "the end of the tee")
        with self._lock:
            self._is_closed = True  # somebody may still call our methods
            last = self._cut("\n" if self._parts or self._lines.pending else "")
        for line in last:
            self._record_line(line)

    def _tee_text(self, original: Any) -> Any:
        def write(*args: Any, **named: Any) -> Any:
            before = _this_thread.in_text
            _this_thread.in_text = True
            try:
                written = original(*args, **named)
            finally:
                _this_thread.in_text = before
            if args and not before and not quiet.on:
                self.take(args[0])
            return written

        return write

    def _tee_bytes(self, original: Any) -> Any:
        def write(*args: Any, **named: Any) -> Any:
            written = original(*args, **named)
            if args and not _this_thread.in_text and not quiet.on:
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
        """Record printed text; never raise."""
        if self._is_closed or not isinstance(text, str):
            return
        this = threading.get_ident()
        if self._owner == this:
            self._late.append(text)
            return
        try:
            with self._lock:  # released before the lines are recorded: a thread with the journal's lock may print
                self._owner = this
                try:
                    found = self._cut(text)
                    while self._late:
                        found += self._cut(self._late.pop(0))
                finally:
                    self._owner = 0
            for line in found:
                self._record_line(line)
        except Exception as error:
            let_through(error)
            swallow(error, "the record of what was printed")

    def _cut(self, text: str) -> list[str]:
        """Add text, and return the lines that are complete."""
        self._parts.append(text)
        self._size += len(text)
        if "\n" not in text and "\r" not in text and self._size <= MAX_LINE:
            return []
        whole = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return [line.text for line in self._lines.feed(whole) if line.over]

    def _record_line(self, text: str) -> None:
        attrs = {"stream": self._name, "pid": os.getpid()}
        text, ansi = split(text)
        if ansi:
            attrs["ansi"] = clean_text(ansi)
        self._journal.event("output", clean_text(text), 20, attrs)


def _mark_as_text(original: Any) -> Any:
    """Wrap the text layer's `flush`: we have the text of the bytes that it writes."""

    def flush(*args: Any, **named: Any) -> Any:
        before = _this_thread.in_text
        _this_thread.in_text = True
        try:
            return original(*args, **named)
        finally:
            _this_thread.in_text = before

    return flush


def install(journal: Journal) -> None:
    """Record in this journal what is printed from now on."""
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
    """Put the streams back as they were."""
    while _tees:
        _tees.pop().remove()


def after_fork() -> None:
    """Go on in a child process."""
    for tee in _tees:
        tee.after_fork()
