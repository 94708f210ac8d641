"""Whose turn it is, where there is not always time for everybody: nobody is held up for good by those before him."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Whoever had a turn is behind all others who want one; who comes later is behind them, too."""

    def __init__(self) -> None:
        self._order: dict[str, None] = {}

    def sort(self, items: Iterable[T], whose: Callable[[T], str]) -> list[T]:
        """Return these items: first those of the one who is next. The items of one stay in their order."""
        of_each: dict[str, list[T]] = {}
        for item in items:
            of_each.setdefault(whose(item), []).append(item)
        self._order = {who: None for who in self._order if who in of_each} | dict.fromkeys(of_each)
        return [item for who in self._order for item in of_each[who]]

    def had(self, who: str) -> None:
        """Note that somebody had a turn."""
        self._order.pop(who, None)
        self._order[who] = None
