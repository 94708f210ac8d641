"""What another hub passes on: taken in once, whatever comes twice or overlaps, and refused when it does not fit on."""

import random

import numpy as np
import pytest

from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.turn.quota import Quota
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin
from vedette.settings import Limits
from vedette.store import Batch, Columns, Mark

US = Origin("o", span="r", process="r/1/o")
WIDE = Limits()


def heard(limits=WIDE, facts=0, samples=0):
    return RemoteOrigin(US, Mark(facts), Mark(samples), Quota(limits))


def part(start, offset, refusals=None):
    """The samples at places start+1 .. place, a row each."""
    n = list(range(start + 1, offset + 1))
    columns = Columns("r", {}, ("x",), n, n, n, [(float(p),) for p in n])
    return Batch(US, LANE_SAMPLES, offset, columns=[columns] if n else [], start=start, refusals=refusals or {})


def offsets(batches):
    return [n for batch in batches for columns in batch.columns for n in columns.n.tolist()]


class Doubling(RemoteOrigin):
    """A broken one, that does not look at what is here already."""

    def take(self, batch, now, inbox, at):
        self.offset[batch.lane] = batch.start
        return super().take(batch, now, inbox, at)


def deliver(kind, seed):
    """Deliver 200 rows in parts that overlap and repeat, sealing now and then; return the places as they were kept."""
    chance = random.Random(seed)
    one = kind(US, Mark(), Mark(), Quota(WIDE))
    committed, reached = [], 0
    while reached < 200:
        start = chance.randint(max(0, reached - 20), reached)
        offset = chance.randint(start, min(200, start + 30))
        assert one.take(part(start, offset), 0.0, "1", start)
        reached = max(reached, offset)
        if chance.random() < 0.3 and (batch := one.sealing(0.0, 0.0, all_of_it=True)) is not None:
            one.sent(batch, 0.0)
            one.committed(batch)
            committed.append(batch)
    if (batch := one.sealing(0.0, 0.0, all_of_it=True)) is not None:
        committed.append(batch)
    return offsets(committed)


@pytest.mark.parametrize("seed", range(30))
def test_what_overlaps_is_taken_once(seed):
    """However parts overlap and repeat, each row is kept once, in order."""
    assert deliver(RemoteOrigin, seed) == list(range(1, 201))


def test_the_check_can_fail():
    """Positive control: one that does not trim keeps rows twice, and the check sees it."""
    assert any(deliver(Doubling, seed) != list(range(1, 201)) for seed in range(5))


def test_what_lies_beyond_is_refused():
    """A part that begins behind what is here does not fit on, and changes nothing."""
    one = heard(samples=10)

    assert not one.take(part(11, 20), 0.0, "1", 0)
    assert one.offset == {LANE_FACTS: 0, LANE_SAMPLES: 10}
    assert one.sealing(0.0, 0.0, all_of_it=True) is None


def test_an_inbox_is_held_until_all_of_it_is_kept():
    """The place in the inbox at which something waits is held until that is kept, lane by lane."""
    one = heard()
    one.take(Batch(US, LANE_FACTS, 5, facts=[(5, Event("r", 1, "mark"))]), 0.0, "1", 100)
    one.take(part(0, 5), 0.0, "1", 200)
    one.take(part(5, 9), 0.0, "2", 0)
    assert one.needs == {("1", LANE_FACTS): 100, ("1", LANE_SAMPLES): 200, ("2", LANE_SAMPLES): 0}

    facts = one.read_facts()
    one.sent(facts, 0.0)
    one.committed(facts)
    assert one.needs == {("1", LANE_SAMPLES): 200, ("2", LANE_SAMPLES): 0}

    batch = one.sealing(0.0, 0.0, all_of_it=True)
    one.sent(batch, 0.0)
    one.take(part(9, 12), 0.0, "2", 300)
    one.committed(batch)
    assert one.needs == {("1", LANE_SAMPLES): 200, ("2", LANE_SAMPLES): 0}  # more than need be, never less
    rest = one.sealing(0.0, 0.0, all_of_it=True)
    assert (rest.start, rest.end) == (9, 12)
    one.sent(rest, 0.0)
    one.committed(rest)
    assert one.needs == {}


def test_many_facts_are_handed_over_a_part_at_a_time():
    """Some facts at a time, in their order, long ones fewer; what is kept of them does not let go of the inbox."""
    one = heard()
    facts = [(n, Event("r", n, "log", 20, "x" * (2560 if n > 5 else 1))) for n in range(1, 9)]
    one.take(Batch(US, LANE_FACTS, 10, facts=facts), 0.0, "1", 100)
    taken = []
    while one.has_facts:
        batch = one.read_facts(3)
        taken.append((batch.start, batch.end, [n for n, _ in batch.facts]))
        assert one.needs == {("1", LANE_FACTS): 100}
        one.sent(batch, 0.0)
        one.committed(batch)
    assert taken == [(0, 3, [1, 2, 3]), (3, 6, [4, 5, 6]), (6, 7, [7]), (7, 10, [8])]
    assert one.needs == {}


def test_it_is_due_when_full_old_or_over():
    """Samples wait until they are old or many, or until nothing will follow."""
    one = heard()
    assert not one.due(100.0, 60.0)
    one.take(part(0, 5), 100.0, "1", 0)
    assert not one.due(159.0, 60.0)
    assert one.due(160.0, 60.0)
    one.take(part(5, 5000), 100.0, "1", 0)
    assert one.due(101.0, 60.0)
    other = heard()
    other.take(part(0, 5), 100.0, "1", 0)
    other.over = True
    assert other.due(100.0, 60.0)


def test_limits_hold_for_what_is_passed_on():
    """Names that are too long and points that are too many are refused, counted by limit, and the rest is kept."""
    one = heard(Limits(name_chars=5, points_per_s=2))
    n = list(range(1, 51))
    columns = Columns("r", {}, ("x", "y" * 6), n, n, n, [(1.0, 2.0)] * 50)
    one.take(Batch(US, LANE_SAMPLES, 50, columns=[columns], refusals={"limits.name_chars": 7}), 0.0, "1", 0)

    batch = one.sealing(0.0, 0.0, all_of_it=True)

    assert [block.names for block in batch.columns] == [("x",)]
    assert np.array_equal(batch.columns[0].n, np.arange(1, 21))
    assert batch.refusals == {"limits.name_chars": 57, "limits.points_per_s": 30}
    assert one.sealing(0.0, 0.0, all_of_it=True).refusals == {}


def test_what_waits_can_be_read_before_it_is_sealed():
    """Samples that wait are handed out behind an offset, of the spans that are asked for; what is sealed is not."""
    one = heard()
    one.take(part(0, 10), 0.0, "1", 0)
    one.take(part(10, 25), 0.0, "1", 10)
    assert offsets([one.unsealed(("r",), 0)]) == list(range(1, 26))
    found = one.unsealed(("r",), 20)
    assert (found.start, found.end, offsets([found])) == (20, 25, [21, 22, 23, 24, 25])
    assert one.unsealed(("another",), 0) is None
    assert one.unsealed(("r",), 25) is None
    one.sent(one.sealing(0.0, 0.0, all_of_it=True), 0.0)
    one.take(part(25, 27), 0.0, "1", 25)
    assert (one.sealed, offsets([one.unsealed(("r",), 3)])) == (25, [26, 27])
