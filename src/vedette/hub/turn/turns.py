"""Whose turn it is, where there is not always time for everybody: nobody is held up for good by those before him."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Whoever had a turn is behind all others who want one; who comes later is behind them, too.

    So it is among groups, and within each: who comes under many names has one turn in which they take theirs.
    """

    def __init__(self, group_of: Callable[[str], str]) -> None:
        """`group_of` returns the group of one who wants a turn."""
        self._group_of = group_of
        self._order: dict[str, None] = {}
        self._groups: dict[str, None] = {}

    def sort(self, items: Iterable[T], whose: Callable[[T], str]) -> list[T]:
        """Return these items: first those of the one who is next. The items of one stay in their order."""
        of_each: dict[str, list[T]] = {}
        for item in items:
            of_each.setdefault(whose(item), []).append(item)
        self._order = _in_turn(self._order, of_each)
        of_group: dict[str, list[T]] = {}
        for who in self._order:
            of_group.setdefault(self._group_of(who), []).extend(of_each[who])
        self._groups = _in_turn(self._groups, of_group)
        return [item for group in self._groups for item in of_group[group]]

    def had(self, who: str) -> None:
        """Note that somebody had a turn."""
        for order, name in ((self._order, who), (self._groups, self._group_of(who))):
            order.pop(name, None)
            order[name] = None


def _in_turn(order: dict[str, None], wanting: Iterable[str]) -> dict[str, None]:
    """Return those who want a turn in their order; who is new is last."""
    wanting = dict.fromkeys(wanting)
    return {who: None for who in order if who in wanting} | wanting
