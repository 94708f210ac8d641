"""Marks in what is measured of a run: `vedette.Usage.checkpoint("epoch", 3)`."""

from typing import Any

from vedette.client import current


class Usage:
    """The usage of the current run, which the hub measures from outside."""

    @staticmethod
    def checkpoint(*labels: Any) -> None:
        """Put a mark on the timeline of what is measured; where nothing is measured it does nothing."""
        run = current._current
        if run is None:
            run = current.current()
        if run._measured:
            run.mark(*labels)
