"""`vedette logs -f`: what is printed, at whatever moment a run ends."""

import argparse

import pytest

from tests.rooms.conftest import BORN
from vedette.access.home_access import HomeAccess
from vedette.cli import logs
from vedette.model import Span
from vedette.settings import Settings
from vedette.wire import Change


class Ending:
    """A store in which a run says its last word, and ends, just after so many reads."""

    def __init__(self, make, run, reads):
        self._make, self._run, self._left = make, run, reads

    def __getattr__(self, name):
        found = getattr(self._make.store, name)
        return self._read(found) if name in ("events", "spans") else found

    def _read(self, method):
        def read(*args):
            answer = method(*args)
            self._left -= 1
            if self._left == 0:
                self._make.events(self._run, "the last word")
                self._make.facts(self._run, Span(self._run, BORN + 10**12, state="done"))
            return answer

        return read


class Eager:
    """A follower for whom it is always time to look."""

    trouble = ""

    def wait(self, seconds=0):  # noqa: ARG002
        return Change()


@pytest.fixture
def follow(make, monkeypatch, capsys):
    """Return a function that follows run `a`, which ends after so many reads, and returns the texts printed."""
    monkeypatch.setattr(HomeAccess, "follower", lambda *_, **__: Eager())

    def printed(reads=1, **asked):
        monkeypatch.setattr(logs, "open_home", lambda _: Ending(make, "a", reads))
        args = {"grep": "", "search": "", "level": "0", "kind": "", "last": None, "json": False, **asked}
        assert logs.run(argparse.Namespace(RUN="a", follow=True, settings=Settings(), **args)) == 0
        return [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()]

    return printed


@pytest.mark.parametrize("reads", range(1, 12))
def test_between_whatever_reads_a_run_ends_its_last_line_is_printed(make, follow, reads):
    """The last line of a run and its end may be committed between any two reads: the line is printed, once."""
    make.run("a", state="running")
    make.events("a", "the first word")

    assert follow(reads) == ["the first word", "the last word"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"grep": "last$|fir"}, ["the first word"]),
        ({"search": "word last"}, ["the last word"]),
        ({"search": "  "}, []),
        ({"level": "error"}, ["an error"]),
        ({"kind": "mark, exception"}, ["a mark"]),
        ({"last": 1}, ["a mark", "the last word"]),
        ({"last": 0}, ["the last word"]),
        ({"last": 1, "search": "word"}, ["the first word", "the last word"]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("reads", [6, 12])
def test_what_is_asked_for_holds_for_old_and_new_lines(make, follow, reads, asked, found):
    """Lines that were there and lines that come are chosen alike; `last` counts only those that were there."""
    make.run("a", state="running")
    make.events("a", "the first word")
    make.events("a", "an error", level=40)
    make.events("a", "a mark", kind="mark")

    assert follow(reads, **asked) == found


def test_a_run_without_lines_says_so_once_it_has_ended(make, monkeypatch, capsys):
    """Of a run that lives more may come; of one that has ended nothing will."""
    make.run("old", "old")
    make.run("new", "new", state="running")
    monkeypatch.setattr(logs, "open_home", lambda _settings: make.store)
    for name in ("old", "new"):
        args = argparse.Namespace(
            RUN=name, settings=None, grep="", search="", level="0", kind="", follow=False, last=None, json=False
        )
        assert logs.run(args) == 0
    assert capsys.readouterr().err.splitlines() == ["it has ended, and has no lines", "nothing yet"]
