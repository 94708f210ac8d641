"""What happened, line by line: which lines are found."""

import pytest

from tests.rooms.conftest import BORN
from vedette.errors import VedetteError, WhereError
from vedette.model import Event
from vedette.query.logs import LEVELS, level_number, lines
from vedette.query.runs import view


@pytest.fixture
def three(store, make):
    """A store with two runs, each with lines, one below a task."""
    make.run("r1")
    make.run("r10")
    make.events("r1", "epoch 1", "loss is 0.5", kind="mark", level=20)
    make.events("r1", "loss is nan", level=30)
    make.events("r10", "out of memory", level=40)
    make.facts("r1", Event("r1/task", 1, "log", 10, "below, with an old clock"))
    return store


def texts(found):
    return [event.text for event in found]


def test_all_lines_in_the_order_of_time(three):
    """Lines come the oldest first, of all runs or of one and what hangs below it."""
    assert texts(lines(three)) == [
        "below, with an old clock", "epoch 1", "loss is 0.5", "loss is nan", "out of memory",
    ]  # fmt: skip
    assert texts(lines(three, "r1")) == ["below, with an old clock", "epoch 1", "loss is 0.5", "loss is nan"]
    assert texts(lines(three, "r10")) == ["out of memory"]
    assert texts(lines(three, "r")) == []


def test_where_a_line_came_from(three):
    """A line tells its process, kind and level."""
    event = lines(three, "r10")[0]

    assert (event.host, event.pid, event.kind, event.level, event.span) == ("camp", 7, "log", 40, "r10")


@pytest.mark.parametrize(
    ("grep", "found"),
    [
        ("loss", ["loss is 0.5", "loss is nan"]),
        ("^loss.*nan$", ["loss is nan"]),
        ("(?i)EPOCH", ["epoch 1"]),
        (r"\d", ["epoch 1", "loss is 0.5"]),
        ("nothing", []),
    ],
)
def test_grep(three, grep, found):
    """`grep` is a regular expression that is looked for in the text."""
    assert found == texts(lines(three, "r1", grep=grep))


@pytest.mark.parametrize("grep", ["(", "[a", "*", "(?P<", "a{2,1}", "\\"])
def test_a_bad_pattern(three, grep):
    """What is no regular expression is refused by a sentence."""
    with pytest.raises(WhereError, match="is not a regular expression"):
        lines(three, grep=grep)


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("loss", ["loss is 0.5", "loss is nan"]),
        ("LOSS nan", ["loss is nan"]),
        ("nan loss", ["loss is nan"]),
        ("memory of", ["out of memory"]),
        ("loss epoch", []),
        ("los", []),
    ],
)
def test_search(three, search, found):
    """`search` finds lines with all the words, in any order and case."""
    assert found == texts(lines(three, search=search))


@pytest.mark.parametrize(
    "search", ['"', "'", '""', "*", "a*", "loss OR epoch", "NEAR(a b)", "text:loss", "-", "^", "(", " "]
)
def test_search_has_no_language(three, search):
    """Whatever is searched for is words, and never an error of the index."""
    assert set(texts(lines(three, search=search))) <= set(texts(lines(three)))


@pytest.mark.parametrize(
    ("level", "count"),
    [(0, 5), ("debug", 5), ("info", 4), ("WARNING", 2), (30, 2), ("30", 2), ("31", 1), ("critical", 0)],
)
def test_levels(three, level, count):
    """A level is a name or a number, and means from there on."""
    assert count == len(lines(three, level=level))


@pytest.mark.parametrize("level", ["", "loud", "-1", "1.5", "²", "٣x", "30 "])
def test_a_bad_level(level):
    """What is no level is refused, with those that are."""
    with pytest.raises(WhereError, match="debug, info, warning, error, critical"):
        level_number(level)


def test_a_huge_level(three):
    """A number beyond all levels finds nothing, or is refused by a sentence."""
    try:
        assert lines(three, level="9" * 30) == []
    except VedetteError:
        pass


def test_level_names():
    """The levels are those of Python's logging."""
    import logging

    assert {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}.items() >= LEVELS.items()


@pytest.mark.parametrize("asked", [{}, {"grep": "."}, {"search": "is"}, {"level": 10}], ids=repr)
@pytest.mark.parametrize("last", [0, 1, 2, 100])
def test_last(three, asked, last):
    """`last` gives so many of the lines that fit, those that came last, oldest first, whatever else is asked."""
    came = sorted(lines(three, "r1", **asked), key=lambda event: event.id)
    wanted = came[len(came) - min(last, len(came)) :]

    assert sorted(wanted, key=lambda event: event.t) == lines(three, "r1", last=last, **asked)


def test_after(three):
    """`after` goes on behind the highest id that was seen, even where clocks disagree."""
    came = sorted(lines(three, "r1"), key=lambda event: event.id)

    assert texts(came[2:]) == ["loss is nan", "below, with an old clock"]
    assert sorted(came[2:], key=lambda event: event.t) == lines(three, "r1", after=came[1].id)
    assert lines(three, "r1", after=came[-1].id) == []


def test_lines_of_several_processes(store, make):
    """A view has the lines of several processes in the order of time; the store has them process by process."""
    make.run("r")
    for first in (0, 1):
        make.facts("r", *(Event("r", BORN + n, "log", 20, str(n)) for n in range(first, 10, 2)))

    assert texts(view(store, "r").logs()) == [str(n) for n in range(10)]
    assert texts(view(store, "r").logs(last=5, kind="log")) == ["1", "3", "5", "7", "9"]
