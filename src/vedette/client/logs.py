"""Records the messages of the module `logging` as events.

We install no handler: one on the root logger would make `logging.basicConfig` a no-op and silence the handler of
last resort. Instead we wrap methods of `logging.Logger` while the run lasts. The user's handlers get the same records
as before: a record that only we want (INFO, with the root logger at its default) is marked when it is made, and no
handler gets it.
"""

import logging
import os
import sys
import threading
import traceback
from typing import Any

from vedette.client import open_runs, screen
from vedette.client.faults import swallow
from vedette.client.journal import Journal
from vedette.client.messages import clean_text, compose, holds_rich, spell
from vedette.client.quiet import quiet
from vedette.client.raised import MOST_EXIT_TEXT, last_line
from vedette.interrupts import let_through

_ONLY_OURS = "_vedette_alone"  # set on a record that the user's handlers must not get: without us it would not exist
_RECORDED = "_vedette_run"  # set on a record of a worker: the run that it is recorded in; it travels with the pickle
_STANDARD = os.path.join(os.path.dirname(logging.__file__.removesuffix("/__init__.py")), "")
_MAX_NAME = 1000
_TASK_DIED = "Task exception was never retrieved"
_MAX_DEPTH = 3  # a __str__ may log while its record is being written


class _Thread(threading.local):
    """State of one thread."""

    enabled_by_us: tuple[logging.Logger, int] | None = None  # the record that follows would not be made without us
    depth = 0
    shown_by_console = False  # the console shows the record that is being handled


_this_thread = _Thread()
_levels: list[int] = []  # of the open runs that record logs
_level = 0  # the lowest of them: records below it are not made for us
_originals: dict[tuple[type, str], tuple[Any, Any]] = {}  # (class, method): its original function, and ours


def install(journal: Journal, level: int) -> None:
    """Write the records that a journal's run is meant by, of this level and above, to this journal."""
    global _level
    journal.log_level = level
    _levels.append(level)
    _level = min(_levels)
    _replace(logging.Logger, "isEnabledFor", _is_enabled_for)
    _replace(logging.Logger, "makeRecord", _make_record)
    _replace(logging.Logger, "callHandlers", _call_handlers)
    _replace(logging.LogRecord, "getMessage", _get_message)
    _replace(logging.Handler, "handle", _handle)


def remove(journal: Journal) -> None:
    """Write no more to a journal. After the last one put `logging` back as it was.

    A function of ours that somebody has wrapped stays in place, and does nothing.
    """
    global _level
    if journal.log_level is None:
        return
    _levels.remove(journal.log_level)
    journal.log_level = None
    if _levels:
        _level = min(_levels)
    else:
        _put_back()


def _put_back() -> None:
    for (owner, name), (original, ours) in list(_originals.items()):
        if owner.__dict__.get(name) is ours:
            setattr(owner, name, original)
            del _originals[owner, name]


def _replace(owner: type, name: str, make: Any) -> None:
    if (owner, name) in _originals:  # left from an earlier run, because somebody had wrapped it
        return
    original = owner.__dict__[name]
    ours = make(original)
    ours.__name__, ours.__qualname__, ours.__doc__ = name, original.__qualname__, original.__doc__
    _originals[owner, name] = (original, ours)
    setattr(owner, name, ours)


def _journal_here() -> Journal | None:
    """Return the journal that a record of this thread or task belongs to; None if its run records no logs."""
    journal = open_runs.journal() if _levels else None
    return journal if journal is not None and journal.log_level is not None else None


def _is_enabled_for(original: Any) -> Any:
    def is_enabled_for(self: logging.Logger, level: int) -> bool:
        if original(self, level):
            return True
        if not _levels or level < _level:
            return False
        try:
            wanted = self._cache[level, _level]  # type: ignore[attr-defined] # emptied when any level changes
        except (KeyError, AttributeError):
            wanted = _is_wanted(self, level)
        if wanted and not self.disabled:
            _this_thread.enabled_by_us = (self, level)
            return True
        return False

    return is_enabled_for


def _is_wanted(logger: logging.Logger, level: int) -> bool:
    """Tell whether we want a record that the user's levels drop: we do if only the root logger's default drops it."""
    wanted = False
    if logger.manager.disable < level:
        ancestor: logging.Logger | None = logger
        while ancestor is not None and ancestor.parent is not None and not ancestor.level:
            ancestor = ancestor.parent
        wanted = ancestor is not None and ancestor.parent is None and ancestor.level <= logging.WARNING
    getattr(logger, "_cache", {})[level, _level] = wanted
    return wanted


def _make_record(original: Any) -> Any:
    def make_record(self: logging.Logger, name: str, level: int, *args: Any, **named: Any) -> logging.LogRecord:
        record: logging.LogRecord = original(self, name, level, *args, **named)
        enabled_by_us = _this_thread.enabled_by_us
        if enabled_by_us is not None:
            _this_thread.enabled_by_us = None
            if enabled_by_us == (self, level) and self.getEffectiveLevel() > level:
                setattr(record, _ONLY_OURS, True)
        return record

    return make_record


def _call_handlers(original: Any) -> Any:
    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        journal = _journal_here()
        only_ours = _ONLY_OURS in record.__dict__
        shown_by_console = journal is not None and _record(journal, self, record, only_ours) and screen.shows_logs()
        if not only_ours:
            before, _this_thread.shown_by_console = _this_thread.shown_by_console, shown_by_console
            try:
                original(self, record)
            finally:
                _this_thread.shown_by_console = before

    return call_handlers


def _handle(original: Any) -> Any:
    def handle(self: logging.Handler, record: logging.LogRecord) -> Any:
        if _this_thread.shown_by_console and _is_default(self):
            return False
        before, quiet.on = quiet.on, _journal_here() is not None
        try:
            return original(self, record)
        finally:
            quiet.on = before

    return handle


def _get_message(original: Any) -> Any:
    def get_message(self: logging.LogRecord) -> str:
        if not _levels or not (self.args or type(self.msg) is not str) or _this_thread.depth >= _MAX_DEPTH:
            return str(original(self))
        _this_thread.depth += 1  # a __str__ that logs itself would double the work at each level
        try:
            if holds_rich(self.msg, self.args):
                return compose(self.msg, self.args)[0]
            return str(original(self))
        except Exception as error:
            let_through(error)
            return compose(self.msg, self.args)[0]
        finally:
            _this_thread.depth -= 1

    return get_message


def _record(journal: Journal, logger: logging.Logger, record: logging.LogRecord, only_ours: bool) -> bool:
    """Write a log record to the journal, and tell whether that was done; never raise."""
    if _this_thread.depth >= _MAX_DEPTH:
        return False
    _this_thread.depth += 1
    try:
        level = record.levelno
        if level >= (journal.log_level or 0) and not _is_recorded_elsewhere(journal, record):
            text, ansi = compose(record.msg, record.args)
            attrs = _attrs(record)
            if ansi:
                attrs["ansi"] = ansi
            if not only_ours and _will_be_printed(logger, level):
                attrs["printed"] = True
            if only_ours and _is_of_library(record.pathname):
                attrs["unasked"] = True
            journal.event("log", text, int(level), attrs)
            if record.processName not in (None, "MainProcess"):
                setattr(record, _RECORDED, journal.run)
            if record.name == "asyncio" and record.exc_info and record.exc_info[1] and text.startswith(_TASK_DIED):
                journal.mishap = f"an asyncio task died: {last_line(record.exc_info[1])}"[:MOST_EXIT_TEXT]
            return True
    except Exception as error:
        let_through(error)
        swallow(error, "the record of a log message")
    finally:
        _this_thread.depth -= 1
    return False


def _is_recorded_elsewhere(journal: Journal, record: logging.LogRecord) -> bool:
    """Tell whether a record is written elsewhere: as a warning, a cell that failed, or by the worker that made it.

    A worker that began before the run records nothing; only what a worker has marked is left to it.
    """
    if quiet.in_warning and record.name == "py.warnings":
        return True
    if record.name == "IPKernelApp" and record.levelno < logging.WARNING:
        return True
    return record.process != os.getpid() and record.__dict__.get(_RECORDED) == journal.run


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
        attrs["stack"] = clean_text(spell(record.stack_info))
    return attrs


def _is_of_library(path: Any) -> bool:
    """Tell whether a record comes from a library: without us nobody would have seen its INFO, and nobody asked."""
    return isinstance(path, str) and (
        path.startswith(_STANDARD) or "/site-packages/" in path or "/dist-packages/" in path
    )


def _name(text: Any) -> str:
    if type(text) is str and text.isascii() and len(text) <= _MAX_NAME:
        return text
    return "" if text is None else clean_text(spell(text)[:_MAX_NAME])


def _exception(record: logging.LogRecord) -> str:
    """Return the traceback of a record's exception; `exc_info` may be any object."""
    error: Any = record.exc_info
    if isinstance(error, tuple):
        error = next((part for part in error if isinstance(part, BaseException)), None)
    if isinstance(error, BaseException):
        return clean_text("".join(traceback.format_exception(error)))
    return clean_text(spell(record.exc_text or ""))


def _will_be_printed(logger: logging.Logger, level: int) -> bool:
    """Tell whether a handler of the user will print the record to the terminal."""
    has_handler, shown_by_console = False, screen.shows_logs()
    ancestor: logging.Logger | None = logger
    while ancestor is not None:
        for handler in ancestor.handlers:
            has_handler = True
            if (
                level >= handler.level
                and _writes_to_terminal(handler)
                and not (shown_by_console and _is_default(handler))
            ):
                return True
        ancestor = ancestor.parent if ancestor.propagate else None
    last = logging.lastResort
    return not has_handler and not shown_by_console and last is not None and level >= last.level


def _is_default(handler: logging.Handler) -> bool:
    """Tell whether a handler is one of `logging`'s defaults. The console replaces these: its lines say more.

    They are the handler of last resort, and that of `basicConfig` with the default format.
    """
    if handler is logging.lastResort:
        return True
    format_string = getattr(handler.formatter, "_fmt", None)
    plain = type(handler) is logging.StreamHandler and type(handler.formatter) is logging.Formatter
    return plain and format_string == logging.BASIC_FORMAT and _writes_to_terminal(handler) and not handler.filters


def _writes_to_terminal(handler: logging.Handler) -> bool:
    stream = getattr(handler, "stream", None)
    if stream is not None:
        return stream is sys.stderr or stream is sys.stdout or stream is sys.__stderr__ or stream is sys.__stdout__
    return any(kind.__name__ == "RichHandler" for kind in type(handler).__mro__)
