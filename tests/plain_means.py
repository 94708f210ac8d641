"""Means, deviations and smoothing by plain numpy over all points: what the page must agree with."""

import math
from typing import Any

import numpy as np

NEAR = 1e-6  # relative


def smoothed(value: Any, kind: str, by: float) -> Any:
    """Return the smoothed value at each point, from the first one on; NaN where the value is not finite."""
    found = np.full(len(value), np.nan)
    finite = np.isfinite(value)
    if kind == "ema":
        above = below = 0.0
        for at in np.flatnonzero(finite):
            above, below = above * by + value[at], below * by + 1
            found[at] = above / below
        return found
    reach = max(1, math.ceil(3 * by))
    for at in np.flatnonzero(finite):
        near = np.arange(max(0, at - reach), min(len(value), at + reach + 1))
        near = near[finite[near]]
        found[at] = np.average(value[near], weights=np.exp(-((near - at) ** 2) / (2 * by * by)))
    return found


def check(told: Any, x: Any, value: Any, low: float | None, high: float | None, smooth: Any = None) -> None:
    """Compare buckets with plain numpy over all points: x, which is sorted, and their values."""
    order = np.argsort(x, kind="stable")
    x, value = np.asarray(x, float)[order], np.asarray(value, float)[order]
    index = np.floor((x - told.origin) / told.width).astype(int)
    inside = np.ones(len(x), bool)
    if low is not None:
        inside &= index >= math.floor((low - told.origin) / told.width)
    if high is not None:
        inside &= index <= math.floor((high - told.origin) / told.width)
    assert np.asarray(told.index).tolist() == np.unique(index[inside]).tolist()
    starts = np.searchsorted(index, told.index)
    ends = np.searchsorted(index, told.index, "right")
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = value[start:end]
        here = np.flatnonzero(np.isfinite(part))
        finite = part[here]
        assert told.count[at] == len(finite)
        if not len(finite):
            assert np.isnan(told.mean[at])
            assert np.isnan(told.smooth[at])
            continue
        base = finite[0]  # numpy adds up as they are: where the mean is large, it loses what deviates
        assert told.mean[at] == approx(base + np.mean(finite - base))
        assert told.m2[at] == approx(np.var(finite - base) * len(finite), 1e-12 + 1e-15 * abs(base) * len(finite))
        if smooth is not None:
            last = start + here[-1]
            assert told.x[at] == approx(x[last])
            assert told.smooth[at] == approx(smooth[last])


def approx(value: float, least: float = 1e-12) -> Any:
    """Return what is near enough."""
    import pytest

    return pytest.approx(float(value), rel=NEAR, abs=least)


def fill(home: Any, prefix: str, count: int, points: int) -> Any:
    """Put runs of many points, which are hit by spikes, into the store of a home; return their values, a row each."""
    from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
    from vedette.store import Batch, Block
    from vedette.store.sqlite import SqliteStore

    born = 1_780_000_000 * 10**9
    chance = np.random.default_rng(count)
    step = np.arange(points, dtype=np.int64)
    value = np.exp(-step / points) + np.abs(chance.normal(0, 0.2, (count, points))) ** 3
    store = SqliteStore(home.store)
    for number in range(count):
        run = f"{prefix}{number:03d}"
        who = Origin(f"o-{run}", host="camp", span=run, process=f"{run}/1/p")
        config = {"config": {"seed": number, "half": number % 2}}
        facts = [
            Span(run, born, "created", kind="run", name=run, attrs=config),
            Span(f"{run}/1", born, "done", kind="try", parent=run, attrs={"n": 1}),
            Span(run, born + 10**9, "done"),
        ]
        block = Block(run, {}, ("loss",), step + 1, born + step * 1000, step, (value[number],))
        store.keep([Batch(who, LANE_FACTS, 3, facts=list(enumerate(facts, 1)))])
        store.keep([Batch(who, LANE_SAMPLES, points, columns=[block])])
    store.close()
    return value


def worst(rows: list[dict[str, str]], value: Any, weight: float = 0.0) -> float:
    """Return by how much a mean that the page has exported is off plain numpy at most, relative; so its band."""
    count, points = value.shape
    width = 1 << max(0, math.ceil(math.log2(points / 1024)))
    starts = np.arange(0, points, width)
    ends = np.append(starts[1:], points)
    if weight:
        of_runs = np.array([smoothed(one, "ema", weight)[ends - 1] for one in value])
        x = ends - 1
    else:
        of_runs = np.add.reduceat(value, starts, axis=1) / (ends - starts)
        x = (starts + ends - 1) / 2
    mean, spread = of_runs.mean(axis=0), of_runs.std(axis=0, ddof=1)
    told = {name: np.array([float(row[name]) for row in rows]) for name in ("step", "value", "low", "high")}
    assert told["step"].tolist() == x.tolist()
    assert {row["curves_here"] for row in rows} == {str(count)}
    off = (told["value"] / mean - 1, told["low"] / (mean - spread) - 1, told["high"] / (mean + spread) - 1)
    return max(float(np.abs(one).max()) for one in off)
