"""Records what the module `warnings` shows, as events. The warnings are shown as before."""

import warnings
from typing import Any

from vedette.client import open_runs
from vedette.client.faults import swallow
from vedette.client.journal import Journal
from vedette.client.messages import clean_text, spell
from vedette.client.quiet import quiet
from vedette.interrupts import let_through

_original: Any = None
_ours: Any = None


def install() -> None:
    """Record what `warnings` shows, in the runs that record logs."""
    global _original, _ours
    if _ours is None or warnings.showwarning is _original:  # a `catch_warnings` block has put the original back
        _original = warnings.showwarning
        _ours = warnings.showwarning = _show(_original)


def remove() -> None:
    """Put `warnings` back as it was; if somebody has wrapped our function, it stays in place and does nothing."""
    global _original, _ours
    if warnings.showwarning is _ours:
        warnings.showwarning = _original
        _original = _ours = None


def _show(original: Any) -> Any:
    def showwarning(
        message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None
    ) -> None:
        journal = open_runs.journal()
        if journal is None or journal.log_level is None or file is not None:
            original(message, category, filename, lineno, file, line)
            return
        _record(journal, message, category, filename, lineno)
        on, in_warning = quiet.on, quiet.in_warning
        quiet.on = quiet.in_warning = True
        try:
            original(message, category, filename, lineno, file, line)
        finally:
            quiet.on, quiet.in_warning = on, in_warning

    return showwarning


def _record(journal: Journal, message: Any, category: Any, filename: Any, lineno: Any) -> None:
    try:
        attrs = {
            "file": clean_text(spell(filename)[:1000]),
            "line": lineno if type(lineno) is int and 0 <= lineno < 1 << 62 else 0,
            "category": clean_text(spell(getattr(category, "__name__", category))[:1000]),
            "printed": True,
        }
        journal.event("warning", clean_text(spell(message)), 30, attrs)
    except Exception as error:
        let_through(error)
        swallow(error, "the record of a warning")
