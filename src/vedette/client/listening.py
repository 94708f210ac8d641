"""All that a run takes down by itself while it lasts: log records, warnings, what is printed, its workers' words."""

import os

from vedette.client import children, logs, streams, warned
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.settings import Settings


def listen(run: Run, settings: Settings) -> None:
    """Take down what the program says, for this run and until it ends."""
    chosen = settings.logs
    if chosen.enable:
        logs.install(run._journal, chosen.level)
        warned.install(run._journal)
    if chosen.output and os.environ.get("VEDETTE_CAPTURED") != run.id:  # else `vedette run` does it
        streams.install(run._journal)
    run._on_end.append(_stop)
    children.invite(run, settings.upstream)


def _stop() -> None:
    for part in (streams.remove, warned.remove, logs.remove):
        try:
            part()
        except Exception as error:
            swallow(error, "the end of the run")
