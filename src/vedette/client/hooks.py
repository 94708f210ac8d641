"""The hooks by which a run records things by itself: log records, warnings, printed lines, and workers that join."""

import os
from collections.abc import Callable

from vedette.client import children, logs, notebook, open_runs, streams, warned
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.settings import Settings


def install(run: Run, settings: Settings) -> None:
    """Record logs, warnings and output for this run, until it ends."""
    chosen = settings.logs
    if chosen.enable:
        logs.install(run._journal, chosen.level)
        warned.install()
    if chosen.output and os.environ.get("VEDETTE_CAPTURED") != run.id:  # else `vedette run` records the output
        streams.install(run._journal)
    run._on_end.append(lambda: _remove(run))
    children.invite()
    notebook.begin(run, settings)


def _remove(run: Run) -> None:
    """Take the hooks away from a run; after the last one, from the program."""
    is_last = not [other for other in open_runs.all_open() if other is not run]
    parts: list[Callable[[], None]] = [lambda: streams.remove(run._journal)]
    parts += [warned.remove, children.uninvite] if is_last else []
    parts += [lambda: logs.remove(run._journal)]
    for part in parts:
        try:
            part()
        except Exception as error:
            swallow(error, "the end of the run")
