"""The console's lines and rows: what is shown of which event, on how wide a terminal."""

import io

import pytest
from rich.cells import cell_len

from vedette.query.live import News
from vedette.query.progress import Bar
from vedette.query.runs import RunView
from vedette.query.silence import Sign
from vedette.store import EventRow, SpanRow
from vedette.views import lines
from vedette.views.console import Board, look_of, shown_in_process
from vedette.views.lines import Appearance

PLAIN = Appearance()
TERMINAL = Appearance(terminal=True)
SECOND = 10**9
NOW = 1_800_000_000 * SECOND


def event(text, kind="log", level=20, pid=7, host="camp", run="r", **attrs):
    return EventRow(1, run, NOW, kind, level, text, attrs, host, pid)


def bar(done=42.0, total=100.0, state="running", cause="", name="epoch 1", ident="r/p-1"):
    end_t = None if state == "running" else NOW
    return Bar(ident, "r", name, total, done, state, cause, NOW - 182 * SECOND, NOW, end_t)


def news(events=(), bars=(), runs=()):
    return News(list(events), 0, list(bars), [], {run.id: run for run in runs})


def run_view(state="running", silent_s=0.0):
    row = SpanRow("r", "run", "brisk-otter-417", "", state, "", NOW - 182 * SECOND, None, None, {})
    sign = Sign(NOW - int(silent_s * SECOND), None)
    return RunView(None, row, sign, now=NOW)


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_a_line():
    """A line has its time, level, text and place; in a terminal the place is a link to the file on its host."""
    said = event("loss is 3", level=30, file="/src/my train.py", line=12)

    assert lines.event_lines(said, "", PLAIN) == ["2027-01-15 08:00:00 WARNING  loss is 3  my train.py:12"]
    [shown] = lines.event_lines(said, "", TERMINAL)
    assert shown == (
        "08:00:00 WARNING  loss is 3  \x1b]8;;file://camp/src/my%20train.py\x1b\\my train.py:12\x1b]8;;\x1b\\"
    )


def test_lines_below_the_first_are_indented():
    """No text can look like a line of another: what follows its first line is indented."""
    _, second = lines.event_lines(event("one\n08:00:00 ERROR    forged"), "", TERMINAL)

    assert second.startswith("    08:00:00")
    table = lines.event_lines(event("a\nb", ansi="\x1b[1ma\x1b[0m\nb"), "", TERMINAL)
    assert [line.strip() for line in table] == ["08:00:00 INFO", "a", "b"]


def test_processes_are_told_apart():
    """With one process lines have no label; with two its pid, with two hosts the host too, with many runs the run."""
    board = Board(PLAIN)
    assert "pid" not in board.events([event("a")])[0]
    assert " pid 8 b" in board.events([event("b", pid=8)])[0]
    assert " pid 7@camp a" in board.events([event("c", host="hill"), event("a")])[1]
    late = Board(PLAIN)  # one who looks on later sees the same names
    assert " pid 8 b" in late.events([event("b", pid=8), event("a")])[0]

    all_runs = Board(PLAIN, by_run=True)
    all_runs.take(news(runs=[run_view()]))
    assert " brisk-otter-417 a" in all_runs.events([event("a")])[0]


def test_what_is_captured_is_not_shown_twice():
    """A log line that a handler printed into an output that another takes down is shown once, as output."""
    board = Board(PLAIN)

    shown = board.events([event("hello", kind="output", stream="stdout")])
    assert len(shown) == 1
    captured = EventRow(1, "r", NOW, "output", 20, "hello", {"stream": "stdout", "pid": 99}, "camp", 7)
    assert len(board.events([captured, event("hello", printed=True), event("only logged")])) == 2
    assert len(Board(PLAIN).events([event("hello", printed=True)])) == 1


@pytest.mark.parametrize("width", [5, 10, 20, 40, 41, 60, 79, 80, 120, 300])
@pytest.mark.parametrize("name", ["", "x", "a name that is quite long and must be cut", "日本語の名前" * 10, "🙂" * 50])
def test_rows_fit(width, name):
    """A row is never as wide as the terminal, whatever its name: it would wrap."""
    for look in (Appearance(terminal=True), Appearance(terminal=True, unicode=False)):
        for one in (bar(name=name), bar(total=None, name=name), bar(done=1e300, total=1e301, name=name)):
            row = lines.bar_row(one, "", width, NOW, look)
            assert cell_len(row) < max(width, 4), row
        board = Board(look, clock=lambda: NOW)
        board.take(news(runs=[run_view("running", 1000.0)], bars=[bar(name=name)] * 40))
        assert all(cell_len(row) < max(width, 4) for row in board.rows(width, 24))


def test_a_row():
    """A bar's row has its name, how far it is, for how long, and how long still."""
    row = lines.bar_row(bar(), "", 80, NOW, TERMINAL)

    assert row[2:].startswith("epoch 1  ━")
    assert row.endswith("42/100  42%  3m02s +4m11s")
    assert "42/100" not in lines.bar_row(bar(), "", 40, NOW, TERMINAL)


def test_as_many_bars_as_there_is_room_for():
    """Many bars take up half of the terminal at most, and the rest is counted; each sort of bar is among them."""
    board = Board(TERMINAL, clock=lambda: NOW)
    names = [*(f"worker {n}" for n in range(19)), "all"]
    board.take(news(bars=[bar(ident=f"r/p-{n}", name=name) for n, name in enumerate(names)]))

    rows = board.rows(80, 24)
    assert len(rows) == 12
    assert rows[-1] == "... and 9 more"
    assert [row.split()[1:3] for row in rows[:-2]] == [["worker", str(n)] for n in range(10)]
    assert rows[-2].split()[1] == "all"
    assert len(board.rows(80, 4)) == 2
    assert len(board.rows(80, 1)) == 1


def test_how_a_bar_ends():
    """A bar that is done says how long it took; one that failed says why and where it was, and is never at 100 %."""
    board = Board(PLAIN)
    board.take(news(bars=[bar()]))
    [done] = board.take(news(bars=[bar(100.0, state="done")]))
    assert done.endswith("done     epoch 1: 100/100 done in 3m02s")
    assert board.take(news(bars=[bar(100.0, state="done")])) == []

    failed = Board(PLAIN).take(news(bars=[bar(state="failed", cause="ValueError: x")]))
    assert failed[0].endswith("failed   epoch 1: failed at 42/100 after 3m02s: ValueError: x")
    assert "100%" not in lines.bar_row(bar(99.9999999), "", 80, NOW, TERMINAL)
    assert Board(PLAIN).take(news(bars=[bar(state="failed")]), first=True) == []


def test_progress_in_a_pipe():
    """In a pipe a bar is told of at its start, each 10 % or 30 s, and at its end; not more often."""
    now = [NOW]
    board = Board(PLAIN, clock=lambda: now[0])

    def told(done):
        return len(board.take(news(bars=[bar(done)])))

    assert [told(float(done)) for done in range(1, 32)].count(1) == 4
    now[0] += 29 * SECOND
    assert told(32.0) == 0
    now[0] += 2 * SECOND
    assert told(32.0) == 1


def test_a_run_that_is_lost():
    """Who is not heard of any more is said to be lost once, and once that it is heard again."""
    board = Board(PLAIN)

    assert board.take(news(runs=[run_view()])) == []
    [line] = board.take(news(runs=[run_view(silent_s=100)]))
    assert "brisk-otter-417: nothing has been heard of it" in line
    assert board.take(news(runs=[run_view(silent_s=101)])) == []
    assert "lost: nothing heard for 1m41s" in board.rows(80, 24)[0]
    [line] = board.take(news(runs=[run_view()]))
    assert "is heard again" in line


def test_the_end():
    """The last line says how a run ended, after how long, and why."""
    ended = lines.run_end("brisk-otter-417", "failed", "killed by SIGKILL", 182.0, PLAIN)

    assert ended == "brisk-otter-417 failed after 3m02s: killed by SIGKILL"
    assert lines.run_end("x", "done", "", 182.0, PLAIN) == "x done in 3m02s"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environ", "terminal", "colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
    ],
)
def test_what_a_terminal_can_show(environ, terminal, colour):
    """NO_COLOR and TERM=dumb are respected."""
    look = look_of(Terminal(), environ)

    assert (look.terminal, look.colour) == (terminal, colour)
    assert not look_of(Terminal(), environ, plain=True).terminal
    assert not look_of(io.StringIO(), environ).terminal


def test_what_the_terminal_of_the_main_process_shows():
    """Printed lines are in the terminal already, if they are of this host; log lines that nobody printed are not.

    Those of libraries that nobody asked for are not shown.
    """
    here = [event("a"), event("a", kind="mark"), event("a", kind="ask")]
    there = [event("a", kind=kind, host="hill", printed=True) for kind in ("log", "output", "exception")]
    hidden = [
        event("a", printed=True),
        event("a", kind="output"),
        event("a", kind="exception"),
        event("", kind="asked"),
        event("a", unasked=True),
        event("a", unasked=True, host="hill"),
    ]

    assert all(shown_in_process(item, "camp") for item in [*here, *there])
    assert not any(shown_in_process(item, "camp") for item in hidden)
