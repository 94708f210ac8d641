"""Turns an exception that ends a run, a `with` block or a progress bar into evidence of that end."""

import traceback

from vedette.client.messages import clean_text
from vedette.client.values import text_of
from vedette.deaths.evidence import Evidence, Raised

MOST_EXIT_TEXT = 500


def interrupted() -> str:
    """Return what a KeyboardInterrupt means here; a notebook replaces this, since its kernel is interrupted."""
    return "KeyboardInterrupt"


def evidence_of(error: BaseException) -> Evidence:
    """Return the evidence in an exception; SystemExit counts as an exit code."""
    kind = type(error)
    if issubclass(kind, KeyboardInterrupt):
        return Evidence(raised=Raised(interrupted(), interrupt=True))
    if issubclass(kind, SystemExit):
        code = getattr(error, "code", None)
        if code is None or isinstance(code, int):
            return Evidence(said_code=(code or 0) & 0xFF)
        return Evidence(said_code=1, exit_text=clean_text(text_of(code))[:MOST_EXIT_TEXT])
    if isinstance(error, OSError):
        path = "" if error.filename is None else text_of(error.filename)
        return Evidence(raised=Raised(last_line(error), error.errno or 0, path))
    return Evidence(raised=Raised(last_line(error)))


def last_line(error: BaseException) -> str:
    """Return the last line of an exception's traceback: its type and what it says."""
    return clean_text(traceback.format_exception_only(type(error), error)[-1].strip())
