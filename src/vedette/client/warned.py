"""Warnings of the module `warnings`, taken down as events and shown as ever."""

import warnings
from typing import Any

from vedette.client.faults import let_through, swallow
from vedette.client.journal import Journal
from vedette.client.messages import sound, spell
from vedette.client.quiet import here

_journal: Journal | None = None
_original: Any = None
_ours: Any = None


def install(journal: Journal) -> None:
    """Take down what `warnings` shows, for this journal."""
    global _journal, _original, _ours
    _journal = journal
    if _ours is None or warnings.showwarning is _original:  # the end of a `catch_warnings` has taken it away
        _original = warnings.showwarning
        _ours = warnings.showwarning = _show(_original)


def remove() -> None:
    """Put `warnings` back as it was; what somebody has put on top of ours stays, and ours does nothing."""
    global _journal, _original, _ours
    _journal = None
    if warnings.showwarning is _ours:
        warnings.showwarning = _original
        _original = _ours = None


def _show(original: Any) -> Any:
    def showwarning(
        message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None
    ) -> None:
        if _journal is None or file is not None:
            original(message, category, filename, lineno, file, line)
            return
        _take(_journal, message, category, filename, lineno)
        on, warned = here.on, here.warned
        here.on = here.warned = True
        try:
            original(message, category, filename, lineno, file, line)
        finally:
            here.on, here.warned = on, warned

    return showwarning


def _take(journal: Journal, message: Any, category: Any, filename: Any, lineno: Any) -> None:
    try:
        attrs = {
            "file": sound(spell(filename)[:1000]),
            "line": lineno if type(lineno) is int and 0 <= lineno < 1 << 62 else 0,
            "category": sound(spell(getattr(category, "__name__", category))[:1000]),
            "printed": True,
        }
        journal.event("warning", sound(spell(message)), 30, attrs)
    except Exception as error:
        let_through(error)
        swallow(error, "the record of a warning")
