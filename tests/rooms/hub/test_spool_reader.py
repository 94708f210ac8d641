"""Spools of processes that never rest, or live on after they have said their end here; ranks whose run is gone."""

import os

from vedette.client.run import About, Run
from vedette.home import Home
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import Span
from vedette.settings import Settings
from vedette.store import Mark, SpanQuery
from vedette.tail import Tail
from vedette.voice import Voice, origin_here


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


def test_what_captures_runs_leaves_no_spool(keeper):
    """One program captures all runs of a process, each in a spool of its own, which goes while that program lives."""
    for number in range(3):
        origin = origin_here(f"capture{number}", span=f"run{number}")
        voice = Voice(Home(keeper.home.asked), lambda origin=origin: origin)
        voice.say(Span(f"run{number}", voice.now(), attrs={"capture": "done"}))
        if number:
            voice.close()
    keeper.turn(seal={""})
    keeper.turn()

    assert os.listdir(keeper.home.spool) == ["capture0"]
    assert [row.attrs for row in keeper.store.spans(SpanQuery())] == [{"capture": "done"}] * 3


def test_a_run_that_is_over_before_its_spool_is_first_read(keeper, monkeypatch):
    """A spool that is found before it has a segment, and is closed when it is read, is read whole."""
    found = []
    prepare = os.mkdir

    def mkdir(path, *rest, **words):
        prepare(path, *rest, **words)
        if os.path.dirname(path) == keeper.home.spool:
            found.append(SpoolReader(path, Mark(), Mark()))

    monkeypatch.setattr(os, "mkdir", mkdir)
    run = Run._begin(Home(keeper.home.asked), Settings(), About(name="a"))
    run.log({"x": 1})
    run.finish()
    [reader] = found
    assert reader.origin is None
    batch = reader.read_facts()
    assert batch is not None
    assert batch.origin.span == run.id
    assert reader.closed
    assert len(batch.facts) > 2
    assert reader.read_samples(0) == 1


def test_how_far_a_process_has_come_is_told_while_it_writes(keeper):
    """It is told exactly, from the last segment alone: a process that writes faster than it is read has no end."""
    run = Run._begin(Home(keeper.home.asked), Settings(), About(name="a"))
    reader = SpoolReader(run._journal.spool.directory, Mark(), Mark())
    handle, offsets = run.series("x"), []
    for _ in range(3):
        for _ in range(20_000):
            handle(0.5)
        offsets.append(reader.written_until()[1])
    *passed, _ = sorted(name for name in os.listdir(reader.directory) if name.startswith("s."))
    for name in passed:
        os.unlink(os.path.join(reader.directory, name))
    reader.read_samples(0)
    last = reader.sealing(0, 0, all_of_it=True)

    assert len(passed) > 1
    assert offsets == sorted(set(offsets))
    assert (last.end, reader.written_until()[1]) == (offsets[-1], offsets[-1])


def test_a_writer_that_never_rests_does_not_hold_up_the_hub(keeper, monkeypatch):
    """However fast a process writes, the question how far it has come is answered."""
    run = Run._begin(Home(keeper.home.asked), Settings(), About(name="a"))
    reader = SpoolReader(run._journal.spool.directory, Mark(), Mark())
    run.log({"x": 1.0})
    read, reads = Tail.read, []

    def write_and_read(self, **named):
        reads.append(1)
        for _ in range(100):
            run.log({"x": 1.0})
        assert len(reads) < 1000
        return read(self, **named)

    monkeypatch.setattr(Tail, "read", write_and_read)
    facts, samples = reader.written_until()

    assert facts > 0
    assert samples > 0
