"""Copies bytes from a command's descriptors to where they would go without us, and hands them to the recorder."""

import contextlib
import os
import select
import stat
from collections.abc import Callable

_CHUNK = 64 << 10
_PIPE_SAFE_BYTES = select.PIPE_BUF  # a pipe that polls as writable takes so much without blocking
_MAX_KEYS = 64 << 10

Take = Callable[[str, bytes], None]
Around = Callable[[str, bytes], contextlib.AbstractContextManager[None]]


class Stream:
    """One stream of the command's output: where we read it, and where it goes.

    If the reader of our output is slow, the command waits, as it would without us. If that reader is gone, we close the
    command's descriptor, so that the kernel tells the command (SIGPIPE), as it would without us.
    """

    def __init__(self, name: str, source: int, sink: int | None) -> None:
        """Read from `source`, which is ours alone, and write to `sink`, which others may share; None: nowhere."""
        self.name = name
        self.source: int | None = source
        self.sink = sink
        self.pending = memoryview(b"")
        self.trouble = 0  # the errno of a failed write to the sink
        os.set_blocking(source, False)
        mode = os.fstat(sink).st_mode if sink is not None else 0
        self._may_block = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._reopened = _reopen(sink) if sink is not None and stat.S_ISFIFO(mode) else None
        if self._reopened is not None:
            self.sink = self._reopened

    def read(self) -> bytes:
        """Return what can be read now; close the source at the end of the stream."""
        found = b""
        while self.source is not None and len(found) < _CHUNK:  # a terminal returns at most 4 KiB per read
            try:
                data = os.read(self.source, _CHUNK)
            except BlockingIOError:
                break
            except OSError:  # a terminal raises this when nobody has its other end open
                data = b""
            found += data
            if not data:
                self.close()
        return found

    def write(self) -> None:
        """Write as much of the pending bytes as possible without blocking."""
        if self.sink is None:
            self.pending = memoryview(b"")
            return
        room = _PIPE_SAFE_BYTES if self._may_block and self._reopened is None else len(self.pending)
        try:
            self.pending = self.pending[os.write(self.sink, self.pending[:room]) :]
        except BlockingIOError:  # another process has made the descriptor non-blocking
            pass
        except OSError as error:
            self.trouble = error.errno or 0
            self.pending = memoryview(b"")
            self.close()

    def offer(self, data: bytes) -> None:
        """Set the bytes to pass on, and write them now if that cannot block."""
        self.pending = memoryview(data)
        while self.pending and (self._reopened is not None or not self._may_block):
            before = len(self.pending)
            self.write()
            if len(self.pending) == before:
                break

    def close(self) -> None:
        """Close the command's end."""
        if self.source is not None:
            os.close(self.source)
            self.source = None

    def shut(self) -> None:
        """Close everything."""
        self.close()
        if self._reopened is not None:
            os.close(self._reopened)
            self._reopened = None


def _reopen(pipe: int) -> int | None:
    """Return a non-blocking descriptor of a pipe; the descriptors of other processes stay blocking."""
    try:
        return os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


class Pump:
    """Moves bytes; `turn` does it once."""

    def __init__(self, streams: list[Stream], take: Take) -> None:
        """`take(name, bytes)` gets each chunk when it was offered to its sink."""
        self.streams = streams
        self.keys: Callable[[bytes], bytes] = lambda data: data  # filters typed bytes before they are passed on
        self.around: Around = lambda _name, _data: (
            contextlib.nullcontext()
        )  # a context around each write, for the console
        self._take = take
        self._others: dict[int, Callable[[], None]] = {}
        self._keyboard: tuple[int, int] | None = None
        self._typed = b""

    def watch(self, fd: int, act: Callable[[], None]) -> None:
        """Call `act` whenever a descriptor is readable."""
        self._others[fd] = act

    def read_keyboard(self, keyboard: int, master: int) -> None:
        """Pass on what is typed at a keyboard to the command's terminal."""
        self._keyboard = keyboard, master

    def leave_keyboard(self) -> None:
        """Stop reading the keyboard."""
        self._keyboard = None

    def type(self, data: bytes) -> None:
        """Pass on bytes as if they had been typed."""
        self._typed += data

    @property
    def open(self) -> bool:
        """Whether a stream has not ended, or has bytes that are not passed on yet."""
        return any(stream.source is not None or stream.pending for stream in self.streams)

    def turn(self, timeout_s: float | None, *, with_keys: bool = True) -> bool:
        """Wait until something is ready, and move bytes; tell whether there was output. `with_keys`: read keys too."""
        wanted = dict.fromkeys(self._others, select.POLLIN)

        def want(fd: int, what: int) -> None:
            wanted[fd] = wanted.get(fd, 0) | what

        for stream in self.streams:
            if stream.pending and stream.sink is not None:
                want(stream.sink, select.POLLOUT)
            elif stream.source is not None:
                want(stream.source, select.POLLIN)
        if self._keyboard is not None and with_keys:
            keyboard, master = self._keyboard
            if self._typed:
                want(master, select.POLLOUT)
            if len(self._typed) < _MAX_KEYS:
                want(keyboard, select.POLLIN)
        poll = select.poll()
        for fd, what in wanted.items():
            poll.register(fd, what)
        ready = dict(poll.poll(None if timeout_s is None else max(0, int(timeout_s * 1000 + 0.999))))
        moved = self._move(ready)
        if self._keyboard is not None and with_keys:
            self._pass_keys(ready)
        for fd in ready:
            if fd in self._others:
                self._others[fd]()
        return moved

    def _move(self, ready: dict[int, int]) -> bool:
        moved = False
        for stream in self.streams:
            if stream.pending:
                if stream.sink in ready:
                    stream.write()
                    moved = True
            elif stream.source is not None and ready.get(stream.source, 0) & ~select.POLLOUT:
                data = stream.read()
                if data:
                    moved = True
                    with self.around(stream.name, data):
                        stream.offer(data)
                    self._take(stream.name, data)
        return moved

    def _pass_keys(self, ready: dict[int, int]) -> None:
        assert self._keyboard is not None
        keyboard, master = self._keyboard
        if keyboard in ready:
            try:
                data = os.read(keyboard, 4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._typed += self.keys(data)  # at the end of input it returns the terminal's end-of-file character
            if not data:
                self.leave_keyboard()
        if self._typed:
            try:
                self._typed = self._typed[os.write(master, self._typed) :]
            except BlockingIOError:
                pass
            except OSError:  # the command's terminal is gone
                self.leave_keyboard()
