"""Tries of a run: in their order, and which of their points stand.

A run that is resumed has more than one try. For one series, a point of a try is superseded when a later try has
a point at the same step: what an earlier try logged beyond that stays. Processes of one try never supersede each
other. Later is the higher by (n, id), as it is for the run's state; nothing here looks at a clock. A try of which
nothing but points has come has no place in that order: it is shown beside the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from vedette.store import Part, Points, Reader, SpanQuery, SpanRow, joined

_MOST_N = 1 << 63

Order = tuple[int, str]


def order(row: SpanRow) -> Order:
    """Return what tries of one run are ordered by: the higher is the later."""
    n = row.attrs.get("n")
    return (n if isinstance(n, int) and -_MOST_N <= n < _MOST_N else 0), row.id


def of_runs(store: Reader, runs: Iterable[str]) -> dict[str, list[SpanRow]]:
    """Return the tries of these runs, the first one first."""
    found: dict[str, list[SpanRow]] = defaultdict(list)
    wanted = tuple(runs)
    for row in store.spans(SpanQuery(kind="try", parents=wanted)) if wanted else ():
        found[row.parent].append(row)
    return {run: sorted(rows, key=order) for run, rows in found.items()}


def try_of(process: str) -> str:
    """Return the id of the try that a process took part in."""
    return process.rpartition("/")[0]


def standing(store: Reader, series: Mapping[int, Sequence[Part]]) -> dict[int, Points]:
    """Return the points of each series that no later try has logged again."""
    rivals = {
        run
        for parts in series.values()
        if len(parts) > 1
        for run, tries in _by_run(parts).items()
        if run and len(tries) > 1
    }
    orders = {row.id: order(row) for rows in of_runs(store, rivals).values() for row in rows} if rivals else {}
    return {number: _standing(parts, orders) if orders else _all(parts) for number, parts in series.items()}


def _all(parts: Sequence[Part]) -> Points:
    return joined([part.points for part in parts])


def _standing(parts: Sequence[Part], orders: Mapping[str, Order]) -> Points:
    import numpy as np

    left: list[Points] = []
    for tries in _by_run(parts).values():
        left += [points for name in tries if name not in orders for points in tries[name]]
        later: list[Points] = []
        for name in sorted(tries.keys() & orders.keys(), key=lambda name: orders[name], reverse=True):
            points = joined(tries[name])
            stands = np.ones(len(points), dtype=bool)
            for other in later:
                stands &= np.isin(points.step, other.step, invert=True)
            left.append(Points(points.step[stands], points.t[stands], points.value[stands]))
            later.append(points)
    return joined(left[::-1])  # the first try first: mostly that is by step already


def _by_run(parts: Sequence[Part]) -> dict[str, dict[str, list[Points]]]:
    """Sort parts by run and try: tries of different runs have nothing to say of each other."""
    found: dict[str, dict[str, list[Points]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        name = try_of(part.process)
        found[try_of(name)][name].append(part.points)
    return found
