"""A user's word on spans, from the page or the command line, as facts."""

import os
import pwd
import time

from vedette import wire
from vedette.model import USER, Fact, Span
from vedette.store import Reader


def facts_of(store: Reader, edit: wire.Edit) -> list[Fact]:
    """Return what to keep for an edit: at a later time than all that its user can have read."""
    now, who = time.time_ns(), _who()
    written = store.written(edit.spans)
    cause = f"removed by {who}" if edit.state else ""
    return [
        Span(id_, max(now, written.get(id_, 0) + 1), edit.state, cause, USER, attrs={**edit.attrs, "who": who})
        for id_ in dict.fromkeys(edit.spans)
    ]


def _who() -> str:
    """Return the name of the user that we serve: the socket lets nobody else in."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
