"""The console in a run's own process: a thread that draws on stderr, and makes room for what the program prints there.

If anything goes wrong, the console closes with a message, and the program goes on.
"""

import atexit
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from vedette.access.home_access import HomeAccess
from vedette.attached.run_lines import RunLines
from vedette.client import faults
from vedette.client.run import Run
from vedette.interrupts import let_through
from vedette.settings import Settings
from vedette.views.asking import Keys
from vedette.views.console import Board, Pipe, Tty, open_screen
from vedette.views.lines import run_end

_TICK_S = 0.2  # between two drawings; each costs the program's own CPU
_LAST_LOOK_S = 1.0  # how long we wait at the end for the last lines of other processes
_LAST_BARS_S = 0.5
_QUIET_S = 0.3


class Attached:
    """The console of one run, in its main process."""

    def __init__(self, run: Run, access: HomeAccess, stream: TextIO, *, beside: bool = False) -> None:
        """`beside`: this process is only the launcher of a command, which has the keyboard."""
        self._run = run
        self._stream = stream
        self._screen: Tty | Pipe = open_screen(stream, raw=beside)
        self._lock = self._screen.area.lock if isinstance(self._screen, Tty) else threading.RLock()
        self._board = Board(self._screen.look)
        keys = Keys(os.devnull) if beside else Keys()
        self._lines = RunLines(access, run.id, run._journal.process, self._board, keys)  # noqa: SLF001
        self._asking = self._lines.asking
        self._follower = access.follower(run.id)
        self._same_terminal_by_id: dict[int, bool] = {}  # by id of a stream: does it go to our terminal?
        self._is_closed = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="vedette console", daemon=True)

    def start(self, *, hello: bool = True) -> None:
        """Begin; `hello`: say which run this is."""
        name = self._run.name or self._run.id
        if hello:
            self._lines.first = [f"{name} ({self._run.id}): `vedette watch {name}` shows it elsewhere"]
        self._board.rows(*(80, 24))  # do all late imports now, not while another thread forks
        self._run._journal.tap = self._lines.own.append  # noqa: SLF001 - made for the console
        atexit.register(self._asking.close)
        self._thread.start()
        if isinstance(self._screen, Tty):  # if we are killed, the hub erases what we have drawn there
            self._run._journal.set(self._run._journal.process, {"terminal": _terminal(self._stream)})  # noqa: SLF001

    @property
    def alive(self) -> bool:
        """Whether it is open, and has not failed."""
        return not self._is_closed

    def leave_alone(self, bars: set[str], occupied: Callable[[], bool]) -> None:
        """Do not show these bars, which the command draws itself; draw nothing at all while `occupied()`."""
        self._board.drawn = bars
        if isinstance(self._screen, Tty):
            self._screen.area.occupied = occupied

    # What the program prints.

    def lock_for(self, stream: TextIO) -> AbstractContextManager[Any] | None:
        """Return the lock to hold while the program prints to a stream; None if the stream goes elsewhere."""
        here = self._same_terminal_by_id.get(id(stream))
        if here is None:
            here = self._same_terminal_by_id[id(stream)] = _same_terminal(stream, self._stream)
        if self._is_closed or not here or not isinstance(self._screen, Tty):
            return None
        return self._lock

    def make_room(self, text: str) -> None:
        """Erase what the text would be printed over."""
        try:
            if not self._is_closed and isinstance(self._screen, Tty):
                self._drain()
                self._screen.area.make_room(text)
        except Exception as error:
            let_through(error)
            self._fail(error)

    def go_on(self, text: str) -> None:
        """Draw everything again below the printed text."""
        try:
            if not self._is_closed and isinstance(self._screen, Tty):
                self._screen.area.go_on(text)
        except Exception as error:
            let_through(error)
            self._fail(error)

    def read(self, on: bool, *, ended: bool = True) -> None:
        """Leave the cursor alone while the user types a line for the program; `ended`: the line is complete."""
        try:
            if not self._is_closed and isinstance(self._screen, Tty):
                self._screen.area.read(on, ended=ended)
        except Exception as error:
            let_through(error)
            self._fail(error)

    @contextmanager
    def around(self, stream: TextIO, text: str) -> Iterator[None]:
        """Make room while a command prints a text, and draw again below it."""
        with self.lock_for(stream) or nullcontext():
            self.make_room(text)
            try:
                yield
            finally:
                self.go_on(text)

    def forget(self) -> None:
        """Stop drawing: this is a fork child."""
        self._is_closed = True
        atexit.unregister(self._asking.close)

    def close(self, name: str, state: str, cause: str) -> str:
        """Show what is left, and close, within 2 s; return the last line, empty if it cannot be shown."""
        self._closing.set()
        self._follower.wake()
        self._thread.join(_LAST_LOOK_S + 0.8)
        self._run._journal.tap = None  # noqa: SLF001
        atexit.unregister(self._asking.close)
        self._is_closed = True
        if self._thread.is_alive():  # Ctrl-S has stopped the terminal: print nothing more
            return ""
        if isinstance(self._screen, Tty) and self._screen.area.is_gone:
            return ""
        return run_end(name, state, cause, (time.time_ns() - self._run._begun_t) / 1e9, self._screen.look)  # noqa: SLF001

    # In the thread.

    def _work(self) -> None:
        try:
            while not self._closing.is_set():
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
        """Wait briefly for the last lines of other processes and of bars, if there are any."""
        begun = time.monotonic()
        most_s = _LAST_LOOK_S if self._lines.has_heard_others else _LAST_BARS_S
        while True:
            self._look()
            now = time.monotonic()
            quiet = not self._lines.has_heard_others or now - max(begun, self._lines.heard_at) > _QUIET_S
            if now - begun >= most_s or (quiet and not self._board.is_busy):
                return
            self._follower.wait(_TICK_S)

    def _drain(self) -> None:
        """Show the new lines of this process."""
        if self._lines.own or self._lines.first:
            with self._lock:  # so that no line comes before an older one
                self._show(self._lines.take_own())

    def _look(self) -> None:
        """Show the new lines of other processes."""
        if (news := self._lines.look()) is not None:
            with self._lock:
                self._show(self._lines.take(news))

    def _show(self, lines: list[str]) -> None:
        if lines and not self._is_closed:
            self._screen.above(lines)

    def _fail(self, error: Exception) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._run._journal.tap = None  # noqa: SLF001
        try:
            self._screen.close()
        except Exception:  # the terminal itself may be what failed
            return
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            return  # stderr is not a terminal any more: do not write to whatever it is now
        faults.say_once(
            f"the console closes ({type(error).__name__}: {error}); `vedette watch {self._run.id}` shows the run"
        )


def _terminal(stream: TextIO) -> str:
    try:
        return os.ttyname(stream.fileno())
    except OSError:
        return ""


def _same_terminal(one: TextIO, other: TextIO) -> bool:
    try:
        return one is other or (one.isatty() and os.fstat(one.fileno()).st_rdev == os.fstat(other.fileno()).st_rdev)
    except Exception:  # a user's stream may raise anything
        return False


def open_console(run: Run, settings: Settings) -> Attached:
    """Open the console of a run that this process has begun."""
    console = Attached(run, HomeAccess.of(settings), sys.stderr)
    console.start()
    return console
