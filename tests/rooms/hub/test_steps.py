"""However much there is to do, one pass of the hub does a part of it, and nothing is lost or doubled by that."""

import os
import subprocess

import pytest

from tests.rooms.conftest import keeping
from tests.rooms.speaker import Speaker
from vedette.hub.turn import keeper as keepers
from vedette.hub.turn.seal_wish import SealWish
from vedette.model import Event
from vedette.store import EventQuery


def points(store):
    return {row.name: store.points([row.id])[row.id].value.tolist() for row in store.series()}


@pytest.fixture
def groups(monkeypatch):
    """How many groups each commit has; about a hundred at most."""
    monkeypatch.setattr(keepers, "MOST_GROUPS", 100)
    found = []
    commit = keepers.Commits.commit

    def counted(self, batches, now, change):
        found.append(sum(len(batch.columns) for _, batch in batches))
        return commit(self, batches, now, change)

    monkeypatch.setattr(keepers.Commits, "commit", counted)
    return found


@pytest.mark.parametrize("dies", [False, True])
def test_many_series_are_sealed_a_part_at_a_time(home, groups, dies):
    """Each transaction has a part of them; a hub that dies between two of these is followed by one that goes on."""
    speaker = Speaker(home, "wide")
    for number in range(1000):
        speaker.log(number, **{f"m{number}": 0.5 * number})
        if number % 50 == 0:
            speaker.log(number, dense=float(number))
    with keeping(home) as keeper:
        wish = SealWish("")
        for _ in range(4 if dies else 100):
            keeper.step([wish])
            if wish.is_done:
                break
        assert wish.is_done is not dies
        if dies:
            assert 0 < len(points(keeper.store)) < 1001
    with keeping(home) as keeper:
        keeper.turn(seal={""})
        found = points(keeper.store)
    assert found.pop("dense") == [50.0 * number for number in range(20)]
    assert found == {f"m{number}": [0.5 * number] for number in range(1000)}
    assert max(groups) <= 200


def test_a_seal_waits_for_its_own_run_only(home, monkeypatch):
    """Who asks for one run is answered when that was read, though another has more than can be read at once."""
    busy, quiet = Speaker(home, "busy"), Speaker(home, "quiet")
    quiet.log(1, x=1.0)
    for step in range(3000):
        busy.log(step, x=float(step))
    monkeypatch.setattr("vedette.hub.turn.spool_reader._READ_BYTES", 4000)
    with keeping(home) as keeper:
        wishes = SealWish("run-quiet"), SealWish("run-busy"), SealWish("")
        keeper.step(wishes)
        assert [wish.is_done for wish in wishes] == [True, False, False]
        for _ in range(100):
            keeper.step([wish for wish in wishes if not wish.is_done])
        assert all(wish.is_done for wish in wishes)
        assert points(keeper.store)["x"] != []


def test_what_there_was_no_time_for_is_read_later(home, monkeypatch):
    """Nobody is left out for ever, and what was read is committed."""
    for number in range(9):
        Speaker(home, f"p{number}").log(1, **{f"m{number}": 1.0})
    monkeypatch.setattr(keepers, "_READ_S", -1.0)
    with keeping(home) as keeper:
        keeper.step()
        assert not any(reader.was_read for reader in keeper.readers.values())
        monkeypatch.setattr(keepers, "_READ_S", 60.0)
        monkeypatch.setattr(keepers, "_MOST_FACTS", 6)  # three spools
        read = set()
        for _ in range(4):
            keeper.step()
            now = {name for name, reader in keeper.readers.items() if reader.was_read and name.startswith("p")}
            assert len(now - read) <= 3
            read = now
        assert len(read) == 9
        keeper.turn(seal={""})
        assert points(keeper.store) == {f"m{number}": [1.0] for number in range(9)}


@pytest.mark.parametrize("already_there", [False, True])
def test_a_program_is_read_while_another_begins_or_has_very_many_runs(home, monkeypatch, already_there):
    """The other takes all the time that a pass has, and this one is read in every pass all the same."""
    monkeypatch.setattr(keepers, "_MOST_FACTS", 6)  # three spools
    monkeypatch.setattr(keepers, "_MOST_NEW", 100)
    other = subprocess.Popen(["sleep", "60"])
    try:
        onlooker = Speaker(home, "onlooker")
        with keeping(home) as keeper:
            keeper.step()
            if already_there:
                of_other = [Speaker(home, f"r{number:03d}", pid=other.pid) for number in range(50)]
                keeper.step()
            for step in range(1, 20):
                if already_there:
                    for speaker in of_other:
                        for _ in range(2):
                            speaker.say(Event(f"run-{speaker.process}", step, "log", 20, "words"))
                else:
                    of_other = [Speaker(home, f"r{step:03d}-{number}", pid=other.pid) for number in range(4)]
                onlooker.say(Event("run-onlooker", step, "log", 20, f"words {step}"))
                keeper.step()
                [told] = keeper.store.events(EventQuery(span="run-onlooker", last=1))
                assert told.text == f"words {step}"
    finally:
        other.kill()
        other.wait()


def test_many_spools_are_met_and_removed_a_part_at_a_time(home, monkeypatch):
    """All runs that ended are kept, their spools are gone, and few files were open at any time."""
    monkeypatch.setattr(keepers, "_MOST_NEW", 7)
    monkeypatch.setattr(keepers, "_MOST_REMOVED", 3)
    monkeypatch.setattr(keepers, "_MOST_FILES", 4)
    for number in range(30):
        speaker = Speaker(home, f"p{number:02d}")
        speaker.log(1, **{f"m{number}": 1.0})
        speaker.end()
        del speaker
    met = []
    with keeping(home) as keeper:
        while any(not name.startswith("hub-") for name in os.listdir(home.spool)):
            _, more = keeper.step()
            met.append(len(keeper.readers))
            held = [tail for reader in keeper.readers.values() for tail in (reader._facts, reader._samples)]
            assert sum(tail._fd is not None for tail in held) <= 4
            assert len(met) < 100
        assert max(met) < 30
        assert len(keeper.watcher._processes) <= 1
        assert points(keeper.store) == {f"m{number}": [1.0] for number in range(30)}
        assert more is not None


def test_quiet_spools_among_many_are_looked_at_now_and_then(home, monkeypatch):
    """They are not read in every pass, but at once when somebody asks, and within a second or so."""
    monkeypatch.setattr(keepers, "_MANY", 0)
    monkeypatch.setattr("vedette.hub.turn.spool_reader._QUIET_S", -1.0)
    speaker = Speaker(home, "quiet")
    with keeping(home) as keeper:
        keeper.step()
        reads = keeper.readers["quiet"].reads
        keeper.step()
        assert keeper.readers["quiet"].reads == reads
        speaker.log(1, x=1.0)
        keeper.turn(seal={""})
        assert points(keeper.store) == {"x": [1.0]}
        monkeypatch.setattr("vedette.hub.turn.spool_reader._QUIET_EVERY_S", 0.0)
        reads = keeper.readers["quiet"].reads
        keeper.step()
        assert keeper.readers["quiet"].reads > reads


def test_a_hub_that_ends_does_not_read_all_first(home, monkeypatch):
    """What waits in spools stays there, and the next hub has all of it."""
    speaker = Speaker(home, "busy")
    for step in range(3000):
        speaker.log(step, x=float(step))
    monkeypatch.setattr("vedette.hub.turn.spool_reader._READ_BYTES", 4000)
    monkeypatch.setattr(keepers, "_LEAVE_S", 0.0)
    with keeping(home) as keeper:
        keeper.step()
        keeper.close()
    assert os.path.exists(os.path.join(home.spool, "busy"))
    with keeping(home) as keeper:
        keeper.turn(seal={""})
        assert points(keeper.store) == {"x": [float(step) for step in range(3000)]}


def test_short_chunks_are_merged_later(home):
    """Not in the pass that seals, but in those that follow, and the points stay as they are."""
    speaker = Speaker(home, "short")
    with keeping(home) as keeper:
        for step in range(70):
            speaker.log(step, x=float(step))
            keeper.turn(seal={""})
        assert keeper.store.connection.execute("SELECT count(*) FROM axes").fetchone()[0] < 70
        assert points(keeper.store) == {"x": [float(step) for step in range(70)]}
        assert not keeper.tidying.busy


def test_a_flood_of_lines_is_committed_a_part_at_a_time(home, monkeypatch):
    """One pass commits some thousand facts at most, and those of another program are among the first."""
    monkeypatch.setattr(keepers, "_MOST_FACTS", 100)
    monkeypatch.setattr("vedette.hub.turn.spool_reader._READ_FACTS_BYTES", 4000)
    committed = []
    keep = keepers.Commits._keep

    def counted(self, batches):
        committed.append(sum(len(batch.facts) for _, batch in batches))
        return keep(self, batches)

    monkeypatch.setattr(keepers.Commits, "_keep", counted)
    floods, quiet = [Speaker(home, name) for name in "abc"], Speaker(home, "quiet")
    for speaker, name in zip(floods, "abc", strict=True):
        for number in range(1000):
            speaker.say(Event(f"run-{name}", 1 + number, "log", 20, f"line {number}"))
    quiet.say(Event("run-quiet", 1, "log", 20, "hear me"))
    with keeping(home) as keeper:
        passes = 0
        while keeper.step()[1] or not passes:
            passes += 1
            if passes == 4:
                assert len(keeper.store.events(EventQuery("run-quiet"))) == 1
        assert max(committed) < 600
        for name in "abc":
            found = keeper.store.events(EventQuery(f"run-{name}"))
            assert sorted(event.text for event in found) == sorted(f"line {number}" for number in range(1000))
