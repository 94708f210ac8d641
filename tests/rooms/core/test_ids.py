"""Ids, which name things for ever: what is made is read back, and the store's ranges hold just what is below."""

import pytest

from vedette import ids, wire
from vedette.model import Blob, Event, Origin, Span
from vedette.store.parcels import read_fact


def test_runs_of_one_second():
    """Thousands of runs that a cluster begins in the same second have each an id of its own."""
    made = [ids.new_id() for _ in range(5000)]

    assert len(set(made)) == 5000
    assert all(ids.looks_like_run(one) for one in made)


def test_the_parts_of_a_process():
    """The id of a process tells its run, its try and its origin."""
    attempt = ids.of_try("r1", ids.FIRST_TRY)
    process = ids.of_process(attempt, "o1")

    assert process == "r1/1/o1"
    assert ids.enclosing(process) == attempt
    assert ids.enclosing(attempt) == ids.run_of(process) == ids.run_of("r1") == "r1"
    assert ids.run_and_try(process) == ids.run_and_try(attempt) == ("r1", "1")
    assert ids.run_and_try("r1") == ("r1", "")
    assert ids.origin_of(process) == "o1"
    assert ids.above(process) == [process, attempt, "r1"]
    assert ids.above("") == []


def test_a_process_that_only_the_meter_knows():
    """It is named after its pid and start time, which can be read back."""
    span = ids.of_process_by_pid("r1/1", 42, 1234)

    assert span == "r1/1/pid-42-1234"
    assert ids.is_by_pid(span)
    assert span.startswith(ids.prefix_below("r1/1") + ids.BY_PID)
    assert ids.pid_and_start(span) == (42, 1234)
    assert not ids.is_by_pid(ids.of_process("r1/1", ids.new_id(10)))


@pytest.mark.parametrize("last", ["pid-", "pid-1", "pid-1-2-3", "pid-1-x", "pid-1-²", "pad-1-2", "o1"])
def test_no_pid_and_start_in_another_form(last):
    """An id that no meter has made has no pid and no start time."""
    assert ids.pid_and_start(f"r1/1/{last}") is None


def test_hosts():
    """The id of a host is one, however long its name is; nothing else is the id of a host."""
    span = ids.of_host("h" * 300, "0123456789abcdef/pid:[1]")

    assert Span(span, 1)
    assert len(span) <= ids.MOST_LENGTH
    assert span.endswith("-01234567")
    assert ids.is_host(span)
    assert ids.is_top(span)
    assert not any(map(ids.is_host, (ids.new_id(), ids.of_watched(1), ids.of_try("r1", "host-1"))))


def test_bars():
    """A progress bar is below its run, and each has an id of its own."""
    bar = ids.of_new_bar("r1")

    assert ids.enclosing(bar) == "r1"
    assert bar != ids.of_new_bar("r1")
    assert ids.is_within(bar, "r1")


@pytest.mark.parametrize("text", ["", "a/b", "x" * 65])
def test_what_cannot_name_a_try(text):
    """A try's own part is short, not empty, and has no slash."""
    assert not ids.can_name_try(text)
    assert ids.can_name_try(ids.FIRST_TRY)
    assert ids.can_name_try(ids.new_id())


@pytest.mark.parametrize("span", ["r1", "r1/1", "r1/1/o1", "r10", "r1.x", "r1-x", "r1 ", "r2", "r", "r1/\U0010ffff"])
def test_below(span):
    """Prefix and range say the same of what is below a span: not the span itself, and no other that begins alike."""
    first, last = ids.range_below("r1")
    is_below = "r1" in ids.above(span)[1:]

    assert (first < span < last) == span.startswith(ids.prefix_below("r1")) == is_below
    assert ids.is_within(span, "r1") == (is_below or span == "r1")


@pytest.mark.parametrize("text", ["r1\0", "\0", "r1\n", "\x1b[2J", "r\x7f", "x" * 129, ""], ids=repr)
def test_control_characters_are_in_no_id(text):
    """An id is one that every database, file and terminal takes as it is; a record with another one is not read."""
    assert not ids.is_id(text)
    assert not ids.can_name_try(text)
    for record in (Span(text, 1), Span("r", 1, parent=text or "\0"), Event(text, 1, "log"), Blob(text, 1, "a", "d", 1)):
        assert read_fact(wire.encode(record), Origin("o")) is None
    assert ids.is_id("Lauf/ä-ß 1")
    assert read_fact(wire.encode(Span("Lauf/ä-ß 1", 1, parent="Lauf")), Origin("o")) is not None


def test_a_record_that_no_process_could_write():
    """What is longer than a spool takes is not read from elsewhere, as it could not be passed on."""
    limit = wire.MAX_PAYLOAD - 100

    assert read_fact(wire.encode(Event("r", 1, "log", 20, "x" * limit)), Origin("o")) is not None
    assert read_fact(wire.encode(Event("r", 1, "log", 20, "x" * (limit + 100))), Origin("o")) is None
