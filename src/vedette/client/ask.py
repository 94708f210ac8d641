"""`vedette.ask`: a question to whoever watches the run.

The question is an event of the run. The answer comes through the hub of this host, or from this process's own terminal,
and is not stored.
"""

import math
import os
import socket
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any, Self

from vedette import kernel, unix_socket, wire
from vedette.client import notebook, screen
from vedette.client.current import current
from vedette.client.faults import say_once, swallow
from vedette.client.journal import Journal
from vedette.client.notebook import Input
from vedette.client.off import OffRun
from vedette.client.values import text_of
from vedette.errors import StrangerError
from vedette.ids import new_id
from vedette.interrupts import let_through

_RETRY_S = (0.1, 2.0)
_MAX_WAIT_S = 60.0
_MAX_TYPED_BYTES = 1 << 16

_open: dict[str, "_Question"] = {}  # the questions of this process that wait for an answer


def ask(prompt: str, password: bool = False, timeout_s: float | None = None) -> str | None:
    """Ask the user, at any console that watches the run, and wait for the answer; return None if none comes in time."""
    try:
        run = current()
        text = text_of(prompt)
        deadline = _deadline(timeout_s)
        if isinstance(run, OffRun):
            with notebook.open_input(text, password) or _Terminal(text, password) as terminal:
                return _ask_at_terminal_only(terminal, deadline)
        return _Question(run._journal, text, bool(password)).wait(deadline)  # noqa: SLF001 - the run's own inside
    except Exception as error:
        let_through(error)
        swallow(error, "ask()")
        return None


def answer(question: str, text: str) -> bool:
    """Answer a question of this process, called by its own console; tell whether the question was open."""
    found = _open.get(question)
    return found is not None and found.take(text, "")


def _deadline(timeout_s: Any) -> float | None:
    if timeout_s is None:
        return None
    try:
        seconds = float(timeout_s)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        say_once(f"ask(timeout_s={timeout_s!r}): not a number of seconds; it waits without a limit")
        return None
    return time.monotonic() + max(0.0, seconds)


def _remaining_s(deadline: float | None, most: float = _MAX_WAIT_S) -> float:
    return most if deadline is None else max(0.0, min(most, deadline - time.monotonic()))


class _Question:
    """One question that waits for its answer."""

    def __init__(self, journal: Journal, prompt: str, password: bool) -> None:
        self.id = new_id(8)
        self._journal = journal
        self._prompt = prompt
        self._password = password
        self._answer: tuple[str, str] | None = None  # the text, and the id of the command that brought it
        self._wakeup_read, self._wakeup_write = socket.socketpair()
        self._peer: socket.socket | None = None
        self._unframer = wire.Unframer()
        self._connect_at = 0.0
        self._pause_s = _RETRY_S[0]

    def take(self, text: str, command: str) -> bool:
        """Take an answer; the first one counts."""
        if self._answer is not None:
            return False
        self._answer = text, command
        try:
            self._wakeup_write.send(b".")
        except OSError:
            pass
        return True

    def wait(self, deadline: float | None) -> str | None:
        """Ask, and wait for the answer."""
        journal = self._journal
        process = journal.process
        attrs = {"ask": self.id, "process": process, "password": self._password, "pid": os.getpid()}
        _open[self.id] = self
        try:
            journal.event("ask", self._prompt, 20, attrs)
            with notebook.open_input(self._prompt, self._password) or _Terminal(
                self._prompt, self._password, wanted=_asks_at_own_terminal(journal)
            ) as terminal:
                while self._answer is None and _remaining_s(deadline) > 0:
                    self._wait_once(process, deadline, terminal)
        finally:
            del _open[self.id]
            how = "gave up" if self._answer is None else "answered"
            command = "" if self._answer is None else self._answer[1]
            journal.event("asked", how, 20, {"ask": self.id, "how": how, "command": command})
            self._disconnect()
            self._wakeup_read.close()
            self._wakeup_write.close()
        return None if self._answer is None else self._answer[0]

    def _wait_once(self, process: str, deadline: float | None, terminal: Input) -> None:
        if self._peer is None and time.monotonic() >= self._connect_at:
            self._connect(process)
        most = _MAX_WAIT_S if self._peer is not None else max(0.01, self._connect_at - time.monotonic())
        fds: list[Any] = [self._wakeup_read]
        fds += [self._peer] if self._peer is not None else []
        fds += [terminal.fd] if terminal.can_read() else []
        ready = kernel.wait(fds, (), _remaining_s(deadline, min(most, 1.0 if terminal.fd is not None else most)))
        if self._peer in ready:
            self._receive()
        if _may_read(terminal, ready) and (typed := terminal.read()) is not None:
            self.take(typed, "")

    def _connect(self, process: str) -> None:
        """Connect to the hub of this host and wait there; if no hub runs, start one and try again later."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.settimeout(1.0)
            unix_socket.connect(peer, self._journal.home.socket)
            peer.sendall(wire.pack_message(wire.Hello(name="ask")) + wire.pack_message(wire.Await(process, self.id)))
            self._peer, self._unframer = peer, wire.Unframer()
        except StrangerError as error:
            peer.close()
            say_once(f"no answer is taken from {self._journal.home.socket}: {error}")
            self._retry_later()
        except OSError:
            peer.close()
            self._journal.wake_hub()
            self._retry_later()

    def _retry_later(self) -> None:
        self._connect_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, _RETRY_S[1])

    def _receive(self) -> None:
        assert self._peer is not None
        try:
            data = self._peer.recv(1 << 16)
            messages = [wire.unpack_message(payload) for payload in self._unframer.feed(data)]
        except Exception as error:  # a damaged message, or the hub is gone
            let_through(error)
            data, messages = b"", []
        for message in messages:
            if isinstance(message, wire.Answer) and message.ask == self.id:
                self.take(message.text, message.command)
            elif isinstance(message, wire.Hello):
                self._pause_s = _RETRY_S[0]
        if not data:
            self._disconnect()
            self._retry_later()

    def _disconnect(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _asks_at_own_terminal(journal: Journal) -> bool:
    """Tell whether this process asks at its terminal itself: it is the main process, and no console asks there."""
    process = sys.modules.get("multiprocessing.process")
    if screen.is_on() or (process is not None and process.parent_process() is not None):
        return False
    return journal.main or bool(os.environ.get("VEDETTE_CAPTURED"))


class _Terminal:
    """The terminal of this process, if it has one. It reads one typed line."""

    never_blocks = False

    def __init__(self, prompt: str, password: bool, *, wanted: bool = True) -> None:
        self.fd: int | None = None
        self._prompt = prompt
        self._password = password
        self._wanted = wanted
        self._typed = b""
        self._original_settings: list[Any] | None = None

    def __enter__(self) -> Self:
        try:
            if self._wanted and sys.stdin.isatty() and sys.stderr.isatty():
                self.fd = sys.stdin.fileno()
                sys.stderr.write(f"{self._prompt} ")
                sys.stderr.flush()
                if self._password:
                    self._hide()
        except Exception as error:  # stdin may be any object
            let_through(error)
            self.fd = None
        return self

    def _hide(self) -> None:
        assert self.fd is not None
        self._original_settings = termios.tcgetattr(self.fd)
        hidden = termios.tcgetattr(self.fd)
        hidden[3] &= ~termios.ECHO
        termios.tcsetattr(self.fd, termios.TCSANOW, hidden)

    def can_read(self) -> bool:
        """Tell whether reading is safe now: the kernel stops a background process that reads from its terminal."""
        try:
            return self.fd is not None and os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    def read(self) -> str | None:
        """Read what was typed; return the line once it is complete, else None."""
        assert self.fd is not None
        try:
            data = os.read(self.fd, 4096)
        except OSError:
            data = b""
        if not data:  # Ctrl-D, or the terminal is gone
            self._restore()
            self.fd = None
            return None
        self._typed += data
        if b"\n" not in self._typed and len(self._typed) < _MAX_TYPED_BYTES:
            return None
        self._wanted = False
        return self._typed.partition(b"\n")[0].decode(sys.stdin.encoding or "utf-8", "replace")

    def _restore(self) -> None:
        if self._original_settings is not None and self.fd is not None:
            try:
                termios.tcsetattr(self.fd, termios.TCSANOW, self._original_settings)
            except (termios.error, OSError):
                pass
            self._original_settings = None

    def __exit__(self, *_: object) -> None:
        typed = self.fd is not None and not self._wanted
        hidden = self._original_settings is not None
        self._restore()
        if self.fd is not None and (hidden or not typed):  # end the line that the prompt began
            try:
                sys.stderr.write("\n")
            except Exception as error:
                let_through(error)
                return


def _ask_at_terminal_only(terminal: Input, deadline: float | None) -> str | None:
    while terminal.fd is not None and _remaining_s(deadline) > 0:
        fds = [terminal.fd] if terminal.can_read() else []
        ready = kernel.wait(fds, (), _remaining_s(deadline, 1.0))
        if _may_read(terminal, ready) and (typed := terminal.read()) is not None:
            return typed
    return None


def _may_read(terminal: Input, ready: Sequence[Any]) -> bool:
    return terminal.can_read() and (terminal.never_blocks or terminal.fd in ready)
