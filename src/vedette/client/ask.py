"""A question to whoever watches the run: asked by an event, answered through the hub of this host, kept nowhere."""

import math
import os
import socket
import sys
import termios
import time
from typing import Any, Self

from vedette import kernel, wire
from vedette.client import screen
from vedette.client.current import current
from vedette.client.faults import let_through, say_once, swallow
from vedette.client.journal import Journal
from vedette.client.off import OffRun
from vedette.client.values import text_of
from vedette.model import new_id

_DIAL_AGAIN_S = (0.1, 2.0)
_MOST_WAIT_S = 60.0
_MOST_TYPED = 1 << 16

_open: dict[str, "_Asking"] = {}  # questions of this process


def ask(prompt: str, password: bool = False, timeout_s: float | None = None) -> str | None:
    """Ask the user, at whatever console watches the run, and wait for the answer; None when none came in time."""
    try:
        run = current()
        text = text_of(prompt)
        deadline = _deadline(timeout_s)
        if isinstance(run, OffRun):
            with _Terminal(text, password) as terminal:
                return _from_terminal_alone(terminal, deadline)
        return _Asking(run._journal, text, bool(password)).wait(deadline)  # noqa: SLF001 - the run's own inside
    except Exception as error:
        let_through(error)
        swallow(error, "ask()")
        return None


def give(question: str, text: str) -> bool:
    """Answer a question of this process, from within; tell whether it was open."""
    asking = _open.get(question)
    return asking is not None and asking.take(text, "")


def _deadline(timeout_s: Any) -> float | None:
    if timeout_s is None:
        return None
    try:
        seconds = float(timeout_s)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        say_once(f"ask(timeout_s={timeout_s!r}): seconds are a number; waits without a limit")
        return None
    return time.monotonic() + max(0.0, seconds)


def _left(deadline: float | None, most: float = _MOST_WAIT_S) -> float:
    return most if deadline is None else max(0.0, min(most, deadline - time.monotonic()))


class _Asking:
    """One question, until it is answered."""

    def __init__(self, journal: Journal, prompt: str, password: bool) -> None:
        self.id = new_id(8)
        self._journal = journal
        self._prompt = prompt
        self._password = password
        self._answer: tuple[str, str] | None = None  # the text, and the command that brought it
        self._bell, self._rope = socket.socketpair()
        self._peer: socket.socket | None = None
        self._unframer = wire.Unframer()
        self._dial_at = 0.0
        self._pause_s = _DIAL_AGAIN_S[0]

    def take(self, text: str, command: str) -> bool:
        """Take an answer; the first one counts."""
        if self._answer is not None:
            return False
        self._answer = text, command
        try:
            self._rope.send(b".")
        except OSError:
            pass
        return True

    def wait(self, deadline: float | None) -> str | None:
        """Ask, and wait."""
        journal = self._journal
        process = journal.process
        attrs = {"ask": self.id, "process": process, "password": self._password, "pid": os.getpid()}
        _open[self.id] = self
        try:
            journal.event("ask", self._prompt, 20, attrs)
            with _Terminal(self._prompt, self._password, wanted=_asks_here(journal)) as terminal:
                while self._answer is None and _left(deadline) > 0:
                    self._turn(process, deadline, terminal)
        finally:
            del _open[self.id]
            how = "gave up" if self._answer is None else "answered"
            command = "" if self._answer is None else self._answer[1]
            journal.event("asked", how, 20, {"ask": self.id, "how": how, "command": command})
            self._hang_up()
            self._bell.close()
            self._rope.close()
        return None if self._answer is None else self._answer[0]

    def _turn(self, process: str, deadline: float | None, terminal: "_Terminal") -> None:
        if self._peer is None and time.monotonic() >= self._dial_at:
            self._dial(process)
        most = _MOST_WAIT_S if self._peer is not None else max(0.01, self._dial_at - time.monotonic())
        fds: list[Any] = [self._bell]
        fds += [self._peer] if self._peer is not None else []
        fds += [terminal.fd] if terminal.listens() else []
        ready = kernel.wait(fds, (), _left(deadline, min(most, 1.0 if terminal.fd is not None else most)))
        if self._peer in ready:
            self._hear()
        if terminal.fd in ready and (typed := terminal.read()) is not None:
            self.take(typed, "")

    def _dial(self, process: str) -> None:
        """Wait at the hub of this host; one that is gone is started again, and asked again."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.settimeout(1.0)
            peer.connect(self._journal.home.socket)
            peer.sendall(wire.pack_message(wire.Hello(name="ask")) + wire.pack_message(wire.Await(process, self.id)))
            self._peer, self._unframer = peer, wire.Unframer()
        except OSError:
            peer.close()
            self._journal.wake_hub()
            self._later()

    def _later(self) -> None:
        self._dial_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, _DIAL_AGAIN_S[1])

    def _hear(self) -> None:
        assert self._peer is not None
        try:
            data = self._peer.recv(1 << 16)
            messages = [wire.unpack_message(payload) for payload in self._unframer.feed(data)]
        except Exception:  # damage, or a hub that is gone
            data, messages = b"", []
        for message in messages:
            if isinstance(message, wire.Answer) and message.ask == self.id:
                self.take(message.text, message.command)
            elif isinstance(message, wire.Hello):
                self._pause_s = _DIAL_AGAIN_S[0]
        if not data:
            self._hang_up()
            self._later()

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _asks_here(journal: Journal) -> bool:
    """Tell whether this process asks at its terminal itself: it is the one in front, and no console does it."""
    process = sys.modules.get("multiprocessing.process")
    if screen.is_on() or (process is not None and process.parent_process() is not None):
        return False
    return journal.main or bool(os.environ.get("VEDETTE_CAPTURED"))


class _Terminal:
    """The terminal of this process, if it has one, where a line can be typed."""

    def __init__(self, prompt: str, password: bool, *, wanted: bool = True) -> None:
        self.fd: int | None = None
        self._prompt = prompt
        self._password = password
        self._wanted = wanted
        self._typed = b""
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        try:
            if self._wanted and sys.stdin.isatty() and sys.stderr.isatty():
                self.fd = sys.stdin.fileno()
                sys.stderr.write(f"{self._prompt} ")
                sys.stderr.flush()
                if self._password:
                    self._hide()
        except Exception:  # whatever stands in the place of stdin
            self.fd = None
        return self

    def _hide(self) -> None:
        assert self.fd is not None
        self._before = termios.tcgetattr(self.fd)
        hidden = termios.tcgetattr(self.fd)
        hidden[3] &= ~termios.ECHO
        termios.tcsetattr(self.fd, termios.TCSANOW, hidden)

    def listens(self) -> bool:
        """Tell whether something can be typed now: a process in the background would be stopped if it read."""
        try:
            return self.fd is not None and os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    def read(self) -> str | None:
        """Return the line that was typed, once it is whole."""
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
        if b"\n" not in self._typed and len(self._typed) < _MOST_TYPED:
            return None
        self._wanted = False
        return self._typed.partition(b"\n")[0].decode(sys.stdin.encoding or "utf-8", "replace")

    def _restore(self) -> None:
        if self._before is not None and self.fd is not None:
            try:
                termios.tcsetattr(self.fd, termios.TCSANOW, self._before)
            except (termios.error, OSError):
                pass
            self._before = None

    def __exit__(self, *_: object) -> None:
        typed = self.fd is not None and not self._wanted
        hidden = self._before is not None
        self._restore()
        if self.fd is not None and (hidden or not typed):  # the line that was begun is ended
            try:
                sys.stderr.write("\n")
            except Exception:
                return


def _from_terminal_alone(terminal: _Terminal, deadline: float | None) -> str | None:
    while terminal.fd is not None and _left(deadline) > 0:
        fds = [terminal.fd] if terminal.listens() else []
        if kernel.wait(fds, (), _left(deadline, 1.0)) and (typed := terminal.read()) is not None:
            return typed
    return None
