"""A hub that meets a damaged store: it says so, loses nothing, does not spin, and goes on when the store is mended."""

import asyncio
import collections
import os
import time

import numpy as np
import pytest

from tests.rooms.hub.test_inbox import RELAY, ROOMY, samples, ship
from tests.rooms.hubs import connect, serving, until
from tests.rooms.store.damage import LINES, POINTS, RUNS, make_store, overwrite, pages_of
from vedette import wire
from vedette.blobs import Blobs
from vedette.errors import DamagedError, StoreError
from vedette.hub import keeper_thread, program
from vedette.hub.own import Own
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.hub.turn.blob_collector import BlobCollector
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.takein import TakeIn
from vedette.model import LANE_SAMPLES, Event, Origin
from vedette.settings import Hub, Settings
from vedette.store import Batch, Block, EventQuery
from vedette.store.sqlite import SqliteStore


@pytest.fixture
def damaged(home, tmp_path):
    """A home whose store can be opened, but takes no events and no samples; a spool and an inbox wait to be read."""
    home.prepare()
    make_store(home.store)
    overwrite(home.store, *pages_of(home.store, "events_name"), *pages_of(home.store, "axes_origin"))
    own = Own(home)
    own.say([Event("r", 1, "log", 20, "waits in a spool")])
    own.close()
    keeper = Keeper(home, SqliteStore(str(tmp_path / "other.db")), Settings())
    inbox = keeper.inboxes.open(RELAY, ROOMY)
    inbox.append(ship(1, samples("far", 0, 100)))
    inbox.close()
    keeper.let_go()
    return home


def left(home):
    """Return all files of spools and inboxes, with their bytes."""
    return {
        os.path.join(folder, name): open(os.path.join(folder, name), "rb").read()
        for root in (home.spool, home.inbox)
        for folder, _, names in os.walk(root)
        for name in names
    }


def begun_anew(home):
    """Move the store away and take a few turns with a new one; return its lines and how many points it has."""
    os.mkdir(f"{home.root}/damaged")
    for name in os.listdir(home.root):
        if name.startswith("store.db"):
            os.rename(f"{home.root}/{name}", f"{home.root}/damaged/{name}")
    keeper = Keeper(home, SqliteStore(home.store), Settings(hub=Hub(sync_s=0)))
    for _ in range(4):
        keeper.turn(seal={""})
    taking = TakeIn(keeper, f"{home.root}/damaged/store.db")
    collections.deque(taking.steps(), 0)
    texts = [event.text for event in keeper.store.events(EventQuery())]
    points = {row.span: row.count for row in keeper.store.series() if row.name in ("x", "loss")}
    keeper.close()
    return texts, points


def test_what_cannot_be_stored_stays_where_it_is(damaged):
    """Turn after turn nothing is removed; when the store was begun anew, all of it is there, old and new."""
    before = left(damaged)
    keeper = Keeper(damaged, SqliteStore(damaged.store), Settings(hub=Hub(sync_s=0)))
    for _ in range(3):
        with pytest.raises(DamagedError):
            keeper.turn(seal={""})
        keeper.start_over(DamagedError("it is damaged"))
        assert keeper.set_aside == {}
    keeper.let_go()
    assert left(damaged) == before

    texts, points = begun_anew(damaged)
    assert "waits in a spool" in texts
    assert points == {"r": 100, **dict.fromkeys(RUNS, POINTS)}
    assert len(texts) == len(RUNS) * LINES + 1


def test_a_hub_that_takes_it_for_a_bad_batch_loses_it(damaged, monkeypatch):
    """The positive control: where damage is not told from a bad batch, an inbox is passed over and removed."""
    keep = SqliteStore.keep

    def as_before(store, batches, *args):
        try:
            keep(store, batches, *args)
        except StoreError as error:
            raise ValueError(str(error)) from None

    monkeypatch.setattr(SqliteStore, "keep", as_before)
    keeper = Keeper(damaged, SqliteStore(damaged.store), Settings(hub=Hub(sync_s=0)))
    for _ in range(4):
        keeper.turn(seal={""})
    keeper.let_go()
    assert os.listdir(damaged.inbox) == []


def test_it_says_so_and_does_not_try_all_the_time(damaged, monkeypatch, capsys):
    """Whoever asks is answered with a sentence at once; there is one turn, and not one for each question."""
    monkeypatch.setattr(keeper_thread, "_RETRY_S", 1000.0)
    turns = []

    async def ask():
        async with serving(damaged) as service:
            take_turn = service.keeper.turn
            service.keeper.turn = lambda **how: (turns.append(how), take_turn(**how))[1]
            connection = await connect(damaged)
            answers = []
            for message in [wire.Seal(""), wire.AskHealth()] * 5:
                connection.send(message)
                answers.append(await asyncio.wait_for(connection.receive(wire.MAX_PAYLOAD), 60))
            service.keeper.turn = take_turn
            return answers

    answers = asyncio.run(ask())
    assert len(turns) <= 1
    for answer in answers:
        said = answer.why if isinstance(answer, wire.Refused) else answer.trouble
        assert "the store is damaged (database disk image is malformed): `vedette doctor` says how" in said
    assert capsys.readouterr().err.count("the store is damaged") == 1


def test_a_hub_whose_store_is_moved_away_leaves(home):
    """It does not go on writing to a file that is not the store any more; the next hub begins a new one."""

    async def move():
        async with serving(home) as service:
            os.rename(home.store, f"{home.root}/moved.db")
            await until(lambda: service._thread._left)

    asyncio.run(move())
    assert not os.path.exists(home.store)
    assert program.run(home, Settings(hub=Hub(idle_s=0.0, turn_s=0.01)), quiet=True) == 0
    assert os.path.exists(home.store)


@pytest.mark.parametrize("spared", [True, False])
def test_files_of_runs_outlive_their_store(home, spared):
    """If a store is begun anew, what runs had saved before is not removed; without the note of that, it would be."""
    home.prepare()
    blobs = Blobs(home)
    digest, _ = blobs.keep(b"weights")
    for _ in range(2):
        os.utime(blobs.path(digest), (time.time(),) * 2)
        assert blobs.spared_until() is None  # the first hub of a home spares nothing
        assert program.run(home, Settings(hub=Hub(idle_s=0.0, turn_s=0.01)), quiet=True) == 0
        os.unlink(home.store)
    os.utime(blobs.path(digest), (time.time() - 3600,) * 2)
    if not spared:
        os.unlink(os.path.join(blobs.root, "spared"))
    store = SqliteStore(home.store)
    collector = BlobCollector(blobs, store, BlobQueue(blobs))
    collector.ask()
    collector.step(lambda: True)
    while collector.busy:
        collector.step(lambda: True)
    store.close()
    assert (blobs.size(digest) is not None) is spared


def test_a_sweep_over_a_damaged_store_ends_nothing(damaged):
    """What names a file cannot be read: nothing is removed, and the hub goes on."""
    blobs = Blobs(damaged)
    digest, _ = blobs.keep(b"weights")
    os.utime(blobs.path(digest), (0, 0))
    overwrite(damaged.store, *pages_of(damaged.store, "blobs"))
    store = SqliteStore(damaged.store)
    collector = BlobCollector(blobs, store, BlobQueue(blobs))
    collector.ask()
    collector.step(lambda: True)
    assert not collector.busy
    assert blobs.size(digest) is not None
    store.close()


def test_samples_of_a_living_process_that_only_the_old_store_has(home, tmp_path):
    """Of a process that still logs, what its spool has freed is taken in, and what the spool has comes from there."""
    store = SqliteStore(str(tmp_path / "new.db"))
    other = SqliteStore(str(tmp_path / "old.db"))
    block = np.arange(1, 301, dtype=np.int64)

    def batch(first, last):
        n = block[first - 1 : last]
        columns = Block("r", {}, ("x",), n, n * 1000, n, (n.astype(float),))
        return Batch(Origin("o", span="r"), LANE_SAMPLES, last, columns=[columns], start=first - 1)

    other.keep([batch(1, 300)])
    steps = store.absorb(other, {"o": 200}.get)
    next(steps)
    store.keep([batch(201, 300)])  # as the hub does meanwhile
    collections.deque(steps, 0)
    [series] = store.series()
    assert store.points([series.id])[series.id].value.tolist() == block.tolist()
    store.close()
    other.close()
