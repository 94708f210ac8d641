"""Cut the power at any moment: at most the last second is gone, damage is counted, nothing wrong is accepted."""

import copy
import os
import random
import subprocess
import time

import pytest

from tests.journeys.conftest import eventually
from tests.journeys.disk import Disk, cuttable_disk, why_not
from tests.journeys.power import Finding, judge, read_after, writing
from vedette.hub.turn.keeper import Keeper
from vedette.settings import Hub, Settings
from vedette.store import SpanQuery
from vedette.store.sqlite import SqliteStore

_HORIZON_S = 3.0  # the second that may go, and two for a machine that has other things to do (bench measures)
_CALM, _BRISK = (500, 0), (3000, 16 << 10)  # records per second; the brisk one begins a segment ten times a second


@pytest.fixture(scope="module")
def _allowed():
    if reason := why_not():
        pytest.skip(f"NO POWER WAS CUT: {reason}")


@pytest.fixture
def disk(_allowed):
    with cuttable_disk() as made:
        yield made


def _cut_often(disk: Disk, hub: str, moments, paces, before_cut=None, **environ):
    """Cut after each of these pauses, by turns what was flushed and what was received; return all that was found."""
    cuts = []
    with writing(disk, paces, hub=hub, **environ) as writers:
        for number, pause in enumerate(moments):
            time.sleep(pause)
            if before_cut:
                before_cut()
            cuts.append(disk.cut(flushed=number % 2 == 0))
    found = [(cut, read_after(disk, cut)) for cut in cuts]
    return [(cut, left, [(writer, judge(writer, cut, left, _HORIZON_S)) for writer in writers]) for cut, left in found]


def _assert_sound(found):
    """Whatever was lost: store and records are sound, each spool is dealt with, and what is damaged can be seen."""
    assert found["integrity"] == ["ok"]
    assert found["doctor"]["damaged"] == f"{found['damaged']} records"
    assert found["left"] == found["set_aside"] == []


def test_the_disk_forgets_what_was_not_flushed(disk):
    """A cut keeps what was flushed, or what the disk had received; what only the page cache had is gone in both."""
    os.mkdir(disk.home + "/kept")
    path = disk.home + "/kept/file"

    def after_cut(flushed):
        with disk.after(disk.cut(flushed=flushed)) as home, open(home + "/kept/file") as file:
            return file.read()

    with open(path, "w+") as file:
        file.write("old")
        file.flush()
        os.fsync(file.fileno())
        os.pwrite(file.fileno(), b"new", 0)
        assert [after_cut(flushed=True), after_cut(flushed=False)] == ["old", "old"]
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # begins to write, and asks for no flush
        eventually(lambda: after_cut(flushed=False) == "new")
        os.pwrite(file.fileno(), b"NEW", 0)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert after_cut(flushed=True) != "NEW"
        os.fsync(file.fileno())
        assert after_cut(flushed=True) == "NEW"


@pytest.mark.parametrize("seal_s", ["60", "1"])
def test_a_power_cut_costs_the_last_second_at_most(disk, seal_s):
    """Cut at random while segments are rolled, sealed and freed: all that is older is there, once, in order, right."""
    chance = random.Random(seal_s)
    moments = [3.5, *(chance.uniform(0.7, 1.7) for _ in range(2))]
    results = _cut_often(disk, "real", moments, {"calm": _CALM, "brisk": _BRISK}, VEDETTE_HUB_SEAL_S=seal_s)

    for _, found, findings in results:
        _assert_sound(found)
        states = sorted(run["state"] for run in found["runs"].values())
        assert len(states) == 2
        assert "running" not in states
        for writer, finding in findings:
            assert (finding.missing, finding.wrong) == (0, 0), f"{writer.name}: {finding}"
            assert writer.process.returncode == -9  # it had gone on until it was killed


def test_a_power_cut_without_a_hub_corrupts_nothing(disk):
    """Nobody flushes but the kernel, and it is cut in the middle of that: what is there is right, or counted."""
    chance = random.Random(7)
    syncs = []

    def flush_some():
        for earlier in syncs:
            earlier.wait()
        syncs.append(subprocess.Popen(["sync", "-f", disk.home]))
        time.sleep(chance.uniform(0, 0.01))

    paces = {"calm": _CALM, "brisk": _BRISK}
    results = _cut_often(disk, "none", [0.5, 0.5, 0.5, 0.5, 0.5], paces, before_cut=flush_some)
    for sync in syncs:
        sync.wait()

    for _, found, findings in results:
        _assert_sound(found)
        assert [finding.wrong for _, finding in findings] == [0, 0]
    assert results[-1][1]["runs"]  # the kernel had flushed something, else this says nothing


def test_a_hub_that_does_not_wait_for_the_disk_is_caught(disk):
    """The check fails for a hub that frees what it has committed without flushing it first."""
    [(_, found, [(_, finding)])] = _cut_often(disk, "hasty", [7.0], {"calm": _CALM})

    assert found["integrity"] == ["ok"]
    assert finding.missing > 0
    assert finding.wrong == 0


def test_whatever_is_wrong_after_a_power_cut_is_caught(disk):
    """The check fails for a record that is changed, there twice, out of order, invented, or gone without a count."""
    [(cut, found, [(writer, finding)])] = _cut_often(disk, "real", [4.0], {"calm": _CALM})
    assert finding == Finding(0, 0, finding.age_s)

    def judged(change) -> Finding:
        forged = copy.deepcopy(found)
        run = forged["runs"]["calm"]
        change(run["series"]["x"], run["marks"])
        return judge(writer, cut, forged, _HORIZON_S)

    def alter(x, marks):
        x[1][500] = 7.0

    def double(x, marks):
        for part in x:
            part.insert(500, part[500])

    def reverse(x, marks):
        for part in x:
            part.reverse()

    def invent(x, marks):
        for part in x:
            part.append(10**6)

    def lose(x, marks):
        for part in x:
            del part[500]

    def lose_mark(x, marks):
        del marks[1]  # not one of the last: these may be missing

    def double_mark(x, marks):
        marks.insert(5, marks[5])

    for change in (alter, double, reverse, invent, lose, lose_mark, double_mark):
        assert judged(change).wrong, change.__name__
    assert judged(lose).missing == judged(lose_mark).missing == 1


def test_who_spoke_is_known_even_when_no_header_was_flushed(home, start):
    """A checkpoint was quicker than the flush of the segments: the run ends all the same, and the damage is counted."""
    home.prepare()
    lock = home.take_lock()  # this test is the hub
    job = start("import time, vedette\nvedette.log({'x': 1.0})\nprint('ready', flush=True)\ntime.sleep(60)")
    assert job.stdout.readline() == "ready\n"
    keeper = Keeper(home, SqliteStore(home.store), Settings(hub=Hub(sync_s=3600)))
    keeper.turn(seal={""})
    keeper.let_go()
    job.kill()
    job.wait()
    [name] = os.listdir(home.spool)
    directory = os.path.join(home.spool, name)
    for part in os.listdir(directory):
        with open(os.path.join(directory, part), "r+b") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
    os.utime(directory, (1, 1))
    keeper = Keeper(home, SqliteStore(home.store), Settings())
    for _ in range(3):
        keeper.turn()
    states = {row.state for row in keeper.store.spans(SpanQuery()) if row.kind != "host"}
    damaged = sum(row.damaged for row in keeper.store.origins())
    keeper.let_go()
    os.close(lock)

    assert states == {"ended"}
    assert damaged > 0
