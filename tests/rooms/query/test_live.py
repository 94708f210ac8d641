"""What is new since the last look: each line once, and of what was before only what was asked for."""

import pytest

from tests.rooms.conftest import BORN
from vedette.errors import NotFoundError, WhereError
from vedette.model import LANE_FACTS, Event, Origin, Span
from vedette.query.live import Feed
from vedette.query.questions import waiting
from vedette.store import Batch


def texts(news):
    return [event.text for event in news.events]


def test_each_line_comes_once(store, make):
    """A feed hands out each line once, in the order of time, however often it looks."""
    make.run("a", state="running")
    make.events("a", "one", "two")
    feed = Feed(store, "a")

    assert texts(feed.look()) == ["one", "two"]
    assert texts(feed.look()) == []
    make.events("a", "three")
    make.events("b", "not ours")
    assert texts(feed.look()) == ["three"]


def test_lines_of_several_processes_come_in_the_order_of_time(store, make):
    """What one process said is printed before what another said later, also if it is stored after it."""
    make.run("a", state="running")
    now = BORN
    feed = Feed(store, "a", settle_s=0.3, clock=lambda: now)
    seen = []

    def say(pid, *tenths):
        who = Origin(f"o{pid}", host="camp", pid=pid, span="a", process=f"a/1/o{pid}")
        facts = [(tenth, Event("a", BORN + tenth * 10**8, "output", 20, str(tenth))) for tenth in tenths]
        store.keep([Batch(who, LANE_FACTS, tenths[-1], facts=facts)])

    say(7, 1)
    assert texts(feed.look()) == ["1"], "one process alone is not held back"
    for turn in range(2, 12, 2):  # of each turn, process 8 is read first
        now = BORN + turn * 10**8
        say(8, turn, turn + 1)
        seen += texts(feed.look())
        say(7, *range(max(2, turn - 1), turn + 1))
        seen += texts(feed.look())
    assert feed.holds
    now += 10**9
    seen += texts(feed.look())
    assert not feed.holds
    assert [int(text) for text in seen] == sorted(int(text) for text in seen)
    assert len(seen) == 19
    say(8, 50)  # its clock is ahead of ours
    say(7, 30)
    now += 10**8
    make.facts("a", Span("a", BORN + 10**12, "done"))
    assert texts(feed.look()) == ["30", "50"], "nothing is held back when the run is over"


def test_of_what_was_before_only_the_last_lines(store, make):
    """With `last`, so many of the lines that fit come first, and then all that are new."""
    make.run("a", state="running")
    make.events("a", *(f"line {n}" for n in range(50)))
    make.events("a", "quiet", level=10)

    first = Feed(store, "a", last=3).look()
    assert texts(first) == ["line 48", "line 49", "quiet"]
    assert first.passed_over
    assert texts(Feed(store, "a", last=2, level="info").look()) == ["line 48", "line 49"]
    assert texts(Feed(store, "a", last=2, grep="line 1").look()) == ["line 18", "line 19"]
    assert texts(Feed(store, "a", last=0).look()) == []


def test_before_a_run_has_said_anything(store, make):
    """A run that is not in the store yet is waited for; one that was there and is gone is said to be."""
    feed = Feed(store, "a", clock=lambda: BORN + 10**9)
    assert feed.look().runs == {}
    make.run("a", state="running")
    assert feed.look().runs["a"].state == "running"
    make.facts("a", Span("a", BORN + 10**12, attrs={"removed": True}))
    with pytest.raises(NotFoundError, match="was removed"):
        feed.look()


def test_a_pattern_that_is_none():
    """A bad pattern is said in a sentence."""
    with pytest.raises(WhereError, match="regular expression"):
        Feed(None, grep="(")


def ask(ident, process="a/1/o", t=BORN):
    return Event("a", t, "ask", 20, f"{ident}?", {"ask": ident, "process": process, "password": False})


def asked(ident):
    return Event("a", BORN, "asked", 20, "answered", {"ask": ident, "how": "answered"})


def test_open_questions(store, make):
    """A question is open until it is answered, given up, or its process is dead; the oldest comes first."""
    make.run("a", state="running")
    make.facts("a", ask("q1"), ask("q2"), asked("q1"), ask("q3", "a/1/dead"), asked("q4"), ask("q4"))
    make.facts("a", Span("a/1/dead", BORN, kind="process", state="failed"))

    assert [question.id for question in waiting(store, "a")] == ["q2"]
    feed = Feed(store, "a", last=0)
    assert [question.id for question in feed.look().questions] == ["q2"]
    make.facts("a", ask("q5"), asked("q2"))
    assert [question.id for question in feed.look().questions] == ["q5"]
    make.facts("a", Span("a/1/o", BORN, kind="process", state="done"))
    assert feed.look().questions == []


def test_a_question_is_a_line_like_others(store, make):
    """A pattern chooses among questions as among all lines; which questions are open does not depend on it."""
    make.run("a", state="running")
    feed = Feed(store, "a", grep="q2")
    assert texts(feed.look()) == []
    make.facts("a", ask("q1"), ask("q2"))

    news = feed.look()
    assert texts(news) == ["q2?"]
    assert [question.id for question in news.questions] == ["q1", "q2"]
