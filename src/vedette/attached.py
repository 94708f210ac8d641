"""The console in a run's own process: a thread that shows on stderr what all its processes say and how far they are.

Its own lines come directly, those of other processes by the store. It reads that a few times a second, and whatever
goes wrong, it goes away with a sentence and the work goes on.
"""

import atexit
import collections
import errno
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from vedette import kernel
from vedette.access.home_access import HomeAccess
from vedette.client import ask, faults
from vedette.client.run import Run
from vedette.errors import VedetteError
from vedette.model import Event
from vedette.query.live import Feed
from vedette.query.questions import Question, settle
from vedette.settings import Settings
from vedette.store import EventRow
from vedette.views.asking import Asking, Keys
from vedette.views.console import Board, Pipe, Tty, open_screen, shown_in_process
from vedette.views.lines import run_end

_TICK_S = 0.1
_LAST_LOOK_S = 1.0  # for the last lines of other processes
_LAST_BARS_S = 0.5
_QUIET_S = 0.3
_MOST_MISSES = 50
_MOST_WAITING = 100_000  # own lines that are not shown yet


class Attached:
    """The console of one run, in its main process."""

    def __init__(self, run: Run, access: HomeAccess, stream: TextIO, *, beside: bool = False) -> None:
        """`beside`: a command has the keyboard, and this process is but its launcher."""
        self._run = run
        self._access = access
        self._stream = stream
        self._pid, self._host = os.getpid(), kernel.host()
        self._process = run._journal.process  # noqa: SLF001
        self._own_questions: dict[str, Question] = {}  # which do not need the hub
        self._other_questions: list[Question] = []
        self._born = time.monotonic()
        self._own: collections.deque[Event] = collections.deque(maxlen=_MOST_WAITING)
        self._screen: Tty | Pipe = open_screen(stream, raw=beside)
        self._lock = self._screen.area.lock if isinstance(self._screen, Tty) else threading.RLock()
        self._board = Board(self._screen.look)
        self._asking = Asking(Keys(os.devnull) if beside else Keys(), self._answer)
        self._board.typed = self._asking.row
        self._follower = self._access.follower(run.id)
        self._misses = 0
        self._feed: Feed | None = None
        self._first: list[str] = []  # lines that come before all others
        self._here: dict[int, bool] = {}  # by id of a stream: whether it goes to the same terminal
        self._others = False  # another process has spoken
        self._heard_at = 0.0
        self._down = False
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._work, name="vedette console", daemon=True)

    def start(self, *, hello: bool = True) -> None:
        """Begin; `hello`: say which run this is."""
        name = self._run.name or self._run.id
        if hello:
            self._first = [f"{name} ({self._run.id}): `vedette watch {name}` shows it elsewhere"]
        self._board.rows(*(80, 24))  # all that is imported late is imported now: not while somebody forks
        self._run._journal.tap = self._own.append  # noqa: SLF001 - it is made for this
        atexit.register(self._asking.close)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it is there, and has not failed."""
        return not self._down

    def leave_alone(self, bars: set[str], occupied: Callable[[], bool]) -> None:
        """Show none of these bars, which are drawn by whoever moves them, and nothing at all while it is `occupied`."""
        self._board.drawn = bars
        if isinstance(self._screen, Tty):
            self._screen.area.occupied = occupied

    # What the program prints.

    def lock_for(self, stream: TextIO) -> AbstractContextManager[Any] | None:
        """Return what is to be held while the program prints on a stream; None: it goes elsewhere."""
        here = self._here.get(id(stream))
        if here is None:
            here = self._here[id(stream)] = _same_terminal(stream, self._stream)
        if self._down or not here or not isinstance(self._screen, Tty):
            return None
        return self._lock

    def make_room(self, text: str) -> None:
        """Take everything away that a text would be printed over."""
        try:
            if not self._down and isinstance(self._screen, Tty):
                self._drain()
                self._screen.area.make_room(text)
        except Exception as error:
            faults.let_through(error)
            self._fail(error)

    def go_on(self, text: str) -> None:
        """Put everything back behind a text that was printed."""
        try:
            if not self._down and isinstance(self._screen, Tty):
                self._screen.area.go_on(text)
        except Exception as error:
            faults.let_through(error)
            self._fail(error)

    def read(self, on: bool, *, ended: bool = True) -> None:
        """Leave the cursor alone while the program has a line typed; `ended`: the line was."""
        try:
            if not self._down and isinstance(self._screen, Tty):
                self._screen.area.read(on, ended=ended)
        except Exception as error:
            faults.let_through(error)
            self._fail(error)

    @contextmanager
    def around(self, stream: TextIO, text: str) -> Iterator[None]:
        """Make room while a command prints a text, and put everything back behind it."""
        with self.lock_for(stream) or nullcontext():
            self.make_room(text)
            try:
                yield
            finally:
                self.go_on(text)

    def forget(self) -> None:
        """Do nothing any more: this is the child of a fork."""
        self._down = True
        atexit.unregister(self._asking.close)

    def close(self, name: str, state: str, cause: str) -> str:
        """Show what is left, within 2 s, and go away; return the last line, if it can be shown."""
        self._leaving.set()
        self._follower.wake()
        self._thread.join(_LAST_LOOK_S + 0.8)
        self._run._journal.tap = None  # noqa: SLF001
        atexit.unregister(self._asking.close)
        self._down = True
        if self._thread.is_alive():  # its terminal is stopped, by Ctrl-S: no more of it
            return ""
        if isinstance(self._screen, Tty) and self._screen.area.is_gone:
            return ""
        return run_end(name, state, cause, time.monotonic() - self._born, self._screen.look)

    # In the thread.

    def _work(self) -> None:
        try:
            while not self._leaving.is_set():
                fds = [self._asking.fd] if self._asking.fd is not None else []
                change = self._follower.wait(_TICK_S, fds)
                if self._asking.fd is not None:
                    self._show(self._asking.read())
                self._drain()
                if change is not None:
                    self._look()
                self._asking.tend(self._board.question)
                self._screen.below(lambda width, height: self._board.rows(width, height, with_runs=False))
            self._last_look()
            self._drain()
            self._screen.close()
        except Exception as error:
            self._fail(error)
        finally:
            self._asking.close()
            self._follower.close()

    def _last_look(self) -> None:
        """Wait for the last words of others and of bars, not long; where there are none, not at all."""
        begun = time.monotonic()
        most_s = _LAST_LOOK_S if self._others else _LAST_BARS_S
        while True:
            self._look()
            now = time.monotonic()
            quiet = not self._others or now - max(begun, self._heard_at) > _QUIET_S
            if now - begun >= most_s or (quiet and not self._board.is_busy):
                return
            self._follower.wait(0.1)

    def _drain(self) -> None:
        """Show what this process has said."""
        if not self._own and not self._first:
            return
        with self._lock:  # so that no line comes before an older one
            lines, self._first = self._first, []
            while self._own:
                event = self._own.popleft()
                row = EventRow(
                    0, event.span, event.t, event.kind, event.level, event.text, event.attrs, self._host, self._pid
                )
                settle(self._own_questions, [row])
                if shown_in_process(row, self._host):
                    lines += self._board.events([row])
            self._show(lines)
            self._board.ask([*self._own_questions.values(), *self._other_questions])

    def _show(self, lines: list[str]) -> None:
        if lines and not self._down:
            self._screen.above(lines)

    def _look(self) -> None:
        if self._feed is None:
            self._open()
        if self._feed is None:
            return
        try:
            news = self._feed.look()
        except sqlite3.Error:  # it is being made, or busy
            self._misses += 1
            if self._misses > _MOST_MISSES:
                raise
            return
        self._misses = 0
        others = [event for event in news.events if (event.host, event.pid) != (self._host, self._pid)]
        others = [event for event in others if event.pid]
        if others:
            self._others, self._heard_at = True, time.monotonic()
        late = self._asking.hear(news.events)
        self._other_questions = [item for item in news.questions if item.process != self._process]
        news.questions = [*self._own_questions.values(), *self._other_questions]
        news.events = [event for event in others if shown_in_process(event, self._host)]
        with self._lock:
            self._show(late + self._board.take(news))

    def _open(self) -> None:
        if os.path.exists(self._access.home.store):
            try:
                store = self._access.reader()
            except (VedetteError, sqlite3.Error):  # it is being made
                return
            self._feed = Feed(store, self._run.id, lost_after_s=self._access.lost_after_s)

    def _answer(self, question: Question, text: str) -> str:
        if ask.give(question.id, text):
            return ""
        return self._access.answer(question.process, question.id, text)

    def _fail(self, error: Exception) -> None:
        if self._down:
            return
        self._down = True
        self._run._journal.tap = None  # noqa: SLF001
        try:
            self._screen.close()
        except Exception:  # the terminal itself may be what failed
            return
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            return  # stderr is no terminal any more: what it is now is the user's
        faults.say_once(
            f"the console goes away ({type(error).__name__}: {error}); `vedette watch {self._run.id}` shows it"
        )


def _same_terminal(one: TextIO, other: TextIO) -> bool:
    try:
        return one is other or (one.isatty() and os.fstat(one.fileno()).st_rdev == os.fstat(other.fileno()).st_rdev)
    except Exception:  # whatever a stranger's stream raises
        return False


def open_console(run: Run, settings: Settings) -> Attached:
    """Open the console of a run that this process has begun."""
    console = Attached(run, HomeAccess.of(settings), sys.stderr)
    console.start()
    return console
