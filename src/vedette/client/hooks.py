"""The hooks by which a run records things by itself: log records, warnings, printed lines, and workers that join."""

import os

from vedette.client import children, logs, streams, warned
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.settings import Settings


def install(run: Run, settings: Settings) -> None:
    """Record logs, warnings and output for this run, until it ends."""
    chosen = settings.logs
    if chosen.enable:
        logs.install(run._journal, chosen.level)
        warned.install(run._journal)
    if chosen.output and os.environ.get("VEDETTE_CAPTURED") != run.id:  # else `vedette run` records the output
        streams.install(run._journal)
    run._on_end.append(_remove)
    children.invite(run, settings.upstream)


def _remove() -> None:
    for part in (streams.remove, warned.remove, logs.remove):
        try:
            part()
        except Exception as error:
            swallow(error, "the end of the run")
