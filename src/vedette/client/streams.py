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

from vedette.client import open_runs
from vedette.client.faults import swallow
from vedette.client.journal import Journal
from vedette.client.messages import clean_text
from vedette.client.quiet import quiet
from vedette.interrupts import is_of_handler, let_through
from vedette.sources.colours import split
from vedette.sources.output import MAX_LINE, Lines


class _Thread(threading.local):
    """State of one thread."""

    in_text = False  # the text layer of a stream writes: we have its text, so ignore its bytes


_this_thread = _Thread()
_tees: list["Tee"] = []
_takers: list[Journal] = []  # of the open runs that record output
_last_words = ""
_OURS = "vedette.client."  # the modules whose functions stand between Python and a stream


class _Text:
    """What one run has printed to one stream, cut into lines."""

    def __init__(self, journal: Journal, stream: str) -> None:
        self._journal = journal
        self._stream = stream
        self._lock = threading.RLock()
        self._owner = 0  # the thread that is in `take`
        self._late: list[str] = []  # printed by a signal handler while its thread was in `take`
        self._lines = Lines()
        self._parts: list[str] = []  # printed text of a line that is not complete
        self._size = 0

    def take(self, text: str) -> None:
        """Record the lines that are complete now."""
        this = threading.get_ident()
        if self._owner == this:
            self._late.append(text)
            return
        with self._lock:  # released before the lines are recorded: a thread with the journal's lock may print
            self._owner = this
            try:
                found = self._cut(text)
                while self._late:
                    found += self._cut(self._late.pop(0))
            finally:
                self._owner = 0
        self._record(found)

    def end(self) -> None:
        """Record the last line, even if it is not complete."""
        with self._lock:
            last = self._lines.feed("".join(self._parts)) + self._lines.flush()
            self._parts.clear()
            self._size = 0
        self._record([line.text for line in last if line.over])

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

    def _record(self, lines: list[str]) -> None:
        for line in lines:
            attrs = {"stream": self._stream, "pid": os.getpid()}
            text, ansi = split(line)
            if ansi:
                attrs["ansi"] = clean_text(ansi)
            self._journal.event("output", clean_text(text), 20, attrs)


class Tee:
    """Records what one stream prints, as `output` events of the run that is meant where it is printed."""

    def __init__(self, stream: Any, name: str) -> None:
        self.stream = stream
        self._name = name
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # (object, method, our function, the previous attribute)
        self._texts: dict[Journal, _Text] = {}
        self._decoder: codecs.IncrementalDecoder | None = None

    def after_fork(self) -> None:
        """Start empty: pending text belongs to the parent, and its lock may be held by a thread that is gone."""
        self._texts = {}
        self._decoder = None

    def install(self) -> None:
        """Replace the stream's methods by ours; leave a stream alone that does not allow that."""
        try:
            buffer = getattr(self.stream, "buffer", None)
        except ValueError:  # it has been detached
            buffer = None
        replaced = self._replace(self.stream, "write", self._tee_text)
        if replaced and buffer is not None and self._replace(self.stream, "flush", _mark_as_text):
            self._replace(buffer, "write", self._tee_bytes)

    def renew(self) -> None:
        """Replace the stream's `write` again if somebody has put another one in the place of ours."""
        ours = [one for one in self._replaced if one[0] is self.stream and one[1] == "write"]
        if ours and vars(self.stream).get("write") is not ours[-1][2]:
            self._replaced = [one for one in self._replaced if one not in ours]
            self._replace(self.stream, "write", self._tee_text)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
        try:
            previous = vars(owner).get(name)
            ours = make(getattr(owner, name))
            setattr(owner, name, ours)
        except Exception as error:  # a user's stream may raise anything
            let_through(error)
            return False
        self._replaced.append((owner, name, ours, previous))
        return True

    def remove(self) -> None:
        """Put the stream's methods back, unless somebody has replaced ours."""
        while self._replaced:
            owner, name, ours, previous = self._replaced.pop()
            try:
                if vars(owner).get(name) is ours:
                    setattr(owner, name, previous) if previous is not None else delattr(owner, name)
            except Exception as error:
                if is_of_handler(error):
                    self._replaced.append((owner, name, ours, previous))
                    self.remove()
                    raise
                swallow(error, "the end of the tee")

    def end(self, journal: Journal) -> None:
        """Record the last line of a run that ends."""
        text = self._texts.pop(journal, None)
        if text is not None:
            text.end()

    def _tee_text(self, original: Any) -> Any:
        def write(*args: Any, **named: Any) -> Any:
            before = _this_thread.in_text
            _this_thread.in_text = True
            try:
                written = original(*args, **named)
            finally:
                _this_thread.in_text = before
            if args and not before and not quiet.on:
                if self._name == "stderr":
                    _note_last_words(args[0])
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
                coding = getattr(self.stream, "encoding", None) or "utf-8"
                self._decoder = codecs.getincrementaldecoder(coding)("replace")
            self.take(self._decoder.decode(bytes(data)))
        except Exception as error:
            let_through(error)
            swallow(error, "the record of what was printed")

    def take(self, text: Any) -> None:
        """Record printed text; never raise."""
        try:
            journal = open_runs.journal()
            if journal is not None and journal.takes_output and isinstance(text, str):
                known = self._texts.get(journal)
                (known or self._texts.setdefault(journal, _Text(journal, self._name))).take(text)
        except Exception as error:
            let_through(error)
            swallow(error, "the record of what was printed")


def _note_last_words(text: Any) -> None:
    """Note what Python itself prints where no code of the program runs any more: the text of a SystemExit."""
    global _last_words
    depth = 2
    try:
        while sys._getframe(depth).f_globals.get("__name__", "").startswith(_OURS):  # noqa: SLF001
            depth += 1
    except ValueError as error:  # there is no further frame
        let_through(error)
        if isinstance(text, str) and text.strip():
            _last_words = text.strip()


def said_at_the_end() -> str:
    """Return the text that SystemExit was raised with, once that has ended the program; else an empty one."""
    return _last_words


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
    """Record what is printed from now on, where the journal's run is meant, in this journal."""
    if not _takers:
        _remove_tees()
    _takers.append(journal)
    journal.takes_output = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is not None and not any(stream is tee.stream for tee in _tees):
            tee = Tee(stream, name)
            tee.install()
            _tees.append(tee)


def remove(journal: Journal) -> None:
    """Record no more in a journal; after the last one put the streams back as they were."""
    if not journal.takes_output:
        return
    _takers.remove(journal)
    if not _takers:
        _remove_tees(last_of=journal)
    for tee in _tees:
        tee.end(journal)
    journal.takes_output = False


def _remove_tees(last_of: Journal | None = None) -> None:
    while _tees:
        tee = _tees.pop()
        tee.remove()
        if last_of is not None:
            tee.end(last_of)


def renew() -> None:
    """Record again what is printed, before a cell of a notebook: IPython puts `write` back after each cell."""
    for tee in _tees:
        tee.renew()


def after_fork() -> None:
    """Go on in a child process."""
    for tee in _tees:
        tee.after_fork()
