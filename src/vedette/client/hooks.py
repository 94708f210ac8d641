"""The hooks by which a run records things by itself: log records, warnings, printed lines, and workers that join."""

import os
import threading
from collections.abc import Callable

from vedette.client import children, logs, notebook, open_runs, streams, warned
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.interrupts import is_of_handler
from vedette.settings import Settings

_lock = threading.RLock()  # other threads begin and end runs, and a signal handler may begin one inside `install`


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()  # the thread that held it may be gone


os.register_at_fork(after_in_child=_renew_lock)


def install(run: Run, settings: Settings) -> None:
    """Record logs, warnings and output for this run, until it ends."""
    chosen = settings.logs
    run._on_end.append(lambda: _remove(run))
    with _lock:
        if chosen.enable:
            logs.install(run._journal, chosen.level)
            warned.install()
        if chosen.output and os.environ.get("VEDETTE_CAPTURED") != run.id:  # else `vedette run` records the output
            streams.install(run._journal)
        children.invite()
    notebook.begin(run, settings)


def _remove(run: Run) -> None:
    """Take the hooks away from a run; after the last one, from the program."""
    is_last = not [other for other in open_runs.all_open() if other is not run]
    parts: list[Callable[[], None]] = [lambda: streams.remove(run._journal)]
    parts += [warned.remove, children.uninvite] if is_last else []
    parts += [lambda: logs.remove(run._journal)]
    with _lock:
        _do_all(parts)


def _do_all(parts: list[Callable[[], None]]) -> None:
    """Do all of it, also if a signal handler of the user raises an error on the way; that gets out at the end."""
    while parts:
        try:
            parts[0]()
        except Exception as error:
            if is_of_handler(error):
                _do_all(parts)  # once more: it may be half done
                raise
            swallow(error, "the end of the run")
        del parts[:1]
