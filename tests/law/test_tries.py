"""Which points of a resumed run stand: against a plain oracle, and with variants that the check must catch."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette.ids import enclosing
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.query import tries
from vedette.query.series import history, over_runs
from vedette.store import Batch, Columns, joined
from vedette.store.sqlite import SqliteStore

RUN = "run"


class Point(NamedTuple):
    """One call of log: by which process of which try, when, at which step."""

    attempt: str
    process: str
    t: int
    step: int
    value: float


ATTEMPTS = st.dictionaries(st.sampled_from("1abcz"), st.integers(0, 3), min_size=1, max_size=4)  # ties of n too


@st.composite
def stories(draw):
    """Tries with their n, and what each of their processes has logged, in any order of time."""
    attempts = draw(ATTEMPTS)
    calls = st.tuples(st.sampled_from(sorted(attempts)), st.sampled_from("pq"), st.integers(0, 50), st.integers(-2, 6))
    said = draw(st.lists(calls, max_size=40))
    points = [Point(attempt, attempt + who, t * 1000, step, float(n)) for n, (attempt, who, t, step) in enumerate(said)]
    return attempts, points, draw(st.permutations(sorted({point.process for point in points})))


def keep(store, attempts, points, processes):
    """Keep what was said, the processes in the order given, each in two batches."""
    told = [
        Span(f"{RUN}/{key}", 1, state="running", kind="try", parent=RUN, attrs={"n": n}) for key, n in attempts.items()
    ]
    store.keep([Batch(Origin("teller", span=RUN), LANE_FACTS, len(told), facts=list(enumerate(told, 1)))])
    for process in processes:
        mine = [point for point in points if point.process == process]
        origin = Origin(process, span=RUN, process=f"{RUN}/{mine[0].attempt}/{process}")
        for first in range(0, len(mine), 3):
            part = mine[first : first + 3]
            offsets = [first + i + 1 for i in range(len(part))]
            columns = Columns(
                RUN, {}, ("x",), offsets, [p.t for p in part], [p.step for p in part], [(p.value,) for p in part]
            )
            store.keep([Batch(origin, LANE_SAMPLES, offsets[-1], columns=[columns])])


def oracle(attempts, points):
    """The promise in plain words: a point is hidden if a later try has a point at its step."""

    def later(a, b):
        return (attempts[a], f"{RUN}/{a}") > (attempts[b], f"{RUN}/{b}")

    return [p for p in points if not any(q.step == p.step and later(q.attempt, p.attempt) for q in points)]


def by_step(points):
    return sorted((p.step, p.t, p.value) for p in points)


def shown(found):
    return sorted(zip(found.step.tolist(), found.t.tolist(), found.value.tolist(), strict=True))


def check(folder, story):
    attempts, points, processes = story
    store = SqliteStore(f"{folder}/store{len(list(folder.iterdir()))}.db")
    try:
        keep(store, attempts, points, processes)
        if not points:
            return
        found = history(store, RUN, "x")
        assert shown(found) == by_step(oracle(attempts, points))
        assert found.step.tolist() == sorted(found.step.tolist())
        assert shown(over_runs(store, [RUN, "nobody"], "x")[RUN]) == shown(found)
        assert shown(history(store, RUN, "x", all_tries=True)) == by_step(points)
    finally:
        store.close()


@settings(max_examples=times(50), deadline=None)
@given(story=stories())
def test_a_later_try_supersedes_the_steps_that_it_logs_again(tmp_path_factory, story):
    """Whatever was logged by whom and when: shown is what no later try logged again, and kept is all."""
    check(tmp_path_factory.mktemp("law"), story)


# A resumed rank logs steps 1 and 2 again; its clock is an hour behind; a second rank is there in both tries.
RESUMED = (
    {"1": 1, "b": 7, "a": 9},
    [
        Point("1", "1p", 9_000, 0, 0.0),
        Point("1", "1p", 9_001_000, 1, 1.0),
        Point("1", "1q", 9_001_000, 1, 1.5),
        Point("1", "1p", 9_002_000, 2, 2.0),
        Point("1", "1p", 9_009_000, 9, 9.0),
        Point("b", "bp", 5_000, 1, 11.0),
        Point("a", "ap", 1_000, 1, 21.0),
        Point("a", "aq", 1_000, 1, 21.5),
        Point("a", "ap", 2_000, 2, 22.0),
    ],
    ["aq", "1p", "bp", "ap", "1q"],
)


def test_a_resumed_run(tmp_path):
    """The highest try's points stand, of both its ranks; what the first try logged beyond them stays."""
    check(tmp_path, RESUMED)
    attempts, points, _ = RESUMED

    assert [p.value for p in sorted(oracle(attempts, points), key=lambda p: (p.step, p.value))] == [
        0.0, 21.0, 21.5, 22.0, 9.0,
    ]  # fmt: skip


def _newest_by_time(parts, orders):
    """A variant: of each step the point that was logged last."""
    points = joined([part.points for part in parts])
    last = {step: at for at, (step, _) in enumerate(zip(points.step.tolist(), points.t.tolist(), strict=True))}
    chosen = sorted(last.values())
    return type(points)(points.step[chosen], points.t[chosen], points.value[chosen])


def _by_process(parts, orders):
    """A variant: each process supersedes the others, as if it were a try."""
    left, again = [], np.empty(0, dtype=np.int64)
    for part in sorted(parts, key=lambda part: (orders[enclosing(part.process)], part.process), reverse=True):
        stands = np.isin(part.points.step, again, invert=True)
        left.append(type(part.points)(*(getattr(part.points, name)[stands] for name in ("step", "t", "value"))))
        again = np.union1d(again, part.points.step)
    return joined(left)


def _by_id(parts, orders):
    """A variant: the later try is the one whose id is higher."""
    return _right(parts, {name: (0, name) for name in orders})


def _cut_at_resumption(parts, orders):
    """A variant: all that an earlier try logged from the first step of a later one on is gone."""
    found = _right(parts, orders)
    newest = max((part for part in parts), key=lambda part: orders[enclosing(part.process)])
    stands = found.step <= newest.points.step.max()
    return type(found)(found.step[stands], found.t[stands], found.value[stands])


_right = tries._standing


@pytest.mark.parametrize("variant", [_newest_by_time, _by_process, _by_id, _cut_at_resumption])
def test_wrong_variants_are_caught(tmp_path, monkeypatch, variant):
    """The check tells the rule from its neighbours: by time, by process, by id, cut at the resumption."""
    monkeypatch.setattr(tries, "_standing", variant)

    with pytest.raises(AssertionError):
        check(tmp_path, RESUMED)


def test_a_try_that_nothing_is_known_of_stands_aside(tmp_path):
    """Points of a try whose own record never came are shown beside the others, and hide none."""
    store = SqliteStore(str(tmp_path / "store.db"))
    keep(store, {"1": 1, "b": 2}, RESUMED[1][:6], ["1p", "1q", "bp"])
    keep(store, {}, RESUMED[1][6:], ["ap", "aq"])

    assert sorted(history(store, RUN, "x").value.tolist()) == [0.0, 2.0, 9.0, 11.0, 21.0, 21.5, 22.0]
    store.close()


def test_tries_of_other_runs_have_no_say(tmp_path):
    """A process of another run that logs to this one's series supersedes nothing, and nothing supersedes it."""
    store = SqliteStore(str(tmp_path / "store.db"))
    keep(store, {"1": 1, "b": 2}, RESUMED[1][:6], ["1p", "1q", "bp"])
    stranger = Origin("s", span=RUN, process="other/zzz/s")
    store.keep(
        [
            Batch(
                stranger, LANE_FACTS, 1, facts=[(1, Span("other/zzz", 1, kind="try", parent="other", attrs={"n": 9}))]
            ),
            Batch(stranger, LANE_SAMPLES, 1, columns=[Columns(RUN, {}, ("x",), [1], [77_000], [1], [(77.0,)])]),
        ]
    )

    assert sorted(history(store, RUN, "x").value.tolist()) == [0.0, 2.0, 9.0, 11.0, 77.0]
    store.close()
