"""Records what a command prints, line by line: bars as progress, only a part of a flood, and how much was left out."""

import codecs
import time
from collections import deque
from collections.abc import Callable

from vedette.model import Value
from vedette.sources.bars import Bars
from vedette.sources.colours import split
from vedette.sources.output import Lines

LINES_PER_S = 5000  # lines that are recorded in the long run; all lines reach the terminal
BURST_LINES = 20_000
BYTES_PER_S = 2 << 20
BURST_BYTES = 32 << 20
_ESCAPE_BYTES = 20  # an escape code counts as so many bytes: it takes time to parse
LAST_LINES = 50  # the end of a flood that is always recorded
_HELD_BYTES = 64 << 10
_REMEMBERED = 300  # last lines, kept to look for the cause of an end

Say = Callable[[str, str, int, dict[str, Value]], None]


class _StreamState:
    """State of one stream, from bytes to lines."""

    def __init__(self) -> None:
        self.begin()
        self.last: deque[str] = deque(maxlen=_REMEMBERED)
        self.held_back = b""  # the last bytes of a flood; empty: no flood
        self.skipped_lines = 0  # lines of the flood that were not recorded

    def begin(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.lines = Lines()


class Recorder:
    """Takes chunks of bytes, and records events."""

    def __init__(
        self,
        say: Say,
        bars: Bars,
        clock: Callable[[], float] = time.monotonic,
        on_line: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`say(kind, text, level, attrs)` records an event; `on_line` gets the plain text of each line.

        Of a line that was cut into several it gets the first.
        """
        self._say = say
        self._on_line = on_line
        self._bars = bars
        self._clock = clock
        self._states: dict[str, _StreamState] = {}
        self._lines, self._bytes = float(BURST_LINES), float(BURST_BYTES)  # what may be recorded now (a token bucket)
        self._refilled_at = clock()
        self.pid = 0

    def take(self, stream: str, data: bytes) -> None:
        """Record what was printed."""
        state = self._states.setdefault(stream, _StreamState())
        count = data.count(b"\n") + data.count(b"\r")
        if not self._may_take(in_flood=bool(state.held_back)):
            state.held_back = (state.held_back + data)[-_HELD_BYTES:]
            state.skipped_lines += count
            return
        if state.held_back:
            self._end_flood(stream, state)
        self._lines -= count
        self._bytes -= len(data) + _ESCAPE_BYTES * data.count(b"\x1b")
        self._record(stream, state, state.decoder.decode(data))

    def close(self) -> None:
        """Record what is left: the end of a flood, a last line without a newline, bars that are not complete."""
        for stream, state in self._states.items():
            if state.held_back:
                self._end_flood(stream, state)
            self._record(stream, state, state.decoder.decode(b"", final=True), over=True)
        for text in self._bars.close():
            self._output(next(iter(self._states), "stderr"), text, "")

    def last(self, stream: str = "") -> list[str]:
        """Return the last lines of a stream; by default of stderr, where a traceback would be, else of stdout."""
        names = [stream] if stream else [name for name in ("stderr", "stdout") if name in self._states]
        return list(self._states[names[0]].last) if names and names[0] in self._states else []

    def _may_take(self, *, in_flood: bool) -> bool:
        now = self._clock()
        past, self._refilled_at = now - self._refilled_at, now
        self._lines = min(BURST_LINES, self._lines + past * LINES_PER_S)
        self._bytes = min(BURST_BYTES, self._bytes + past * BYTES_PER_S)
        # In a flood a reserve is needed, so that it does not end and begin again with each chunk.
        needed = (LINES_PER_S, BYTES_PER_S) if in_flood else (0, 0)
        return self._lines > needed[0] and self._bytes > needed[1]

    def _end_flood(self, stream: str, state: _StreamState) -> None:
        """Record how many lines of a flood were left out, and its last lines."""
        held_back, count = state.held_back, state.skipped_lines
        state.held_back, state.skipped_lines = b"", 0
        state.begin()
        *whole, rest = held_back.split(b"\n")
        kept = whole[1:][-LAST_LINES:]
        why = f"more than {LINES_PER_S} lines or {BYTES_PER_S >> 20} MiB a second"
        count = max(0, count - len(kept))
        self._say(
            "dropped", f"{count} lines of {stream} were not recorded: {why}", 30,
            {"count": count, "why": why, "stream": stream},
        )  # fmt: skip
        text = b"".join(line + b"\n" for line in kept) + rest
        self._record(stream, state, state.decoder.decode(text))

    def _record(self, stream: str, state: _StreamState, text: str, *, over: bool = False) -> None:
        found = state.lines.feed(text)
        for line in found + state.lines.flush() if over else found:
            plain, ansi = split(line.text)
            drawn, said = self._bars.take(plain)
            if drawn:
                if said:
                    self._output(stream, said, ansi)
            elif line.over:
                state.last.append(plain)
                if line.begins:
                    self._on_line(plain)
                self._output(stream, plain, ansi)

    def _output(self, stream: str, text: str, ansi: str) -> None:
        attrs: dict[str, Value] = {"stream": stream, "pid": self.pid}
        if ansi:
            attrs["ansi"] = ansi
        self._say("output", text, 20, attrs)
