"""Marks on the timeline of a run's measurements: `vedette.Usage.checkpoint("epoch", 3)`."""

from typing import Any

from vedette.client import current


class Usage:
    """The usage of the current run, which the hub measures from outside."""

    @staticmethod
    def checkpoint(*labels: Any) -> None:
        """Put a mark on the timeline; do nothing if the run is not measured."""
        run = current.current()
        if run._measured:
            run.mark(*labels)
