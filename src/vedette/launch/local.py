"""A command of this machine, from its start to its end: its output, its keys, its signals, its time."""

import contextlib
import os
import signal
import termios
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from vedette import kernel
from vedette.deaths import memory, tree
from vedette.launch import terminal
from vedette.launch.child import Plumbing, lay, start
from vedette.launch.ending import Ending, sender
from vedette.launch.pump import Around, Pump, Take
from vedette.launch.terminal import Terminal

PASSED_ON = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_HEARD = {*PASSED_ON, signal.SIGCHLD, signal.SIGWINCH}
_BY_THE_KERNEL = 0x80  # si_code: a terminal has sent it to all its foreground processes
_IDLE_S = 0.1  # after its end, how long what it started may be silent before we go
_DRAIN_S = 2.0  # ... or may go on talking
_LEFT_S = 5.0  # that what a command leaves behind, which was told to end, has for its own end
_LOOK_S = 0.5  # between two looks whether our terminal has been given back to us


class Wish(NamedTuple):
    """How a command is to be run."""

    capture: bool = True
    limit_s: float | None = None
    grace_s: float = 10.0  # between SIGTERM and SIGKILL, when its time is over


class Launch:
    """One command. `run` starts it and comes back when it has ended."""

    def __init__(
        self,
        argv: list[str],
        environ: Mapping[str, str],
        wish: Wish,
        take: Take,
        *,
        left: Callable[[], Collection[int]] = set,
        on_start: Callable[[int], None] = lambda _: None,
        around: Around = lambda _name, _data: contextlib.nullcontext(),
    ) -> None:
        """`take` is handed what it prints; `left` finds what it may have left behind: it ends too if told to.

        `around` is entered while what it prints is passed on.
        """
        self._argv, self._environ, self._wish = argv, environ, wish
        self._take, self._left, self._on_start, self._around = take, left, on_start, around
        self._pid = 0
        self._status: int | None = None
        self._sent: dict[int, str] = {}
        self._timed_out = self._killed = self._hurried = False
        self._next_at: float | None = None  # when the time limit has its next word
        self._terminal: Terminal | None = None
        self._plumbing = Plumbing([], {}, None, own_session=False)
        self._pump = Pump([], take)

    @property
    def takes_keys(self) -> bool:
        """Whether the command reads its keyboard key by key, as editors and prompts with a history do."""
        master = self._plumbing.master
        return master is not None and self._plumbing.own_session and not terminal.by_lines(master)

    def run(self) -> Ending:
        """Run the command; raise OSError when it cannot be started. Our terminal is as it was, whatever happens."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started us may ignore it, and the status would be lost
        with held(_HEARD) as before:
            self._plumbing = lay(capture=self._wish.capture)
            heard = _HEARD | ({signal.SIGCONT, signal.SIGTSTP} if self._plumbing.own_session else set())
            signal.pthread_sigmask(signal.SIG_BLOCK, heard)
            signals = kernel.open_signals(heard)
            try:
                self._pump = Pump(self._plumbing.streams, self._take)
                self._pump.around = self._around
                self._pump.also(signals, lambda: self._heed(signals))
                self._pid = start(self._argv, self._environ, self._plumbing, before)
                self._on_start(self._pid)
                baseline = memory.begin(self._pid)
                status = self._attend()
            finally:
                if self._terminal is not None:
                    self._terminal.give_back()
                os.close(signals)
                self._let_go_of_terminal()
                for stream in self._plumbing.streams:
                    stream.shut()
            while signal.sigtimedwait(heard, 0) is not None:
                pass  # it came too late for the command, and is none of ours
        refused = max((stream.trouble for stream in self._plumbing.streams), default=0)
        return Ending(status, baseline, self._sent, self._timed_out, self._killed, refused)

    def _attend(self) -> int:
        self._take_terminal()
        if self._wish.limit_s is not None:
            self._next_at = time.monotonic() + self._wish.limit_s
        while self._status is None:
            waits = [] if self._next_at is None else [max(0.0, self._next_at - time.monotonic())]
            if self._terminal is not None and not self._terminal.raw:
                waits.append(_LOOK_S)
            self._pump.turn(min(waits, default=None))
            if self._next_at is not None and time.monotonic() >= self._next_at:
                self._end_its_time()
            if self._terminal is not None and not self._terminal.raw:
                self._take_terminal()
        self._drain()
        if self._timed_out or signal.SIGTERM in self._sent:
            self._end_what_is_left()
        return self._status

    def _drain(self) -> None:
        """Pass on what the command has left in its descriptors; who else holds them is not waited for."""
        self._let_go_of_terminal()
        deadline = time.monotonic() + _DRAIN_S
        self._hurried = False
        while self._pump.open and not self._hurried:
            moved = self._pump.turn(_IDLE_S, hear=False)
            idle = not moved and not any(stream.pending for stream in self._pump.streams)
            if idle or time.monotonic() > deadline:
                for stream in self._pump.streams:
                    stream.close()

    def _let_go_of_terminal(self) -> None:
        """Be no longer one of those who hold the command's end of its terminal; any number of times."""
        if self._plumbing.slave is not None:
            os.close(self._plumbing.slave)
            self._plumbing = self._plumbing._replace(slave=None)

    def _heed(self, signals: int) -> None:
        for came in kernel.read_signals(signals):
            if came.number == signal.SIGCHLD:
                self._reap()
            elif came.number == signal.SIGWINCH:
                self._resize()
            elif came.number == signal.SIGTSTP:
                self._suspend()
            elif came.number == signal.SIGCONT:
                if self._terminal is not None:
                    self._terminal.raw = False  # a shell has had it in between
                    self._take_terminal()
            elif self._status is not None:
                self._hurried = True
            elif came.code != _BY_THE_KERNEL or self._plumbing.own_session:
                if came.code != _BY_THE_KERNEL:
                    self._sent[came.number] = sender(came.pid, came.uid)
                os.kill(self._pid, came.number)

    def _reap(self) -> None:
        if self._status is None:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self._status = status

    def _resize(self) -> None:
        master, shown = self._plumbing.master, next((fd for fd in (1, 2) if os.isatty(fd)), None)
        if master is not None and shown is not None and self._plumbing.streams[0].source is not None:
            terminal.copy_size(shown, master)

    def _take_terminal(self) -> None:
        if not self._plumbing.own_session or self._plumbing.master is None:
            return
        if self._terminal is None:
            self._terminal = Terminal(0)
            self._pump.keys = self._look_at_keys
        if self._terminal.take():
            self._resize()
            self._pump.listen(0, self._plumbing.master)
        else:
            self._pump.stop_listening()

    def _look_at_keys(self, data: bytes) -> bytes:
        """Suspend where that is asked for: the command's own terminal cannot, as it has no shell of its own above."""
        master = self._plumbing.master
        assert master is not None
        if not data:
            return terminal.end_of_input(master)
        at = data.find(b"\x1a")
        if at < 0 or not terminal.means(master, b"\x1a", termios.VSUSP):
            return data
        try:
            if os.tcgetpgrp(master) != self._pid:  # a shell in there has job control of its own
                return data
        except OSError:
            return data
        self._pump.type(data[:at])
        self._suspend()
        return data[at + 1 :]

    def _suspend(self) -> None:
        """Stop the command and ourselves, and go on when the shell says so (at once, if there is none to say it)."""
        self._tell_group(signal.SIGSTOP)
        if self._terminal is not None:
            self._terminal.give_back()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.kill(0, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        self._take_terminal()
        self._tell_group(signal.SIGCONT)

    def _tell_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._pid, number)

    def _end_its_time(self) -> None:
        def everyone() -> set[int]:
            return {self._pid, *tree.below(self._pid), *self._left()} - {os.getpid()}

        if self._timed_out:
            self._killed = True
            self._next_at = None
            tree.end(everyone)
            return
        self._timed_out = True
        self._next_at = time.monotonic() + self._wish.grace_s
        for pid in everyone():
            _send(pid, signal.SIGTERM)

    def _end_what_is_left(self) -> None:
        """End what a command that was told to end has left behind."""
        left = set(self._left()) - {os.getpid()}
        for pid in left:
            _send(pid, signal.SIGTERM)
        deadline = time.monotonic() + _LEFT_S
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = set(self._left()) - {os.getpid()}
        if left:
            tree.end(self._left)


@contextlib.contextmanager
def held(numbers: Collection[int] = _HEARD) -> Iterator[set[signal.Signals | int]]:
    """Have signals wait until they are asked for, in this thread and those that begin in here; yield the old mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
