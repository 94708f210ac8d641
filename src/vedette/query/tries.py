"""The tries of a run: their order, and which of their points count.

A run that is resumed has more than one try. In one series, a point of a try is superseded when a later try has a point
at the same step; all other points of the earlier try stay. Processes of one try never supersede each other. Tries are
ordered by (n, id), as for the run's state; no clock is involved. When the points of a try have arrived but its span
has not, it has no place in this order yet: all its points are shown.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from vedette.ids import enclosing
from vedette.store import Part, Points, Reader, SpanQuery, SpanRow, joined

_MOST_N = 1 << 63

Order = tuple[int, str]


def order(row: SpanRow) -> Order:
    """Return the sort key of a try among the tries of its run; a later try has a higher one."""
    n = row.attrs.get("n")
    return (n if isinstance(n, int) and -_MOST_N <= n < _MOST_N else 0), row.id


def of_runs(store: Reader, runs: Iterable[str]) -> dict[str, list[SpanRow]]:
    """Return the tries of these runs, by run; the first try comes first."""
    found: dict[str, list[SpanRow]] = defaultdict(list)
    wanted = tuple(runs)
    for row in store.spans(SpanQuery(kind="try", parents=wanted)) if wanted else ():
        found[row.parent].append(row)
    return {run: sorted(rows, key=order) for run, rows in found.items()}


def standing(store: Reader, series: Mapping[int, Sequence[Part]]) -> dict[int, Points]:
    """Return the points of each series, without those that a later try supersedes."""
    resumed = {
        run
        for parts in series.values()
        if len(parts) > 1
        for run, tries in _by_run(parts).items()
        if run and len(tries) > 1
    }
    orders = {row.id: order(row) for rows in of_runs(store, resumed).values() for row in rows} if resumed else {}
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
    return joined(left[::-1])  # the first try first: then the steps are mostly sorted already


def _by_run(parts: Sequence[Part]) -> dict[str, dict[str, list[Points]]]:
    """Group parts by run and try: a try supersedes only tries of its own run."""
    found: dict[str, dict[str, list[Points]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        name = enclosing(part.process)
        found[enclosing(name)][name].append(part.points)
    return found
