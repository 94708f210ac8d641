"""Conditions of `--where` that a store cannot check by itself, turned into conditions on the ids of runs.

Whether a run is lost depends on the time of the question, and the minimum, maximum and mean of a metric on its tries.
"""

import operator
import time
from collections.abc import Callable
from typing import Any

from vedette.labels import statistic
from vedette.query import statistics
from vedette.query.silence import LOST, LOST_AFTER_S, see, signs
from vedette.store import Both, Compare, Either, Not, Reader, SpanQuery, Where

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def for_store(
    store: Reader, where: Where, now: int | None = None, lost_after_s: float = LOST_AFTER_S,
    known: statistics.Known | None = None,
) -> Where:  # fmt: skip
    """Return a condition on runs that means the same at this moment, and that the store can check.

    `known`: a cache for who asks again and again.
    """
    now = time.time_ns() if now is None else now
    lost: list[Where] = []

    def is_lost() -> Where:
        if not lost:
            lost.append(Compare("id", "in", _lost(store, now, lost_after_s)))
        return lost[0]

    def told(part: Where) -> Where:
        if isinstance(part, Not):
            return Not(told(part.part))
        if isinstance(part, Both | Either):
            return type(part)(tuple(told(one) for one in part.parts))
        if part.field == "state":
            stated = Both((part, Not(is_lost())))
            return Either((stated, is_lost())) if _holds(LOST, part.op, part.value) else stated
        if part.field.startswith("metric.") and statistic(part.field)[1] not in ("", "last"):
            return _fitting(store, part, known)
        return part

    return told(where)


def _lost(store: Reader, now: int, lost_after_s: float) -> tuple[str, ...]:
    rows = store.spans(SpanQuery(kind="run", where=Compare("end", "=", None), only=()))
    heard = signs(store, [row.id for row in rows])
    return tuple(row.id for row in rows if see(row, heard.get(row.id), now, lost_after_s).state == LOST)


def _fitting(store: Reader, part: Compare, known: statistics.Known | None) -> Where:
    """Return which runs fit by their points; one without such points fits by a key of its summary of the same name."""
    name = part.field.removeprefix("metric.")
    runs = [row.id for row in store.spans(SpanQuery(kind="run", only=()))]
    found = statistics.values(store, name, runs, known)
    fitting = tuple(run for run, value in found.items() if _holds(value, part.op, part.value))
    summary = Compare(f"summary.{name}", part.op, part.value)
    return Either((Compare("id", "in", fitting), Both((Not(Compare("id", "in", tuple(found))), summary))))


def _holds(value: Any, op: str, wanted: Any) -> bool:
    """Check one condition as the store does: numbers are compared with numbers, and texts with texts."""
    if op == "in":
        return any(_holds(value, "=", one) for one in wanted)
    if op == "~":
        return str(wanted).lower() in str(value).lower()
    if wanted is None or isinstance(value, str) != isinstance(wanted, str):
        return False
    return _HOLDS[op](value, wanted)
