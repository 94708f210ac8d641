"""The pump: bytes from the descriptors of a command to where they always went, and to whoever listens, at once."""

import contextlib
import os
import select
import stat
from collections.abc import Callable

_CHUNK = 64 << 10
_PIPE_ROOM = select.PIPE_BUF  # what a pipe that says it is writable takes without a wait
_MOST_KEYS = 64 << 10

Take = Callable[[str, bytes], None]
Around = Callable[[str, bytes], contextlib.AbstractContextManager[None]]


class Stream:
    """One stream of the command's output: where it is read, and where it goes.

    A reader of ours that is slow makes the command wait, as it would without us; one that is gone has the command's
    descriptor closed, so that it is told by the kernel as it would be without us.
    """

    def __init__(self, name: str, source: int, sink: int | None) -> None:
        """Read from `source`, which is ours alone, and write to `sink`, which others may share; None: nowhere."""
        self.name = name
        self.source: int | None = source
        self.sink = sink
        self.pending = memoryview(b"")
        self.trouble = 0  # the error number with which the sink refused what came
        os.set_blocking(source, False)
        mode = os.fstat(sink).st_mode if sink is not None else 0
        self._may_block = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._own = _reopen(sink) if sink is not None and stat.S_ISFIFO(mode) else None
        if self._own is not None:
            self.sink = self._own

    def read(self) -> bytes:
        """Return what has come; the end of the stream closes it."""
        found = b""
        while self.source is not None and len(found) < _CHUNK:  # a terminal hands out 4 KiB at most
            try:
                data = os.read(self.source, _CHUNK)
            except BlockingIOError:
                break
            except OSError:  # how a terminal says that nobody holds its other end
                data = b""
            found += data
            if not data:
                self.close()
        return found

    def write(self) -> None:
        """Pass on what is pending, as much as goes without a wait."""
        if self.sink is None:
            self.pending = memoryview(b"")
            return
        room = _PIPE_ROOM if self._may_block and self._own is None else len(self.pending)
        try:
            self.pending = self.pending[os.write(self.sink, self.pending[:room]) :]
        except BlockingIOError:  # somebody else has made it so
            pass
        except OSError as error:
            self.trouble = error.errno or 0
            self.pending = memoryview(b"")
            self.close()

    def offer(self, data: bytes) -> None:
        """Have bytes passed on: at once, where that cannot make us wait."""
        self.pending = memoryview(data)
        while self.pending and (self._own is not None or not self._may_block):
            before = len(self.pending)
            self.write()
            if len(self.pending) == before:
                break

    def close(self) -> None:
        """Let go of the command's end."""
        if self.source is not None:
            os.close(self.source)
            self.source = None

    def shut(self) -> None:
        """Let go of everything."""
        self.close()
        if self._own is not None:
            os.close(self._own)
            self._own = None


def _reopen(pipe: int) -> int | None:
    """Return a descriptor of a pipe that does not block, which leaves those that others have of it as they are."""
    try:
        return os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


class Pump:
    """Moves bytes; `turn` makes one pass."""

    def __init__(self, streams: list[Stream], take: Take) -> None:
        """`take(name, bytes)` is handed each chunk right after it went to its sink, or is about to."""
        self.streams = streams
        self.keys: Callable[[bytes], bytes] = lambda data: data  # looks at what is typed before it is passed on
        self.around: Around = lambda _name, _data: contextlib.nullcontext()  # who else draws where it goes
        self._take = take
        self._others: dict[int, Callable[[], None]] = {}
        self._keyboard: tuple[int, int] | None = None
        self._typed = b""

    def also(self, fd: int, act: Callable[[], None]) -> None:
        """Call something whenever a descriptor is readable."""
        self._others[fd] = act

    def listen(self, keyboard: int, master: int) -> None:
        """Pass on what is typed at a keyboard to the command's terminal."""
        self._keyboard = keyboard, master

    def stop_listening(self) -> None:
        """Stop reading the keyboard."""
        self._keyboard = None

    def type(self, data: bytes) -> None:
        """Pass on bytes as if they had been typed."""
        self._typed += data

    @property
    def open(self) -> bool:
        """Whether there is a stream that has not ended, or something of one that is not passed on yet."""
        return any(stream.source is not None or stream.pending for stream in self.streams)

    def turn(self, timeout_s: float | None, *, hear: bool = True) -> bool:
        """Wait until something can be done, and do it; tell whether there was output. `hear`: keys count, too."""
        wanted = dict.fromkeys(self._others, select.POLLIN)

        def want(fd: int, what: int) -> None:
            wanted[fd] = wanted.get(fd, 0) | what

        for stream in self.streams:
            if stream.pending and stream.sink is not None:
                want(stream.sink, select.POLLOUT)
            elif stream.source is not None:
                want(stream.source, select.POLLIN)
        if self._keyboard is not None and hear:
            keyboard, master = self._keyboard
            if self._typed:
                want(master, select.POLLOUT)
            if len(self._typed) < _MOST_KEYS:
                want(keyboard, select.POLLIN)
        poll = select.poll()
        for fd, what in wanted.items():
            poll.register(fd, what)
        ready = dict(poll.poll(None if timeout_s is None else max(0, int(timeout_s * 1000 + 0.999))))
        moved = self._move(ready)
        if self._keyboard is not None and hear:
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
            self._typed += self.keys(data)  # which may say it in the terminal's own way when nothing more comes
            if not data:
                self.stop_listening()
        if self._typed:
            try:
                self._typed = self._typed[os.write(master, self._typed) :]
            except BlockingIOError:
                pass
            except OSError:  # the command's terminal is gone
                self.stop_listening()
