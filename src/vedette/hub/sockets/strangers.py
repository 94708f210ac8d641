"""Connections from other machines that have not shown a token yet: they are few, and the oldest give way.

Whoever has the token sends it at once. So when there are too many, it is those that wait for long that are closed, and
first those of the address that has the most: a crowd of strangers does not keep the others out.
"""

from collections import Counter
from collections.abc import Callable, Hashable


class Strangers:
    """Holds so many at most."""

    def __init__(self, most: int, refused: Callable[[], None]) -> None:
        """`refused` counts those that had to give way."""
        self._most = most
        self._refused = refused
        self._waiting: dict[Hashable, tuple[str, Callable[[], object]]] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, peer: Hashable, host: str, close: Callable[[], object]) -> None:
        """Note a new one; `close` ends its connection."""
        self._waiting[peer] = host, close
        if len(self._waiting) > self._most:
            busiest, _ = Counter(host for host, _ in self._waiting.values()).most_common(1)[0]
            oldest = next(peer for peer, (host, _) in self._waiting.items() if host == busiest)
            _, end = self._waiting.pop(oldest)
            self._refused()
            end()

    def leave(self, peer: Hashable) -> None:
        """Note that one has shown a token, or is gone."""
        self._waiting.pop(peer, None)
