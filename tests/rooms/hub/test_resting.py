"""Spools of processes that live on after they have said their end here, and ranks whose run is gone."""

import os

from vedette.client.run import About, Run
from vedette.home import Home
from vedette.hub.turn.rank_tries import RankTries
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import Span
from vedette.settings import Settings
from vedette.store import Mark
from vedette.store.sqlite import SqliteStore


def take(reader, batch):
    """Commit a batch."""
    reader.sent(batch, 0)
    reader.committed(batch)


def test_what_is_logged_after_the_end_is_not_removed(keeper):
    """A segment that is begun after the hub has read the end of a spool stays when the rest of it is removed."""
    run = Run._begin(Home(keeper.home.asked), Settings(), About(name="a"))
    run.log({"x": 1})
    run.finish()
    directory = run._journal.spool.directory
    reader = SpoolReader(directory, Mark(), Mark())
    while (batch := reader.read_facts()) is not None:
        take(reader, batch)
    reader.read_samples(0)
    take(reader, reader.sealing(0, 0, all_of_it=True))
    assert reader.rests

    before = set(os.listdir(directory))
    run.log({"x": 2})
    [begun] = set(os.listdir(directory)) - before
    reader.remove_read()
    assert os.listdir(directory) == [begun]


def test_ranks_of_a_run_that_was_removed_for_good(tmp_path):
    """A rank that speaks after its run was removed for good does not keep the hub from its work."""
    tries = RankTries(SqliteStore(str(tmp_path / "store.db")), lambda *_: None)
    tries.note([Span("gone/1", 1, kind="try", attrs={"ranks": 2})])
    tries.tend(10.0)
    tries.tend(20.0)

    assert tries.trouble == ""
