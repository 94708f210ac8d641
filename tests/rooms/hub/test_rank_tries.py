"""When the hub ends a try of several ranks, and as what; facts of our own in a real store."""

import pytest

from vedette.hub.turn.rank_tries import RankTries
from vedette.model import HUB, LANE_FACTS, Origin, Span
from vedette.store import Batch, SpanQuery


class Job:
    """A job of two ranks in a store, and the hub that ends it."""

    def __init__(self, store):
        self.store, self.said, self.now = store, 0, 0.0
        self._n = 0
        self.tries = RankTries(store, self.say)

    def say(self, facts, _upstream):
        self.said += len(facts)
        self.hear(*facts)

    def hear(self, *facts):
        """Keep facts, as a turn does."""
        numbered = []
        for fact in facts:
            self._n += 1
            numbered.append((self._n, fact))
        self.store.keep([Batch(Origin("hub-1", voice=HUB), LANE_FACTS, self._n, facts=numbered)])
        self.tries.note(facts)

    def begin(self, *processes):
        """Have a try of two ranks begin, with these processes: the last part of the id, and the rank if it is one."""
        self.hear(Span("r/1", 1, "running", kind="try", parent="r", attrs={"n": 1, "ranks": 2}))
        for name, rank in processes:
            attrs = {} if rank is None else {"rank": rank}
            self.hear(Span(f"r/1/{name}", 1, "running", kind="process", parent="r/1", attrs=attrs))

    def end(self, name, state, t, cause=""):
        self.hear(Span(f"r/1/{name}", t, state, cause, HUB))

    def after(self, seconds):
        """Return how the try stands after so many seconds in which the hub looks often."""
        for _ in range(int(seconds)):
            self.now += 1
            self.tries.tend(self.now)
        [row] = self.store.spans(SpanQuery(ids=("r/1",)))
        return row.state, row.cause


@pytest.fixture
def job(store):
    return Job(store)


@pytest.mark.parametrize("name", ["pid-70-1", "forked"])
@pytest.mark.parametrize("state", ["ended", "failed", "running"])
def test_what_a_rank_has_started_is_no_rank(job, name, state):
    """A try of good ranks is done, however processes below them end that the meter or a fork has made known."""
    job.begin(("a", 0), ("b", 1), (name, None))
    job.end("a", "done", 10)
    job.end("b", "done", 11)
    job.end(name, state, 5)
    assert job.after(1) == ("done", "")


def test_an_end_that_nobody_saw_waits_for_a_better_word(job):
    """While a rank's end may still be seen by somebody the try stays open; after some seconds it is ended."""
    job.begin(("a", 0), ("b", 1))
    job.end("a", "done", 10)
    job.end("b", "ended", 11)
    assert job.after(4) == ("running", "")
    assert job.tries.waits
    assert job.after(4) == ("ended", "")
    assert not job.tries.waits


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (("done", 11, ""), ("done", "")),
        (("failed", 9, "exit code 3"), ("failed", "rank 1 was the first to fail: exit code 3")),
        (("cancelled", 9, "killed by SIGTERM"), ("cancelled", "killed by SIGTERM")),
    ],
)
def test_a_better_word_of_a_rank_corrects_the_end(job, again, later, expected):
    """When it becomes known how a rank ended, the end of the try is corrected, by this hub or by the next one."""
    job.begin(("a", 0), ("b", 1))
    job.end("a", "done", 10)
    job.end("b", "ended", 11)
    assert job.after(8) == ("ended", "")
    if again:
        job.tries = RankTries(job.store, job.say)
    job.end("b", *later)
    assert job.after(2) == expected


def test_a_rank_that_comes_late_corrects_the_end(job):
    """A rank that was cancelled before the others had ended well counts, though it is heard of after their end."""
    job.begin(("a", 0))
    job.end("a", "done", 20)
    assert job.after(8) == ("done", "")
    job.hear(
        Span("r/1", 2, "running", kind="try", parent="r", attrs={"n": 1, "ranks": 2}),
        Span("r/1/b", 2, "running", kind="process", parent="r/1", attrs={"rank": 1}),
    )
    job.end("b", "cancelled", 9, "killed by SIGTERM")
    assert job.after(2) == ("cancelled", "killed by SIGTERM")


def test_an_end_is_said_once(job):
    """Ends of processes that change nothing make the hub say nothing again."""
    job.begin(("a", 0), ("b", 1), ("forked", None))
    job.end("a", "done", 10)
    job.end("b", "done", 11)
    job.after(2)
    job.end("forked", "done", 12)
    job.end("b", "done", 11)
    assert job.after(8) == ("done", "")
    assert job.said == 1


def test_many_tries_take_many_turns(job, monkeypatch):
    """A turn looks at tries for a while, and the next ones go on behind them until each was looked at."""
    monkeypatch.setattr("vedette.hub.turn.rank_tries._SLICE_S", 0)
    for number in range(5):
        job.hear(
            Span(f"r/{number}", 1, "running", kind="try", parent="r", attrs={"n": number, "ranks": 1}),
            Span(f"r/{number}/a", 1, "running", kind="process", parent=f"r/{number}", attrs={"rank": 0}),
            Span(f"r/{number}/a", 9, "done", by=HUB),
        )
    ended = []
    for turn in range(1, 7):
        job.tries.tend(100.0 * turn)
        ended.append(sum(row.state == "done" for row in job.store.spans(SpanQuery(kind="try"))))
    assert ended == [1, 2, 3, 4, 5, 5]


def test_an_open_try_of_an_earlier_hub_is_ended_only_if_it_has_ranks(store):
    """A hub that begins ends what the ranks of an open try have left; a try of one program it leaves alone."""
    earlier = Job(store)
    earlier.begin(("a", 0), ("b", 1))
    earlier.end("a", "done", 10)
    earlier.end("b", "done", 11)
    earlier.hear(
        Span("s/1", 1, "running", kind="try", parent="s", attrs={"n": 1}),
        Span("s/1/child", 1, "running", kind="process", parent="s/1"),
        Span("s/1/child", 9, "done", by=HUB),
    )
    later = Job(store)
    later._n = earlier._n
    assert later.after(8) == ("done", "")
    assert store.spans(SpanQuery(ids=("s/1",)))[0].state == "running"


def test_ranks_of_a_run_that_was_removed_for_good(job):
    """A rank that speaks after its run was removed for good does not keep the hub from its work."""
    job.tries.note([Span("gone/1", 1, kind="try", attrs={"ranks": 2}), Span("gone/1/a", 2, "done")])
    job.tries.tend(10.0)
    job.tries.tend(20.0)

    assert job.tries.trouble == ""
    assert job.said == 0
