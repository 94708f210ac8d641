"""A cache that forgets what it learned first: what is looked up for each of very many runs must not stay for ever."""

import itertools
from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dict of bounded size, for what can be looked up again. When it is full, the older half is forgotten."""

    def __init__(self, most: int) -> None:
        """Hold up to `most` entries."""
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Remember something."""
        if len(self) >= self._most and key not in self:
            for old in list(itertools.islice(self, (self._most + 1) // 2)):
                del self[old]
        super().__setitem__(key, value)

    def learn(self, found: Mapping[K, V]) -> Mapping[K, V]:
        """Remember what was found, and return it: of very much, not all of it can be asked for here again."""
        for key, value in found.items():
            self[key] = value
        return found
