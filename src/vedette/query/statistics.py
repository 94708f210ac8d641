"""Minimum, maximum, mean and last value of a metric in each run: what lists are sorted by, and `--where` asks for.

They are of the points that `history` returns: without those that a later try logged again, and without NaN. The store
has minimum and maximum of each series at hand; they are right unless the run has several tries. A mean is read from all
points.
"""

import math
from collections.abc import Sequence

from msgspec.structs import replace

from vedette.labels import parted, statistic
from vedette.query import tries
from vedette.query.series import labelled
from vedette.store import Points, Reader, SeriesRow

_AT_ONCE = 64  # series whose points are in memory at the same time
_MOST_KNOWN = 100_000

Number = float | int
# By series, its number of points, and the number of tries of its run: together they change when the result may.
Known = dict[tuple[int, int, int], tuple[int, float, float, float] | None]


def values(store: Reader, text: str, runs: Sequence[str], known: Known | None = None) -> dict[str, Number]:
    """Return one number of each of these runs that has it; `text` is `loss`, `loss.min`, `loss[rank=0].mean` ...

    Where several series have the name, the one without tags counts. Without such a one, `last` is of the one with the
    newest point, and the others are over all of them. `known`: a cache of what was read from points of this store.
    """
    known = {} if known is None else known
    found = _values(store, *_rows(store, text, runs), "last", known)
    series, what = statistic(text)
    if what:  # a series may itself be called `loss.min`
        found = _values(store, *_rows(store, series, [run for run in runs if run not in found]), what, known) | found
    return found


def with_extremes(store: Reader, rows: Sequence[SeriesRow]) -> list[SeriesRow]:
    """Return series of one run with the minimum and maximum of the points that count; the store's are of all tries."""
    found: Known = {}
    _points(store, {row.label: [row] for row in rows}, {}, "min", found)
    lows = {number: part for (number, _, _), part in found.items()}
    return [
        replace(row, min=part[1], max=part[2]) if (part := lows.get(row.id)) else replace(row, min=None, max=None)
        for row in rows
    ]


def _rows(store: Reader, text: str, runs: Sequence[str]) -> tuple[dict[str, list[SeriesRow]], dict[str, int]]:
    """Return the series that a text stands for in each run, and how many tries these runs have."""
    tags = parted(text)[1]
    rows = labelled(store, runs, text)
    found: dict[str, list[SeriesRow]] = {}
    for row in rows:
        found.setdefault(row.span, []).append(row)
    for run, several in found.items():
        found[run] = [row for row in several if row.tags == tags] or several
    return found, {run: len(known) for run, known in tries.of_runs(store, found).items()}


def _values(
    store: Reader, found: dict[str, list[SeriesRow]], tried: dict[str, int], what: str, known: Known
) -> dict[str, Number]:
    if what == "last":
        newest = {run: max(rows, key=lambda row: row.last_t or 0).last for run, rows in found.items()}
        return {run: value for run, value in newest.items() if value is not None}
    read = [run for run in found if what == "mean" or tried.get(run, 0) > 1]
    points = _points(store, {run: found[run] for run in read}, tried, what, known)
    kept = {
        run: [value for row in rows if (value := row.min if what == "min" else row.max) is not None]
        for run, rows in found.items()
        if run not in read
    }
    return points | {run: min(some) if what == "min" else max(some) for run, some in kept.items() if some}


def _points(
    store: Reader, found: dict[str, list[SeriesRow]], tried: dict[str, int], what: str, known: Known
) -> dict[str, Number]:
    """Return a statistic of runs from their points."""
    if len(known) > _MOST_KNOWN:
        known.clear()
    here = known.copy()  # another thread may clear it
    keys = {row.id: (row.id, row.count, tried.get(run, 0)) for run, rows in found.items() for row in rows}
    unread = [number for number, key in keys.items() if key not in here]
    for at in range(0, len(unread), _AT_ONCE):
        points = tries.standing(store, store.parts(unread[at : at + _AT_ONCE]))
        here |= {keys[number]: _read(some) for number, some in points.items()}
    known |= {key: here[key] for key in keys.values()}
    parts = {run: [part for row in rows if (part := here[keys[row.id]])] for run, rows in found.items()}
    return {run: _of(some, what) for run, some in parts.items() if some}


def _read(points: Points) -> tuple[int, float, float, float] | None:
    """Return how many numbers there are, their minimum, maximum and mean; None if there are none."""
    import numpy as np

    numbers = points.value.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        return len(numbers), float(numbers.min()), float(numbers.max()), float(numbers.mean())


def _of(rows: list[tuple[int, float, float, float]], what: str) -> float:
    if what == "min":
        return min(row[1] for row in rows)
    if what == "max":
        return max(row[2] for row in rows)
    total = sum(row[0] for row in rows)
    means = [row[3] * (row[0] / total) for row in rows]
    return math.fsum(means) if all(map(math.isfinite, means)) else sum(means)
