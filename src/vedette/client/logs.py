"""Records of the module `logging`, taken down as events.

No handler of ours hangs anywhere: one on the root logger would make `logging.basicConfig` a no-op and silence the
handler of last resort. Methods of `logging.Logger` are wrapped instead while the run lasts, and what the user's
handlers get stays what it was: a record that only we want (INFO, with the root logger at its default) is marked
when it is made, and goes no further.
"""

import logging
import os
import sys
import threading
import traceback
from typing import Any

from vedette.client import screen
from vedette.client.faults import let_through, swallow
from vedette.client.journal import Journal
from vedette.client.messages import compose, holds_rich, sound, spell
from vedette.client.quiet import here as quiet

_ALONE = "_vedette_alone"  # on a record that the user's handlers would not have got without us
_MOST_NAME = 1000
_MOST_DEPTH = 3  # records that are made while a record is taken down, in somebody's __str__


class _Thread(threading.local):
    """What holds in one thread."""

    granted: tuple[logging.Logger, int] | None = None  # a record that we alone have asked for is about to be made
    depth = 0
    tidied = False  # a record is being handled that a console shows


_here = _Thread()
_journal: Journal | None = None
_level = 0
_originals: dict[tuple[type, str], tuple[Any, Any]] = {}  # what we have replaced, and by what


def install(journal: Journal, level: int) -> None:
    """Take down records from this level on, for this journal."""
    global _journal, _level
    _level = level
    _journal = journal
    _replace(logging.Logger, "isEnabledFor", _is_enabled_for)
    _replace(logging.Logger, "makeRecord", _make_record)
    _replace(logging.Logger, "callHandlers", _call_handlers)
    _replace(logging.LogRecord, "getMessage", _get_message)
    _replace(logging.Handler, "handle", _handle)


def remove() -> None:
    """Put `logging` back as it was; what somebody else has wrapped meanwhile stays, and does nothing."""
    global _journal
    _journal = None
    for (owner, name), (original, ours) in list(_originals.items()):
        if owner.__dict__.get(name) is ours:
            setattr(owner, name, original)
            del _originals[owner, name]


def _replace(owner: type, name: str, make: Any) -> None:
    if (owner, name) in _originals:  # of an earlier run: somebody has wrapped it, and so it stayed
        return
    original = owner.__dict__[name]
    ours = make(original)
    ours.__name__, ours.__qualname__, ours.__doc__ = name, original.__qualname__, original.__doc__
    _originals[owner, name] = (original, ours)
    setattr(owner, name, ours)


def _is_enabled_for(original: Any) -> Any:
    def is_enabled_for(self: logging.Logger, level: int) -> bool:
        if original(self, level):
            return True
        if _journal is None or level < _level:
            return False
        try:
            wanted = self._cache[level, _level]  # type: ignore[attr-defined] # is emptied when any level changes
        except (KeyError, AttributeError):
            wanted = _wanted(self, level)
        if wanted and not self.disabled:
            _here.granted = (self, level)
            return True
        return False

    return is_enabled_for


def _wanted(logger: logging.Logger, level: int) -> bool:
    """Tell whether we want what the user's own levels turn away: the root logger's default does not bind us."""
    wanted = False
    if logger.manager.disable < level:
        one: logging.Logger | None = logger
        while one is not None and one.parent is not None and not one.level:
            one = one.parent
        wanted = one is not None and one.parent is None and one.level <= logging.WARNING
    getattr(logger, "_cache", {})[level, _level] = wanted
    return wanted


def _make_record(original: Any) -> Any:
    def make_record(self: logging.Logger, name: str, level: int, *args: Any, **named: Any) -> logging.LogRecord:
        record: logging.LogRecord = original(self, name, level, *args, **named)
        granted = _here.granted
        if granted is not None:
            _here.granted = None
            if granted == (self, level) and self.getEffectiveLevel() > level:
                setattr(record, _ALONE, True)
        return record

    return make_record


def _call_handlers(original: Any) -> Any:
    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        journal = _journal
        alone = _ALONE in record.__dict__
        tidied = journal is not None and _take(journal, self, record, alone) and screen.tidies()
        if not alone:
            before, _here.tidied = _here.tidied, tidied
            try:
                original(self, record)
            finally:
                _here.tidied = before

    return call_handlers


def _handle(original: Any) -> Any:
    def handle(self: logging.Handler, record: logging.LogRecord) -> Any:
        if _here.tidied and _is_default(self):
            return False
        before, quiet.on = quiet.on, _journal is not None
        try:
            return original(self, record)
        finally:
            quiet.on = before

    return handle


def _get_message(original: Any) -> Any:
    def get_message(self: logging.LogRecord) -> str:
        if _journal is None or not (self.args or type(self.msg) is not str) or _here.depth >= _MOST_DEPTH:
            return str(original(self))
        _here.depth += 1  # a __str__ that logs itself would double the work at each level
        try:
            if holds_rich(self.msg, self.args):
                return compose(self.msg, self.args)[0]
            return str(original(self))
        except Exception as error:
            let_through(error)
            return compose(self.msg, self.args)[0]
        finally:
            _here.depth -= 1

    return get_message


def _take(journal: Journal, logger: logging.Logger, record: logging.LogRecord, alone: bool) -> bool:
    """Take a record down, and tell whether that was done; never raise."""
    if _here.depth >= _MOST_DEPTH:
        return False
    _here.depth += 1
    try:
        level = record.levelno
        if level >= _level and not _told_elsewhere(record):
            text, ansi = compose(record.msg, record.args)
            attrs = _attrs(record)
            if ansi:
                attrs["ansi"] = ansi
            if not alone and _printed(logger, level):
                attrs["printed"] = True
            journal.event("log", text, int(level), attrs)
            return True
    except Exception as error:
        let_through(error)
        swallow(error, "the record of a log message")
    finally:
        _here.depth -= 1
    return False


def _told_elsewhere(record: logging.LogRecord) -> bool:
    """Tell whether a record is on record by another word: of a worker that made it, or as a warning."""
    if quiet.warned and record.name == "py.warnings":
        return True
    return record.process not in (None, os.getpid()) and record.processName not in (None, "MainProcess")


def _attrs(record: logging.LogRecord) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "logger": _name(record.name),
        "file": _name(record.pathname),
        "line": record.lineno if type(record.lineno) is int and 0 <= record.lineno < 1 << 62 else 0,
        "function": _name(record.funcName),
        "thread": _name(record.threadName),
        "pid": os.getpid(),
    }
    if record.exc_info or record.exc_text:
        attrs["exception"] = _exception(record)
    if record.stack_info:
        attrs["stack"] = sound(spell(record.stack_info))
    return attrs


def _name(text: Any) -> str:
    if type(text) is str and text.isascii() and len(text) <= _MOST_NAME:
        return text
    return "" if text is None else sound(spell(text)[:_MOST_NAME])


def _exception(record: logging.LogRecord) -> str:
    """Return the traceback of a record's exception, whatever stands in its place."""
    error: Any = record.exc_info
    if isinstance(error, tuple):
        error = next((part for part in error if isinstance(part, BaseException)), None)
    if isinstance(error, BaseException):
        return sound("".join(traceback.format_exception(error)))
    return sound(spell(record.exc_text or ""))


def _printed(logger: logging.Logger, level: int) -> bool:
    """Tell whether a handler of the user's is about to show a record in the terminal."""
    found, tidied = False, screen.tidies()
    one: logging.Logger | None = logger
    while one is not None:
        for handler in one.handlers:
            found = True
            if level >= handler.level and _shows(handler) and not (tidied and _is_default(handler)):
                return True
        one = one.parent if one.propagate else None
    last = logging.lastResort
    return not found and not tidied and last is not None and level >= last.level


def _is_default(handler: logging.Handler) -> bool:
    """Tell whether a handler is one that `logging` makes by itself, which a console takes the place of.

    It is that of last resort, or that of `basicConfig` with its own format: the console's lines say more.
    """
    if handler is logging.lastResort:
        return True
    form = getattr(handler.formatter, "_fmt", None)
    plain = type(handler) is logging.StreamHandler and type(handler.formatter) is logging.Formatter
    return plain and form == logging.BASIC_FORMAT and _shows(handler) and not handler.filters


def _shows(handler: logging.Handler) -> bool:
    stream = getattr(handler, "stream", None)
    if stream is not None:
        return stream is sys.stderr or stream is sys.stdout or stream is sys.__stderr__ or stream is sys.__stdout__
    return any(kind.__name__ == "RichHandler" for kind in type(handler).__mro__)
