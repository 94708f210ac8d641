"""The console: the lines of all processes of a run, and below them their progress bars.

A `Board` turns news from a feed into lines and rows; a `Tty` or a `Pipe` shows them. Neither knows where the news
come from, nor in which process it runs.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TextIO

from vedette.model import KINDS
from vedette.query.live import News
from vedette.query.progress import Bar
from vedette.query.questions import ASK, ASKED, Question
from vedette.query.runs import RunView
from vedette.query.silence import LOST
from vedette.store import EventRow
from vedette.views import lines
from vedette.views.area import Area
from vedette.views.lines import Appearance, cut

_PLAIN_EVERY_S = 30.0
_PLAIN_SHARE = 0.1
_COUNT = re.compile(r"\d+")
_RUNNING = KINDS["run"].climbing


def look_of(stream: TextIO, environ: Mapping[str, str], *, plain: bool = False) -> Appearance:
    """Return what can be shown on a stream."""
    try:
        terminal = stream.isatty() and not plain and environ.get("TERM", "dumb") not in ("", "dumb")
    except ValueError:  # it is closed
        terminal = False
    unicode = (stream.encoding or "").lower().replace("-", "").replace("_", "") in ("utf8", "utf16", "utf32")
    return Appearance(terminal, terminal and not environ.get("NO_COLOR"), unicode)


class Screen(Protocol):
    """Where lines and rows go."""

    look: Appearance

    def above(self, shown: list[str]) -> None:
        """Print lines that scroll."""

    def below(self, rows: Callable[[int, int], list[str]]) -> None:
        """Draw changing rows, made for this many columns and lines; in a pipe, nothing."""

    def close(self) -> None:
        """Erase the rows."""


class Tty:
    """A terminal."""

    def __init__(self, stream: TextIO, look: Appearance, *, raw: bool = False) -> None:
        self.look = look
        self.area = Area(stream.fileno(), stream.encoding, raw=raw)

    def above(self, shown: list[str]) -> None:
        """Print lines that scroll."""
        self.area.above(shown)

    def below(self, rows: Callable[[int, int], list[str]]) -> None:
        """Draw changing rows."""
        self.area.below(rows(*self.area.size))

    def close(self) -> None:
        """Erase the rows."""
        self.area.close()


class Pipe:
    """A file, a pipe, or a terminal without escape codes."""

    def __init__(self, stream: TextIO, look: Appearance) -> None:
        self.look = look
        self._stream = stream

    def above(self, shown: list[str]) -> None:
        """Print lines that scroll."""
        encoding = self._stream.encoding or "utf-8"
        text = "".join(line + "\n" for line in shown)
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()

    def below(self, rows: Callable[[int, int], list[str]]) -> None:
        """Do nothing: changing rows have no place in a file."""

    def close(self) -> None:
        """Do nothing: there are no rows to erase."""


class Board:
    """The contents of the console."""

    def __init__(self, look: Appearance, *, by_run: bool = False, clock: Callable[[], int] = time.time_ns) -> None:
        """`by_run`: several runs are shown, each line with the name of its run."""
        self.look = look
        self.typed: Callable[[Question], str | None] = lambda _question: None  # the row with what is typed here
        self._by_run = by_run
        self._clock = clock
        self._processes: dict[str, set[tuple[str, int]]] = {}  # by run: host and pid of each
        self._hosts: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self._ended: set[str] = set()  # bars whose last line was shown
        self._printed: dict[str, tuple[float, int]] = {}  # in a pipe, by bar: when it was last printed, and how far
        self._bars: list[Bar] = []
        self._questions: list[Question] = []
        self._lost: set[str] = set()
        self._captured: set[str] = set()
        self.drawn: set[str] = set()  # bars that the program draws itself
        self.runs: dict[str, RunView] = {}

    def take(self, news: News, *, first: bool = False) -> list[str]:
        """Take the news; return the lines to print. `first`: bars that have ended already are not printed."""
        self.runs = news.runs
        for run in news.runs.values():
            self._names[run.id] = run.name or run.id
        shown = ["..."] if news.passed_over else []
        shown += self.events(news.events)
        shown += self._take_bars(news.bars, first=first)
        shown += self._silences()
        self.ask(news.questions)
        return shown

    def ask(self, questions: list[Question]) -> None:
        """Set the questions that are open."""
        self._questions = questions

    def events(self, events: Iterable[EventRow]) -> list[str]:
        """Return new events as lines."""
        events = list(events)
        for event in events:
            self._meet(event)
            if event.kind == "output" and event.attrs.get("pid", event.pid) != event.pid:  # captured by another process
                self._captured.add(event.span)
        shown: list[str] = []
        for event in events:
            if event.kind == ASKED or (event.attrs.get("printed") and event.span in self._captured):
                continue  # it is printed as output, or as the question
            shown += lines.event_lines(event, self._label(event), self.look)
        return shown

    def _meet(self, event: EventRow) -> None:
        self._processes.setdefault(event.span, set()).add((event.host, _pid(event)))
        self._hosts.setdefault(event.span, set()).add(event.host)

    def _label(self, event: EventRow) -> str:
        parts = [self._names.get(event.span, event.span)] if self._by_run else []
        if len(self._processes[event.span]) > 1:
            host = f"@{event.host}" if len(self._hosts[event.span]) > 1 else ""
            parts.append(f"pid {_pid(event)}{host}")  # a number of our own would be another one in each view
        return " ".join(parts)

    def _run_label(self, run: str) -> str:
        return self._names.get(run, run) if self._by_run else ""

    def _take_bars(self, bars: list[Bar], *, first: bool) -> list[str]:
        bars = [bar for bar in bars if bar.id not in self.drawn]
        self._bars = [bar for bar in bars if bar.state == "running"]
        shown = []
        for bar in bars:
            if bar.state != "running" and bar.id not in self._ended:
                self._ended.add(bar.id)
                if not first:
                    shown.append(lines.bar_end(bar, self._run_label(bar.run), self.look))
            elif bar.state == "running" and bar.id in self._ended:
                self._ended.discard(bar.id)  # its run was resumed
        if not self.look.terminal:
            shown += self._plain_progress()
        return shown

    def _plain_progress(self) -> list[str]:
        shown = []
        now_t = self._clock()
        for bar in self._bars:
            share = int((bar.fraction or 0.0) / _PLAIN_SHARE + 1e-9)
            t, before = self._printed.get(bar.id, (0.0, -1))
            if now_t / 1e9 - t >= _PLAIN_EVERY_S or share > before:
                self._printed[bar.id] = now_t / 1e9, share
                shown.append(lines.bar_plain(bar, self._run_label(bar.run), now_t, self.look))
        return shown

    def _silences(self) -> list[str]:
        """Return one line for each run that went silent, and one for each that is heard again."""
        lost = {run.id for run in self.runs.values() if run.state == LOST}
        shown = [
            lines.say(self._clock(), LOST, f"{self._names[run]}: nothing has been heard of it for a while", self.look)
            for run in sorted(lost - self._lost)
        ]
        shown += [
            lines.say(self._clock(), "running", f"{self._names[run]} is heard again", self.look)
            for run in sorted(self._lost - lost)
            if run in self.runs and self.runs[run].state in _RUNNING
        ]
        self._lost = lost
        return shown

    def rows(self, width: int, height: int, *, with_runs: bool = True) -> list[str]:
        """Return the rows below the lines, for a terminal of this size."""
        now_t = self._clock()
        most = max(1, height // 2 - 1)
        rows = [
            lines.bar_row(bar, self._run_label(bar.run), width, now_t, self.look) for bar in _fitting(self._bars, most)
        ]
        if len(self._bars) > most:
            rows.append(self.look.paint(cut(f"... and {len(self._bars) - most} more", width - 1, self.look), "2"))
        if with_runs:
            living = [run for run in self.runs.values() if run.state in (*_RUNNING, LOST)]
            rows += [lines.run_row(run, width, self.look) for run in living[:3]]
            if len(living) > 3:
                rows.append(self.look.paint(cut(f"... and {len(living) - 3} more runs", width - 1, self.look), "2"))
        for question in self._questions[:1]:  # one at a time, the oldest first
            if (typed := self.typed(question)) is not None:
                rows.append(cut(typed, width - 1, self.look))
        return rows[-max(1, height - 2) :]

    @property
    def is_busy(self) -> bool:
        """Whether a bar is still running."""
        return bool(self._bars)

    @property
    def question(self) -> Question | None:
        """The question to answer now: the oldest."""
        return self._questions[0] if self._questions else None


def _fitting(bars: list[Bar], most: int) -> list[Bar]:
    """Return so many bars: of each sort the oldest one, so that thirty bars of workers do not hide the one of all."""
    if len(bars) <= most:
        return bars
    oldest: dict[tuple[str, str], str] = {}
    for bar in bars:
        oldest.setdefault((bar.run, _COUNT.sub("", bar.name)), bar.id)
    chosen = [*oldest.values(), *(bar.id for bar in bars if bar.id not in oldest.values())][:most]
    return [bar for bar in bars if bar.id in chosen]


def _pid(event: EventRow) -> int:
    pid = event.attrs.get("pid")
    return pid if isinstance(pid, int) else event.pid


def shown_in_process(event: EventRow, host: str) -> bool:
    """Tell whether a line of a process must be shown in the terminal of its run's main process.

    What a process of this host prints itself, or by a logging handler or a traceback, reaches the terminal anyway.
    INFO of a library that only we wanted (`unasked`) is left out: without us nobody would see it.
    """
    if event.kind in (ASK, ASKED):
        return event.kind == ASK
    if event.attrs.get("unasked"):
        return False
    if event.host != host:
        return True
    return event.kind in ("log", "warning", "mark") and not event.attrs.get("printed")


def open_screen(stream: TextIO, *, plain: bool = False, raw: bool = False) -> Tty | Pipe:
    """Return the screen for a stream; `raw`: it is a terminal that does not translate newlines."""
    look = look_of(stream, os.environ, plain=plain)
    return Tty(stream, look, raw=raw) if look.terminal else Pipe(stream, look)
