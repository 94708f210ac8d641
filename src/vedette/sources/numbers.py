"""Numbers in printed text: `loss=0.31, acc=0.9` as names and values, and the step that a line names."""

import re
from collections.abc import Iterator

_VALUE = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf(?:inity)?)"
# What makes another word of a number: `1.2.3`, `12:30`, `5/10`, `3s`, `1,234`, `2026-11-18`, `1-5`, `5%-10%`.
_GOES_ON = r"%?(?:\.?[\w:/]|,[+-]?\.?\d|[+-]\w)"
_PAIR = re.compile(  # a colon without a blank only before a fraction: not in times and addresses
    rf"(?<![\w./@-])([A-Za-z_][\w./@-]*)[\"']?\s*(?:=\s*|:\s+|:(?=[+-]?\d*\.\d))[\"']?({_VALUE})(?!{_GOES_ON})",
    re.IGNORECASE,
)
_STEP = re.compile(  # `epoch-3` is 3, but `step=-5` and `step -5` are negative
    r"\b(global[_ ]?step|step|iter(?:ation)?|epoch)s?\b\W{0,3}(?<!\W[-\u2212])(\d{1,18})(?![\w.]|,\d{3}(?!\d)|-\d)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"\s*\[(\d{1,18})\]\s")  # as boosted trees count their rounds
_NAME = re.compile(r"([A-Za-z_][\w./@-]*)[^\w]*$")
_ORDER = ("g", "s", "i", "e")  # if a line names several: the global step, the step, the iteration, the epoch


def number(text: str) -> float | None:
    """Return the number that a text is; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def pairs(text: str) -> Iterator[tuple[str, float]]:
    """Yield each `name=number` and `name: number`; those that name a step are left out."""
    for found in _PAIR.finditer(text):
        if not _STEP.fullmatch(f"{found[1]} 0"):
            yield found[1], float(found[2])


def step(text: str) -> int | None:
    """Return the step that a line names, as in `step=5`, `Epoch [3/10]` or `iteration 7`; None if it names none.

    A negative step is none.
    """
    found = {name[0].lower(): int(count) for name, count in reversed(_STEP.findall(text))}
    if (first := _FIRST.match(text)) is not None:
        found.setdefault(_ORDER[-1], int(first[1]))
    return next((found[kind] for kind in _ORDER if kind in found), None)


def name_before(text: str) -> str:
    """Return the last name in a text: `loss` of `epoch 3, loss: `; empty if there is none."""
    found = _NAME.search(text[-200:])
    return found[1] if found is not None else ""


class Steps:
    """The steps of series that count by themselves, or begin again and again: a series never goes back."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._base: dict[str, int] = {}

    def at(self, series: str, said: int | None) -> int:
        """Return the step of the next point of a series; `said`: the step that the program names, None: count."""
        last = self._last.get(series)
        if said is None:
            now = 0 if last is None else last + 1
        else:
            now = self._base.get(series, 0) + said
            if last is not None and now < last:  # it began anew, as the steps of an epoch may
                self._base[series] = last if said else last + 1
                now = self._base[series] + said
        self._last[series] = now
        return now
