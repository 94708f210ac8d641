"""Whether a process below the command has joined the run, and logs numbers itself: its spool says so."""

import os
from collections.abc import Iterator

from vedette.model import LANE_SAMPLES
from vedette.segment import list_segments, origin_of


class Joined:
    """Looks at the spools of a home."""

    def __init__(self, spools: str, run: str, own: str) -> None:
        """`own`: the origin of this process."""
        self._spools, self._run = spools, run
        self._others = {own}  # spools of other runs, and our own

    def any(self) -> bool:
        """Tell whether there is one that lives, or has ended a moment ago."""
        return any(True for _ in self._directories())

    def log_numbers(self) -> bool:
        """Tell whether one of them has written samples."""
        return any(list_segments(directory, LANE_SAMPLES) for directory in self._directories())

    def _directories(self) -> Iterator[str]:
        """Yield the spools of the run; one of another run is looked at once."""
        try:
            names = set(os.listdir(self._spools)) - self._others
        except OSError:
            return
        for name in names:
            directory = os.path.join(self._spools, name)
            origin = origin_of(directory)
            if origin is not None and origin.span != self._run:
                self._others.add(name)
            elif origin is not None:
                yield directory
