"""Turns an edit of spans, by the page or the command line, into facts."""

import os
import pwd
import time

from vedette import wire
from vedette.model import USER, Fact, Span
from vedette.store import Reader


def facts_of(store: Reader, edit: wire.Edit) -> list[Fact]:
    """Return the facts of an edit. Their time is later than all that the user can have read, so the edit wins."""
    now, who = time.time_ns(), _who()
    written = store.written(edit.spans)
    cause = f"removed by {who}" if edit.state else ""
    return [
        Span(id_, max(now, written.get(id_, 0) + 1), edit.state, cause, USER, attrs={**edit.attrs, "who": who})
        for id_ in dict.fromkeys(edit.spans)
    ]


def _who() -> str:
    """Return the name of our user: the socket accepts nobody else."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
