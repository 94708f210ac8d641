"""Merges the short chunks of origins, a small step at a time, so that nobody waits for it."""

import time
from collections import deque
from collections.abc import Iterator

from vedette.store import Store

_STEP_S = 0.05  # so long at most between two turns


class Tidying:
    """The origins whose short chunks are to be merged. What a hub leaves undone costs only space."""

    def __init__(self, store: Store) -> None:
        """Have nothing to do yet."""
        self._store = store
        self._waiting: deque[str] = deque()
        self._doing: Iterator[int] | None = None

    @property
    def busy(self) -> bool:
        """Whether there is something to merge."""
        return self._doing is not None or bool(self._waiting)

    def ask(self, origin: str) -> None:
        """Have an origin's chunks merged later."""
        if origin not in self._waiting:
            self._waiting.append(origin)

    def step(self) -> None:
        """Merge for a moment."""
        until = time.monotonic() + _STEP_S
        while self.busy and time.monotonic() < until:
            if self._doing is None:
                self._doing = self._store.tidying(self._waiting.popleft())
            if next(self._doing, None) is None:
                self._doing = None

    def forget(self) -> None:
        """Do no more: the store has failed, and what was begun is rolled back."""
        self._doing = None
