"""The results of two runs: where each metric first diverged, last and best values, speed, use of resources."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vedette.query.columns import best_is_low
from vedette.query.runs import RunView
from vedette.store import Points, SeriesRow

_NOISE = 1e-6  # relative: float32 and another order of summation differ by so much
_MOST_METRICS = 1000
_BIN_NS = 10**9
_USES = ("cpu_percent", "memory_bytes", "gpu_memory_bytes", "read_bytes_per_s", "written_bytes_per_s")


class MetricPair(Struct, frozen=True):
    """A metric that both runs have; `first_step` is None if the two are equal at all common steps."""

    name: str
    tags: dict[str, str]
    first_step: int | None
    first_t: int | None  # when the first run logged that step, in nanoseconds
    equal_before: int  # how many common steps before that are equal
    common: int  # how many steps both have
    a_last: float | None
    b_last: float | None
    delta: float | None
    a_best: float | None  # None if the name does not tell whether lower or higher is better
    b_best: float | None
    a_steps: int | None  # the last step
    b_steps: int | None
    telling: bool = False  # the equal values were not constant, so their equality means something

    @property
    def ends_first(self) -> str:
        """Which of two that are equal at all common steps has the lower last step: "a" or "b"; else empty."""
        if self.first_step is not None or not self.common or self.a_steps is None or self.b_steps is None:
            return ""
        return "a" if self.a_steps < self.b_steps else "b" if self.b_steps < self.a_steps else ""


class Speed(Struct, frozen=True):
    """Steps per second, measured on the series that has the most points."""

    metric: str
    a: float | None
    b: float | None
    ratio: float | None  # how many times as fast the second is


class UsePair(Struct, frozen=True):
    """The use of one resource, summed over all processes of each run."""

    name: str
    a_mean: float | None
    b_mean: float | None
    a_max: float | None
    b_max: float | None


class Outcome(Struct, frozen=True):
    """What two runs logged and used, side by side."""

    metrics: list[MetricPair]
    only_a: list[str]
    only_b: list[str]
    speed: Speed
    usage: list[UsePair]
    left_out: int = 0  # common metrics that were not compared, since there are too many

    @property
    def diverged(self) -> list[MetricPair]:
        """Metrics that differ somewhere, the earliest first."""
        return [one for one in self.metrics if one.first_step is not None]


def outcome(a: RunView, b: RunView) -> Outcome:
    """Compare what two runs logged and used."""
    series = _by_name(a), _by_name(b)
    common = [key for key in series[0] if key in series[1]]
    looked_at = common[:_MOST_METRICS]
    most = max(looked_at, key=lambda key: (min(one[key].count for one in series), key), default=None)
    metrics, speed = [], Speed("", None, None, None)
    for key in looked_at:  # one by one: the points of a thousand metrics may not fit in memory
        both = _points(a, series[0][key]), _points(b, series[1][key])
        metrics.append(_pair(series[0][key], *both))
        if key == most:
            speed = _speed(key[0], *both)
    metrics.sort(key=lambda one: (one.first_step is None, one.first_step or 0, one.name, sorted(one.tags.items())))
    only = [sorted({name for name, _ in one} - {name for name, _ in other}) for one, other in (series, series[::-1])]
    left_out = max(0, len(common) - _MOST_METRICS)
    return Outcome(metrics, only[0], only[1], speed, _usage(a, b), left_out)


def diverge(a: Points, b: Points) -> tuple[int | None, int, int, bool]:
    """Find where two curves first differ by more than float noise: index in `a`, equal before, common, telling.

    Only common steps are compared; if a curve has a step twice, the later point counts.
    """
    steps, at_a, at_b = _common(a.step, b.step)
    x, y = a.value[at_a].astype(np.float64), b.value[at_b].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(x - y) <= _NOISE * np.maximum(np.abs(x), np.abs(y))
    same = (close & np.isfinite(x) & np.isfinite(y)) | (x == y) | (np.isnan(x) & np.isnan(y))
    wrong = np.flatnonzero(~same)
    before = int(wrong[0]) if len(wrong) else len(steps)
    telling = len(np.unique(x[: min(before, 1000)])) >= 3
    return (int(at_a[wrong[0]]) if len(wrong) else None), before, len(steps), telling


def _common(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    last_a, last_b = _lasts(a), _lasts(b)
    if np.array_equal(a[last_a], b[last_b]):
        return a[last_a], last_a, last_b
    steps, at_a, at_b = np.intersect1d(a[last_a], b[last_b], assume_unique=True, return_indices=True)
    return steps, last_a[at_a], last_b[at_b]


def _lasts(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the last point of each step; the steps are sorted."""
    return np.flatnonzero(np.append(steps[1:] != steps[:-1], True)) if len(steps) else np.empty(0, dtype=np.int64)


def _by_name(view: RunView) -> dict[tuple[str, tuple[tuple[str, str], ...]], SeriesRow]:
    found = {(row.name, tuple(sorted(row.tags.items()))): row for row in view.series()}
    return dict(sorted(found.items()))


def _points(view: RunView, row: SeriesRow) -> Points:
    return view.history(row.name, row.tags)


def _pair(row: SeriesRow, a: Points, b: Points) -> MetricPair:
    at, before, common, telling = diverge(a, b)
    a_last, b_last = _last(a), _last(b)
    return MetricPair(
        name=row.name,
        tags=row.tags,
        first_step=None if at is None else int(a.step[at]),
        first_t=None if at is None else int(a.t[at]),
        equal_before=before,
        common=common,
        a_last=a_last,
        b_last=b_last,
        delta=None if a_last is None or b_last is None else b_last - a_last,
        a_best=_best(row.name, a),
        b_best=_best(row.name, b),
        a_steps=int(a.step[-1]) if len(a) else None,
        b_steps=int(b.step[-1]) if len(b) else None,
        telling=telling,
    )


def _last(points: Points) -> float | None:
    return float(points.value[-1]) if len(points) else None


def _best(name: str, points: Points) -> float | None:
    finite = points.value[np.isfinite(points.value)]
    if not len(finite):
        return None
    low = best_is_low(name)
    return None if low is None else float(finite.min() if low else finite.max())


def _speed(metric: str, a: Points, b: Points) -> Speed:
    slow, fast = _rate(a), _rate(b)
    return Speed(metric, slow, fast, fast / slow if slow and fast else None)


def _rate(points: Points) -> float | None:
    """Return steps per second without pauses; a pause is a gap longer than twenty times the median."""
    if len(points) < 2:
        return None
    order = np.argsort(points.t, kind="stable")
    took, went = np.diff(points.t[order]) / 1e9, np.diff(points.step[order])
    forward = (went > 0) & (took > 0)
    if not forward.any():
        return None
    forward &= took <= 20 * np.median(took[forward])
    return float(went[forward].sum() / took[forward].sum())


def _usage(a: RunView, b: RunView) -> list[UsePair]:
    used = [_totals(view) for view in (a, b)]
    none = None, None
    found = []
    for name in _USES:
        if name in used[0] or name in used[1]:
            (a_mean, a_max), (b_mean, b_max) = (one.get(name, none) for one in used)
            found.append(UsePair(name, a_mean, b_mean, a_max, b_max))
    return found


def _totals(view: RunView) -> dict[str, tuple[float, float]]:
    """Return the mean and the maximum of each resource, after adding up all processes second by second."""
    sums: dict[str, dict[int, float]] = {}
    for use in view.usage():
        for name, (t, value) in use.series.items():
            if name not in _USES or not len(t):
                continue
            seconds, at = np.unique(t // _BIN_NS, return_inverse=True)
            means = np.bincount(at, weights=value) / np.bincount(at)
            total = sums.setdefault(name, {})
            for second, mean in zip(seconds.tolist(), means.tolist(), strict=True):
                total[second] = total.get(second, 0.0) + mean
    return {name: (sum(total.values()) / len(total), max(total.values())) for name, total in sums.items()}
