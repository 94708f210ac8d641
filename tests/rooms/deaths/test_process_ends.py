"""How a command ended, by what its processes say of their own ends."""

import pytest

from vedette.deaths.evidence import Evidence, Raised
from vedette.deaths.process_ends import ProcessEnd, may_say_more, of_command, worst
from vedette.deaths.verdict import EndKind, Verdict

CHILD = 70  # the command's pid
BROKEN = "worker 71 of the process pool exited with code 5; BrokenProcessPool followed"


def process(name, state="failed", cause="", t=5, **more):
    return ProcessEnd(name, state, cause, t, **more)


@pytest.mark.parametrize(
    ("cause", "processes", "expected"),
    [
        ("exit code 1", [], "exit code 1"),
        ("exit code 1", [process("a", cause=BROKEN, pid=CHILD)], BROKEN),
        # Of those that a shell started, the last to end by then counts; one that is still there is of no interest.
        ("exit code 1", [process("a", cause="one", t=4), process("b", cause="two")], "two"),
        ("exit code 1", [process("a", "done", t=6), process("b", cause="two", t=5)], "exit code 1"),
        ("exit code 1", [process("a", cause="one"), process("b", "running", t=None)], "one"),
        ("exit code 1", [process("a", cause="one", t=11)], "exit code 1"),
        ("exit code 1", [process("a", cause="one", t=11, pid=CHILD), process("b", cause="two")], "one"),
        # What says less, or something else, is not taken.
        ("exit code 1; its line: x", [process("a", cause="exit code 1", pid=CHILD)], "exit code 1; its line: x"),
        ("exit code 1", [process("a", "cancelled", "killed by SIGTERM", pid=CHILD)], "exit code 1"),
        ("exit code 1", [process("a", "done", "a cause", pid=CHILD)], "exit code 1"),
        # Ranks: the first to fail, whoever is the command.
        (
            "exit code 1",
            [process("a", cause="late", t=6, rank="0", pid=CHILD), process("b", cause="ValueError: x", rank="1")],
            "rank 1 was the first to fail: ValueError: x",
        ),
        (
            "exit code 3: rank 1 aborted with code 3",
            [process("a", cause="exit code 3", rank="1")],
            "exit code 3: rank 1 aborted with code 3",
        ),
        (
            "exit code 1: rank 1 exited with code 1: ConnectionError: none",
            [process("a", cause="ValueError: x", rank="1"), process("b", cause="ConnectionError: none", t=6, rank="0")],
            "rank 1 was the first to fail: ValueError: x",
        ),
        ("exit code 1", [process("a", "done", rank="0"), process("b", "done", rank="1")], "exit code 1"),
    ],
)  # fmt: skip
def test_the_cause_that_says_more_is_taken(cause, processes, expected):
    end = Verdict(EndKind.EXIT, "failed", cause)
    assert of_command(end, processes, CHILD, 10) == end._replace(cause=expected)


def test_a_good_end_tells_of_a_thread_that_died():
    """A cause of another kind, such as that of a pool's idle worker, is none of a good end."""
    end = Verdict(EndKind.DONE, "done", "")
    idle, died = process("a", "done", "its pool ended it"), process("b", "done", "t died", mishap="t died")
    assert of_command(end, [idle], CHILD, 10) == end
    assert of_command(end, [idle, died], CHILD, 10) == end._replace(cause="t died")


@pytest.mark.parametrize(
    ("kind", "evidence", "expected"),
    [
        (EndKind.DONE, Evidence(), True),
        (EndKind.EXIT, Evidence(), True),
        (EndKind.EXCEPTION, Evidence(), True),
        (EndKind.MEMORY, Evidence(), False),
        (EndKind.MEMORY, Evidence(raised=Raised("BrokenProcessPool: x")), True),
        (EndKind.SIGNAL, Evidence(), False),
        (EndKind.TIME, Evidence(), False),
    ],
)
def test_who_is_asked(kind, evidence, expected):
    """What the launcher has seen itself, such as a signal, needs nobody else."""
    assert may_say_more(Verdict(kind, "failed", "x"), evidence) is expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["done", "done"], ("done", "")),
        (["done", "ended"], ("ended", "")),
        (["cancelled", "done"], ("cancelled", "cause 0")),
        (["cancelled", "failed", "failed"], ("failed", "rank 1 was the first to fail: cause 1")),
    ],
)
def test_ranks_end_as_their_worst_one(states, expected):
    ranks = [process(str(n), state, f"cause {n}", t=n, rank=str(n)) for n, state in enumerate(states)]
    assert worst(ranks) == expected
