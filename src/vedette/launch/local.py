"""Stays with a command from its start to its end: its output, its keys, its signals, its time limit."""

import contextlib
import os
import signal
import termios
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from vedette import kernel
from vedette.deaths import limits, memory, tree
from vedette.launch import terminal
from vedette.launch.child import Plumbing, make_plumbing, start
from vedette.launch.ending import Ending, sender
from vedette.launch.pump import Around, Pump, Take
from vedette.launch.terminal import Terminal

PASSED_ON = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_HANDLED = {*PASSED_ON, signal.SIGCHLD, signal.SIGWINCH}
_IDLE_S = 0.1  # after its end: we leave when its children have printed nothing for so long
_DRAIN_S = 2.0  # ... or at the latest after this
_LEFTOVER_S = 5.0  # after SIGTERM: how long processes that a command left behind have to end
_CHECK_TERMINAL_S = 0.5  # how often we check whether our terminal is in our hands again


class Options(NamedTuple):
    """How to run a command."""

    capture: bool = True
    limit_s: float | None = None
    grace_s: float = tree.GRACE_S  # between SIGTERM and SIGKILL at the time limit


class Launch:
    """One command. `run` starts it and returns when it has ended."""

    def __init__(
        self,
        argv: list[str],
        environ: Mapping[str, str],
        options: Options,
        take: Take,
        *,
        left: Callable[[], Collection[int]] = set,
        on_start: Callable[[int], None] = lambda _: None,
        around: Around = lambda _name, _data: contextlib.nullcontext(),
    ) -> None:
        """`take` gets what the command prints. `left` finds processes that it left behind, which we then end too.

        `around` is a context that is entered while output is passed on.
        """
        self._argv, self._environ, self._options = argv, environ, options
        self._take, self._left, self._on_start, self._around = take, left, on_start, around
        self._pid = 0
        self._status: int | None = None
        self._cpu: limits.CpuUse | None = None
        self._sent: dict[int, str] = {}
        self._timed_out = self._killed = self._skip_drain = False
        self._limit_at: float | None = None  # when to send SIGTERM, then SIGKILL
        self._terminal: Terminal | None = None
        self._plumbing = Plumbing([], {}, None, own_session=False)
        self._pump = Pump([], take)

    @property
    def prints_together(self) -> bool:
        """Whether stdout and stderr of the command go to the same place."""
        return len(self._plumbing.streams) == 1

    @property
    def takes_keys(self) -> bool:
        """Whether the command reads single keys, as editors and prompts with a history do."""
        master = self._plumbing.master
        return master is not None and self._plumbing.own_session and not terminal.by_lines(master)

    def run(self) -> Ending:
        """Run the command; raise OSError when it cannot be started. Our terminal is restored in any case."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if our parent ignored it, the exit status would be lost
        with blocked(_HANDLED) as before:
            self._plumbing = make_plumbing(capture=self._options.capture)
            handled = _HANDLED | ({signal.SIGCONT, signal.SIGTSTP} if self._plumbing.own_session else set())
            signal.pthread_sigmask(signal.SIG_BLOCK, handled)
            signals = kernel.open_signals(handled)
            try:
                self._pump = Pump(self._plumbing.streams, self._take)
                self._pump.around = self._around
                self._pump.watch(signals, lambda: self._handle_signals(signals))
                self._pid = start(self._argv, self._environ, self._plumbing, before)
                self._on_start(self._pid)
                baseline = memory.begin(self._pid)
                status = self._wait_for_end()
            finally:
                if self._terminal is not None:
                    self._terminal.give_back()
                os.close(signals)
                self._close_slave()
                for stream in self._plumbing.streams:
                    stream.shut()
            while signal.sigtimedwait(handled, 0) is not None:
                pass  # a signal that came after the command's end
        output_errno = max((stream.trouble for stream in self._plumbing.streams), default=0)
        return Ending(status, baseline, self._sent, self._timed_out, self._killed, output_errno, self._cpu)

    def _wait_for_end(self) -> int:
        self._take_terminal()
        if self._options.limit_s is not None:
            self._limit_at = time.monotonic() + self._options.limit_s
        while self._status is None:
            waits = [] if self._limit_at is None else [max(0.0, self._limit_at - time.monotonic())]
            if self._terminal is not None and not self._terminal.raw:
                waits.append(_CHECK_TERMINAL_S)
            self._pump.turn(min(waits, default=None))
            if self._limit_at is not None and time.monotonic() >= self._limit_at:
                self._enforce_time_limit()
            if self._terminal is not None and not self._terminal.raw:
                self._take_terminal()
        self._drain()
        if self._timed_out or signal.SIGTERM in self._sent:
            self._end_leftovers()
        return self._status

    def _drain(self) -> None:
        """Pass on what is left in the command's descriptors; do not wait for other processes that hold them."""
        self._close_slave()
        deadline = time.monotonic() + _DRAIN_S
        self._skip_drain = False
        while self._pump.open and not self._skip_drain:
            moved = self._pump.turn(_IDLE_S, with_keys=False)
            idle = not moved and not any(stream.pending for stream in self._pump.streams)
            if idle or time.monotonic() > deadline:
                for stream in self._pump.streams:
                    stream.close()

    def _close_slave(self) -> None:
        """Close the command's end of its terminal, if we still hold it."""
        if self._plumbing.slave is not None:
            os.close(self._plumbing.slave)
            self._plumbing = self._plumbing._replace(slave=None)

    def _handle_signals(self, signals: int) -> None:
        for came in kernel.read_signals(signals):
            if came.number == signal.SIGCHLD:
                self._reap()
            elif came.number == signal.SIGWINCH:
                self._resize()
            elif came.number == signal.SIGTSTP:
                self._suspend()
            elif came.number == signal.SIGCONT:
                if self._terminal is not None:
                    self._terminal.raw = False  # the shell has changed it meanwhile
                    self._take_terminal()
            elif self._status is not None:
                self._skip_drain = True
            elif came.code != kernel.FROM_KERNEL or self._plumbing.own_session:
                # What the command ignores has told it nothing.
                if came.code != kernel.FROM_KERNEL and not kernel.ignores(self._pid, came.number):
                    self._sent[came.number] = sender(came.pid, came.uid)
                os.kill(self._pid, came.number)

    def _reap(self) -> None:
        if self._status is None:
            self._cpu = limits.cpu_use(self._pid)  # while it is a zombie
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
            self._pump.keys = self._filter_keys
        if self._terminal.take():
            self._resize()
            self._pump.read_keyboard(0, self._plumbing.master)
        else:
            self._pump.leave_keyboard()

    def _filter_keys(self, data: bytes) -> bytes:
        """Handle Ctrl-Z ourselves: no shell controls the command's own terminal. Return the keys to pass on."""
        master = self._plumbing.master
        assert master is not None
        if not data:
            return terminal.end_of_input(master)
        at = data.find(b"\x1a")
        if at < 0 or not terminal.means(master, b"\x1a", termios.VSUSP):
            return data
        try:
            if os.tcgetpgrp(master) != self._pid:  # a shell runs in there and has its own job control
                return data
        except OSError:
            return data
        self._pump.type(data[:at])
        self._suspend()
        return data[at + 1 :]

    def _suspend(self) -> None:
        """Stop the command and ourselves, and go on when the shell continues us (at once if there is no shell)."""
        self._signal_group(signal.SIGSTOP)
        if self._terminal is not None:
            self._terminal.give_back()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.kill(0, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        self._take_terminal()
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._pid, number)

    def _enforce_time_limit(self) -> None:
        def everyone() -> set[int]:
            return {self._pid, *tree.below(self._pid), *self._left()} - {os.getpid()}

        if self._timed_out:
            self._killed = True
            self._limit_at = None
            tree.end(everyone)
            return
        self._timed_out = True
        self._limit_at = time.monotonic() + self._options.grace_s
        for pid in everyone():
            _send(pid, signal.SIGTERM)

    def _end_leftovers(self) -> None:
        """End the processes that a terminated command left behind."""
        left = set(self._left()) - {os.getpid()}
        for pid in left:
            _send(pid, signal.SIGTERM)
        deadline = time.monotonic() + _LEFTOVER_S
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = set(self._left()) - {os.getpid()}
        if left:
            tree.end(self._left)


@contextlib.contextmanager
def blocked(numbers: Collection[int] = _HANDLED) -> Iterator[set[signal.Signals | int]]:
    """Block signals in this thread and in threads that it starts meanwhile; yield the old mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def exit_code(status: int) -> int:
    """Return the exit code of a command, as a shell does: 128 and the number of the signal that killed it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
