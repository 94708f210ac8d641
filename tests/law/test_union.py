"""Two stores that have parts of the same, taken together, are the one store that got all of it."""

import itertools
import random
import shutil
import tempfile
from collections import deque
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette.model import LANE_FACTS, LANE_SAMPLES, Blob, Event, Origin
from vedette.store import Batch, Columns, archive, sqlite_merge, sqlite_merge_points
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_export import write_archive
from vedette.store.sqlite_file import open_reader

from .sayings import repeatable_examples
from .telling import told

GROUPS = (("x",), ("x", "y"), ("z",))
VALUES = (0, 1, 7, True, 0.5, -2.5, float("nan"), float("inf"), 1 << 60)


def sayings(chance: random.Random) -> list[Batch]:
    """Return what some origins say, cut into batches as a hub would cut them; each origin's are in order."""
    batches = []
    spans = {}
    for origin, n, span in repeatable_examples(seed=chance.randrange(1 << 30), count=1)[0].records:
        if span.state != "purged":  # what hangs below it is not taken in, which is another promise
            spans.setdefault(origin, {})[n] = span
    for number, name in enumerate(("a", "b", "hub-c")):
        who = Origin(name, "host", "boot", 7, number, "r", f"r/1/{name}")
        facts = dict(spans.get(name[-1], {}))
        facts |= {
            n: Event("r", n, "log", 20, f"word{n} of {name}", {"n": n}) for n in range(101, 101 + chance.randrange(5))
        }
        facts |= {200: Blob("r", 9, "code", "abc", 3)} if chance.random() < 0.5 else {}
        batches += _cut_facts(who, sorted(facts.items()), chance)
        batches += _cut_samples(who, chance)
    return batches


def _cut_facts(who: Origin, facts: list, chance: random.Random) -> list[Batch]:
    cuts = sorted({0, len(facts), *(chance.randrange(len(facts) + 1) for _ in range(3))})
    return [Batch(who, LANE_FACTS, facts[b - 1][0], facts=facts[a:b]) for a, b in itertools.pairwise(cuts)]


def _cut_samples(who: Origin, chance: random.Random) -> list[Batch]:
    """Cut into batches with a few records each; a batch is sealed by groups, as the hub does it."""
    batches, n, t = [], 0, chance.randrange(1000) * 1_000_000
    for place in range(chance.randrange(1, 6)):
        columns: dict[tuple[str, ...], Columns] = {}
        for _ in range(chance.choice((1, 3, 12))):
            n += chance.randrange(30, 40)
            t += chance.randrange(1000, 10_000_000)
            names = chance.choice(GROUPS)
            group = columns.setdefault(names, Columns(chance.choice(("r", "r", "q")), {}, names, [], [], [], []))
            group.n.append(n)
            group.t.append(t)
            group.step.append(n)
            group.rows.append(tuple(chance.choice(VALUES) for _ in names))
        n += 16
        batches.append(
            Batch(who, LANE_SAMPLES, n, damaged=place // 2, refused=place // 3, columns=list(columns.values()))
        )
    return batches


def joined(first: Batch, second: Batch) -> Batch:
    """Return two batches of a lane as one: they were sealed together."""
    columns: dict = {}
    for part in (*first.columns, *second.columns):
        held = columns.setdefault((part.span, part.names), Columns(part.span, {}, part.names, [], [], [], []))
        for name in ("n", "t", "step", "rows"):
            getattr(held, name).extend(getattr(part, name))
    return Batch(second.origin, second.lane, second.end, second.damaged, second.refused,
                 first.facts + second.facts, list(columns.values()))  # fmt: skip


def fill(path: str, batches: list[Batch], chance: random.Random, share: float = 1.0) -> None:
    """Keep some of the batches, some of them sealed together, the lanes in any order; merge chunks now and then."""
    lanes: dict = {}
    for batch in batches:
        if chance.random() < share:
            lane = lanes.setdefault((batch.origin.name, batch.lane), [])
            if lane and chance.random() < 0.4:
                lane[-1] = joined(lane[-1], batch)
            else:
                lane.append(batch)
    with closing(SqliteStore(path)) as store:
        while lanes:
            key = chance.choice(sorted(lanes))
            store.keep([lanes[key].pop(0)], {key[0]: chance.randrange(100)})
            if not lanes[key]:
                del lanes[key]
            if chance.random() < 0.3:
                store.tidy(key[0])


def absorb(path: str, source: str) -> None:
    with closing(SqliteStore(path)) as store, closing(open_reader(source)) as other:
        for _ in store.absorb(other):
            pass


@settings(deadline=None, max_examples=times(20))
@given(st.integers(0, 1 << 30))
def test_two_stores_united_are_the_one_that_got_everything(seed: int):
    """Whichever parts two stores have, united in either order, once or twice they tell what one that got all tells."""
    chance = random.Random(seed)
    batches = sayings(chance)
    with tempfile.TemporaryDirectory() as folder:
        parts = {"one": batches}
        for name in ("left", "right"):
            parts[name] = [batch for batch in batches if chance.random() < 0.7]
        either = [batch for batch in batches if batch in parts["left"] or batch in parts["right"]]
        fill(f"{folder}/one", either, chance)
        for name in ("left", "right"):
            fill(f"{folder}/{name}", parts[name], chance)
        for first, second in (("left", "right"), ("right", "left")):
            path = f"{folder}/{first}+{second}"
            shutil.copy(f"{folder}/{first}", path)
            absorb(path, f"{folder}/{second}")
            united = told(path)
            absorb(path, f"{folder}/{second}")
            absorb(path, f"{folder}/{first}")

            assert told(path) == united
            assert _without_heard(united) == _without_heard(told(f"{folder}/one"))
            absorb(f"{folder}/one", path)
            assert _without_heard(united) == _without_heard(told(f"{folder}/one"))
        assert told(f"{folder}/left+right") == told(f"{folder}/right+left")


def _without_heard(found: dict) -> dict:
    return {key: value for key, value in found.items() if key != "heard"}


def test_the_law_notices_points_taken_twice(monkeypatch):
    """The positive control: a union that does not look at which samples are here doubles them, and is found out."""
    monkeypatch.setattr(sqlite_merge_points.Held, "new", lambda *_: np.ones(len(_[1]), dtype=bool))
    monkeypatch.setattr(sqlite_merge_points.Held, "has_same", lambda *_: False)

    check = test_two_stores_united_are_the_one_that_got_everything.hypothesis.inner_test
    with pytest.raises(AssertionError):
        deque(map(check, range(10)))


@pytest.mark.parametrize("seed", range(5))
def test_a_union_that_stops_anywhere_is_finished_by_the_next(seed: int, tmp_path):
    """Each step is whole in itself: when a union is given up after any of them, the next one comes to the same."""
    chance = random.Random(seed)
    batches = sayings(chance)
    fill(f"{tmp_path}/one", batches, chance)
    fill(f"{tmp_path}/left", batches[: len(batches) // 2], chance)
    fill(f"{tmp_path}/right", batches, chance)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(sqlite_merge, "_STEP_ROWS", 1)
    monkey.setattr(sqlite_merge_points, "_STEP_AXES", 1)
    stops, done = 0, 0
    try:
        while done == stops:
            stops += 1 + stops // 3
            with closing(SqliteStore(f"{tmp_path}/left")) as store, closing(open_reader(f"{tmp_path}/right")) as other:
                if chance.random() < 0.3:
                    store.tidy("a")
                done = len(list(itertools.islice(store.absorb(other), stops)))
    finally:
        monkey.undo()

    assert stops > 3
    assert _without_heard(told(f"{tmp_path}/left")) == _without_heard(told(f"{tmp_path}/one"))


@pytest.mark.parametrize("seed", range(5))
def test_samples_that_came_ahead_are_not_doubled_by_their_spool(seed: int, tmp_path):
    """Samples that were taken in while their origin's mark stayed behind are known again when they come in order."""
    chance = random.Random(seed)
    batches = sayings(chance)
    fill(f"{tmp_path}/one", batches, chance)
    fill(f"{tmp_path}/right", batches, chance)
    with closing(SqliteStore(f"{tmp_path}/right")) as store:
        store.connection.execute("DELETE FROM marks")  # as an archive of a part has none
    absorb(f"{tmp_path}/left", f"{tmp_path}/right")
    fill(f"{tmp_path}/left", batches, chance)

    left, one = told(f"{tmp_path}/left"), told(f"{tmp_path}/one")
    for found in (left, one):
        found.pop("heard")
        found["marks"] = {key: mark for key, mark in found["marks"].items() if key[1] != sqlite_merge_points.AHEAD}
    assert left == one


@settings(deadline=None, max_examples=times(12))
@given(st.integers(0, 1 << 30))
def test_an_archive_depends_on_what_is_in_it_alone(seed: int):
    """Stores that know the same, whatever was sealed together, write the same bytes, and so does one that read them."""
    chance = random.Random(seed)
    batches = sayings(chance)
    with tempfile.TemporaryDirectory() as folder:
        written = []
        for name in ("left", "right"):
            fill(f"{folder}/{name}", batches, chance)
            written.append(export(f"{folder}/{name}", f"{folder}/{name}.vedette"))
        for _ in archive.unpack(f"{folder}/left.vedette", f"{folder}/unpacked"):
            pass
        with (
            closing(SqliteStore(f"{folder}/third")) as store,
            closing(archive.open_careful(f"{folder}/unpacked", "")) as other,
        ):
            for _ in store.absorb(other):
                pass
        written.append(export(f"{folder}/third", f"{folder}/third.vedette"))

        assert written[0] == written[1] == written[2]
        before, after = told(f"{folder}/left", heard=False), told(f"{folder}/third", heard=False)
        assert before["spans"] == after["spans"]
        assert before["points"] == after["points"]
        assert before["series"] == after["series"]
        assert before["events"] == after["events"]


def export(store: str, path: str) -> bytes:
    with closing(open_reader(store)) as reader:
        write_archive(reader, ["r", "q"], path, print)
    with open(path, "rb") as file:
        return file.read()
