"""What `-analysis monitor.Usage` draws: the usage of one call, or of all calls that a server has received."""

import os
import sys
from collections.abc import Sequence

from vedette import settings
from vedette.access.home_access import HomeAccess
from vedette.errors import VedetteError
from vedette.query import usage
from vedette.query.runs import RunView, select, view
from vedette.store import Reader


def usage_of(run: str, folder: str) -> None:
    """Draw the usage of one run."""
    try:
        store = _open()
        _draw(store, [view(store, run)], folder)
    except (VedetteError, OSError) as error:
        say(f"there is no usage report: {error}")


def usage_since(begun_t: int, folder: str) -> None:
    """Draw the usage of all runs that have lived since a time, on one page."""
    try:
        store = _open()
        runs = [run for run in select(store) if run.end_t is None or run.end_t >= begun_t]
        if not runs:
            say("there is no usage report: no call has come in")
            return
        _draw(store, runs[::-1], folder)
    except (VedetteError, OSError) as error:
        say(f"there is no usage report: {error}")


def _open() -> Reader:
    store, warning = HomeAccess.of(settings.load()).open()
    if warning:
        say(warning)
    return store


def _draw(store: Reader, runs: Sequence[RunView], folder: str) -> None:
    from vedette.views.usage_page import page  # noqa: PLC0415 - numpy and rich, which a script need not wait for

    uses, hosts, marks = usage.together(store, runs)
    if not uses:
        say(f"there is no usage report: {usage.why_none(store, runs[0].id)}")
        return
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "index.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page(runs, uses, hosts, marks))
    say(f"the usage report is in {path}")


def say(text: str) -> None:
    """Tell the user a sentence on stderr."""
    sys.stderr.write(f"vedette: {text}\n")
