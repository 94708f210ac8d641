"""Helper processes of the hub: one way to start them, to tell them something, and to end them.

A helper is a Python module that runs in a process of its own, so that neither a slow reader nor a crash holds up the
hub. The hub writes one JSON message a line to the helper's standard input. `Helper` is the hub's end of that pipe,
`Inlet` is the helper's end. When the hub is gone, the helper reads the end of the file, and leaves. A helper that
`reports` answers by lines on its standard output.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import IO, Generic, TypeVar

import msgspec

from vedette import detached

_AGAIN_S = 5.0  # between two starts of a helper that fails
_PATIENCE_S = 1.0
_MOST_BYTES = 16 << 20  # of messages that a helper has not read yet
_READ_BYTES = 1 << 16
_MOST_LINE_BYTES = 1 << 16  # of what a helper reports
T = TypeVar("T")


def _nothing() -> Iterable[object]:
    return ()


class Helper:
    """One helper process, which is started again when it ends. Use it from one thread; nothing here blocks but `close`.

    `trouble` says in a sentence what went wrong last; it is cleared once a new helper has lived for a while.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Iterable[str] = (),
        first_messages: Callable[[], Iterable[object]] = _nothing,
        *,
        reports: bool = False,
    ) -> None:
        """Start nothing yet. `name` is what messages call it: `meter`, say.

        `first_messages` returns all that a new helper has to know; it is called for each process that is started.
        `reports`: what it writes to its standard output is for the hub, which must `read` it.
        """
        self.name = name
        self.trouble = ""
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._first_messages = first_messages
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent = bytearray()
        self._reports = reports
        self._unread = b""
        self._started = self._again_at = 0.0
        self._why_killed = ""
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The helper's process, while there is one."""
        return self._process.pid if self._process is not None else None

    def tell(self, message: object) -> None:
        """Send a message to the helper that runs; without one do nothing, for a new one hears `first_messages`."""
        if self._process is not None:
            self._unsent += msgspec.json.encode(message) + b"\n"

    def tend(self, *, wanted: bool = True) -> None:
        """Note the helper's end, start one if it is `wanted`, send what it has room for. To be called often.

        After a failure the next one is started 5 s after the last, or at once if that had lived longer. A helper that
        ended by itself, with the exit code 0, is replaced by the next call for which one is wanted. One that is no
        longer wanted is not ended: it is told so by a message.
        """
        if self._note_end():
            return
        if wanted and self._process is None and not self._closed and time.monotonic() >= self._again_at:
            self._start()
        self._send()

    def read(self) -> list[bytes]:
        """Return the lines that the helper has reported since the last call. They come from the process that runs, or
        from the last one if none runs. A helper that reports too much without a line's end is killed.
        """
        self._receive()
        *lines, self._unread = self._unread.split(b"\n")
        if len(self._unread) > _MOST_LINE_BYTES:
            self._unread = b""
            self.kill("reported too much, and was killed")
        return lines

    def kill(self, why: str) -> None:
        """Kill the helper, which is started again; `why` is the part of the sentence that follows its name."""
        if self._process is not None:
            self._why_killed = why
            self._kill()

    def leave(self) -> None:
        """Ask the helper to leave, for good, and wait for nothing; `close` it later."""
        self._closed = True
        self._unsent.clear()
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._pipe.close()

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """Have the helper leave, for good; one that does not leave in time is killed."""
        self.leave()
        if self._process is None:
            return
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:  # a driver that hangs, say
            self._kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    def _start(self) -> None:
        messages = [msgspec.json.encode(message) + b"\n" for message in self._first_messages()]
        try:
            self._process = subprocess.Popen(
                self._command, bufsize=0, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self._reports else subprocess.DEVNULL, start_new_session=True,
                cwd="/", env=detached.environment(),
            )  # fmt: skip
        except OSError as error:
            self._again_at = time.monotonic() + _AGAIN_S
            self.trouble = f"the {self.name} cannot be started: {error.strerror}"
            return
        os.set_blocking(self._pipe.fileno(), False)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
        self._unread = b""
        self._started = time.monotonic()
        self._unsent = bytearray(b"".join(messages))

    def _note_end(self) -> bool:
        """Tell whether it has ended."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None:
            if self.trouble and time.monotonic() - self._started > _AGAIN_S:
                self.trouble = ""
            return False
        with contextlib.suppress(OSError):
            self._pipe.close()
        if self._process.stdout is not None:
            self._receive()  # its last words
            self._process.stdout.close()
        self._process = None
        self._unsent.clear()
        self._again_at = self._started + _AGAIN_S if code else 0.0
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
            self.trouble = f"the {self.name} {self._why_killed or how}; it is started again"
        self._why_killed = ""
        return True

    def _receive(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        with contextlib.suppress(OSError):
            self._unread += os.read(self._process.stdout.fileno(), _READ_BYTES)

    def _send(self) -> None:
        """Write what fits; a helper that does not read must not hold up the hub."""
        if self._process is None or self._pipe.closed:
            return
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = os.write(self._pipe.fileno(), view)
                del self._unsent[:sent]
        except BlockingIOError:
            if len(self._unsent) > _MOST_BYTES:
                self._unsent.clear()
                self.kill("did not read its messages, and was killed")
        except OSError:  # it is about to be found dead
            self._unsent.clear()

    def _kill(self) -> None:
        """End the helper and what it has started: it leads a session of its own."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Inlet(Generic[T]):
    """The helper's end: messages of the hub, as they come."""

    def __init__(self, decode: Callable[[bytes], T], fd: int = 0) -> None:
        """Read from a descriptor that is never waited for; poll it. `decode` makes a message of a line of JSON."""
        os.set_blocking(fd, False)
        self.fd = fd
        self._decode = decode
        self._rest = b""

    def read(self) -> list[T] | None:
        """Return the messages that have come; None once the hub is gone, or wants this helper to leave."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [self._decode(line) for line in lines]
