"""Whose is what, where more is known than a hub keeps in memory."""

import time

import pytest

from vedette.hub.peers import trust
from vedette.hub.peers.trust import Trust
from vedette.model import LANE_FACTS, Event, Origin
from vedette.store import Batch
from vedette.store.sqlite import SqliteStore

T = 10**18
MOST = 4


def about(*spans):
    """Make a batch of lines about spans."""
    lines = [(n, Event(span, T, "log", 20, "a line")) for n, span in enumerate(spans, 1)]
    return Batch(Origin("origin"), LANE_FACTS, len(lines), facts=list(lines))


@pytest.mark.parametrize("others", range(3 * MOST))
def test_nothing_follows_from_what_was_forgotten(tmp_path, monkeypatch, others):
    """However many runs a relay names beside that of another's, before or behind it, that one stays the other's."""
    monkeypatch.setattr(trust, "_MOST_CACHED", MOST)
    store = SqliteStore(str(tmp_path / "db"))
    whose = Trust(store, lambda: ())
    for relay in ("mallory", "alice"):
        whose.connected(relay, relay, "a-host")
    assert whose.screen(about("victim"), "alice") == 0
    mine = [f"{'ax'[number % 2]}-run{number}" for number in range(others)]  # before it and behind it by the alphabet

    whose.screen(about(*mine), "mallory")
    for anew in (False, True):  # and after a restart, which has forgotten all
        whose = Trust(store, lambda: ()) if anew else whose
        for batch in (about(*mine, "victim"), about("victim", *mine), about("victim")):
            whose.screen(batch, "mallory")
            assert "victim" not in {fact.span for _, fact in batch.facts}
            assert len(batch.facts) in (0, len(mine))
    assert whose.others(["origin"], "mallory") == set()
    assert whose.holder_of("victim") == "alice"


def test_a_host_that_is_taken_over_is_bound_once(tmp_path, monkeypatch):
    """Who tells of a silent relay's host many times in one batch has it from the first time on."""
    store = SqliteStore(str(tmp_path / "db"))
    whose = Trust(store, lambda: ())
    for relay in ("alice", "bob"):
        whose.connected(relay, relay, "a-host")
    assert whose.screen(about("host-a-1"), "alice") == 0
    now_t = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_t + 2 * trust._SILENCE_NS)
    whose.heard("bob")
    bound = []
    bind = store.bind
    monkeypatch.setattr(store, "bind", lambda *args, **how: (bound.append(args), bind(*args, **how)))

    batch = about(*["host-a-1"] * 10)
    assert whose.screen(batch, "bob") == 0

    assert len(batch.facts) == 10
    assert bound == [("bob", [], ["host-a-1"])]
    assert whose.screen(about("host-a-1"), "alice") == 0  # it is no offence, but it is left out
