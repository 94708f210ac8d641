"""What heflwr's clients say becomes runs: one for each identifier that speaks, until it is silent or removed."""

import asyncio
from pathlib import Path

import pytest

from tests.journeys.conftest import eventually
from vedette.asgi import Refusal
from vedette.compat.heflwr import receiver as receivers
from vedette.compat.heflwr.receiver import Receiver
from vedette.errors import FormatError
from vedette.listeners.intake import Intake
from vedette.model import LANE_SAMPLES, USER, Span
from vedette.query.runs import select
from vedette.segment import segment_name


@pytest.fixture
def begin(home, keeper):
    """Make a receiver that knows which runs are open, as after a start of its process."""
    made = []

    def start():
        keeper.turn()
        made.append(Intake(home))
        receiver = Receiver(made[-1])
        asyncio.run(receiver.begin())
        receiver.refused = made[-1].refused
        return receiver

    yield start
    for intake in made:
        intake.close()


def runs(keeper):
    keeper.turn(seal={""})
    return select(keeper.store)[::-1]


def test_a_run_for_each_identifier(keeper, begin):
    """Numbers of one identifier are points of one run; a message that has none is a line of its log."""
    receiver = begin()
    receiver.receive(b"identifier=a&message=Bytes+Sent:+1,+", "")
    receiver.receive(b"identifier=b&message=hello", "")
    receiver.receive(b"identifier=a&message=Bytes+Sent:+2,+", "")
    one, two = runs(keeper)

    assert [(run.name, run.project, run.state) for run in (one, two)] == [
        ("a", "heflwr", "running"), ("b", "heflwr", "running"),
    ]  # fmt: skip
    assert one.history("network_bytes_sent").value.tolist() == [1, 2]
    assert [line.text for line in two.logs()] == ["hello"]


def test_a_double_counts_once(keeper, begin):
    """A message that a sender of ours sends again, as its answer was lost, is kept once."""
    receiver = begin()
    for n in (1, 1, 2, 1, 2):
        receiver.receive(f"identifier=a&message=Bytes+Sent:+{n},+".encode(), f"s {n} {10**18 + n * 10**9}")
    [run] = runs(keeper)

    assert run.history("network_bytes_sent").value.tolist() == [1, 2]
    assert run.history("network_bytes_sent").t.tolist() == [10**18 + n * 10**9 for n in (1, 2)]


def test_open_runs_go_on(keeper, begin):
    """The next process finds the runs that the last one had open."""
    for n in range(3):
        begin().receive(f"identifier=a&message=Bytes+Sent:+{n},+".encode(), "")
    [run] = runs(keeper)

    assert run.history("network_bytes_sent").value.tolist() == [0, 1, 2]


def test_a_message_that_is_sent_again_begins_no_second_run(home, keeper, begin):
    """If the first numbers of a run find no room, the run is open nevertheless, and they go to it when sent again."""
    receiver = begin()
    receiver.receive(b"identifier=b&message=x", "")
    [spool] = [path for path in Path(home.spool).iterdir() if path.name in receiver._intake._own.names]
    in_the_way = spool / (segment_name(LANE_SAMPLES, 0) + ".new")
    in_the_way.mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match="cannot be written to"):
            receiver.receive(b"identifier=a&message=Bytes+Sent:+1,+", "")
    in_the_way.rmdir()
    eventually(lambda: _is_received(receiver, b"identifier=a&message=Bytes+Sent:+1,+"))

    _, run = runs(keeper)
    assert (run.name, run.history("network_bytes_sent").value.tolist()) == ("a", [1])


def _is_received(receiver, body):
    try:
        receiver.receive(body, "")
    except OSError:  # a spool looks for room only now and then
        return False
    return True


def test_silence_ends_a_run(keeper, begin, monkeypatch):
    """A run whose client is silent for long is done, at its last word; the next word begins another."""
    receiver = begin()
    receiver.receive(b"identifier=a&message=x", "")
    asyncio.run(receiver.tend())
    assert runs(keeper)[0].state == "running"
    monkeypatch.setattr(receivers, "IDLE_S", -1.0)
    asyncio.run(receiver.tend())
    [run] = runs(keeper)
    assert run.state == "done"
    receiver.receive(b"identifier=a&message=y", "")
    assert len(runs(keeper)) == 2


def test_a_removed_run_is_forgotten(keeper, begin):
    """Once its run was removed, an identifier gets a new one."""
    receiver = begin()
    receiver.receive(b"identifier=a&message=x", "")
    [run] = runs(keeper)
    keeper.own.say([Span(run.id, 2 * run.start_t, by=USER, attrs={"removed": True})])
    keeper.turn()
    asyncio.run(receiver.tend())
    receiver.receive(b"identifier=a&message=y", "")

    [other] = [one for one in runs(keeper) if one.id != run.id]
    assert [line.text for line in other.logs()] == ["y"]


def test_too_many_identifiers(begin, monkeypatch):
    """Beyond so many at once new ones are refused, and counted; those that are known are heard."""
    monkeypatch.setattr(receivers, "_MAX_RUNS", 2)
    receiver = begin()
    for name in "ab":
        receiver.receive(f"identifier={name}&message=x".encode(), "")
    with pytest.raises(Refusal) as refusal:
        receiver.receive(b"identifier=c&message=x", "")
    receiver.receive(b"identifier=a&message=x", "")

    assert refusal.value.status == 429
    assert receiver.refused == {"heflwr identifiers": 1}


def test_many_senders_are_forgotten_in_turn(begin, monkeypatch):
    """The memory of who has sent what is bounded: the one that was silent longest goes first."""
    monkeypatch.setattr(receivers, "_MAX_SENDERS", 2)
    receiver = begin()
    for sender in "xyz":
        receiver.receive(b"identifier=a&message=x", f"{sender} 1 1")
    assert list(receiver._senders) == ["y", "z"]


def test_after_the_close_nothing_is_kept(begin, home):
    """What comes when the hub is leaving is not kept, so it must not be answered as if it were."""
    receiver = begin()
    receiver._intake.close()
    with pytest.raises(OSError, match="leaving"):
        receiver.receive(b"identifier=a&message=x", "")
    with pytest.raises(FormatError):
        receiver.receive(b"", "")


def test_a_store_that_cannot_be_read_now_costs_nothing(begin, home):
    """While the store cannot be read, runs go on; it is asked again."""
    receiver = begin()
    receiver.receive(b"identifier=a&message=x", "")
    receiver._intake._home.store = "/none"
    asyncio.run(receiver.tend())
    assert list(receiver._open) == ["a"]
