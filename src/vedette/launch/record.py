"""What a command prints, taken down line by line: bars as progress, floods in part, and what was left out counted."""

import codecs
import time
from collections import deque
from collections.abc import Callable

from vedette.model import Value
from vedette.sources.bars import Bars
from vedette.sources.colours import split
from vedette.sources.output import Lines

LINES_PER_S = 5000  # that are taken down in the long run; all of them reach the terminal
BURST_LINES = 20_000
BYTES_PER_S = 2 << 20
BURST_BYTES = 32 << 20
_ESCAPE_BYTES = 20  # that an escape code counts as: it takes as long to be taken out
LAST_LINES = 50  # of a flood that are taken down whatever came before them
_HELD_BYTES = 64 << 10
_REMEMBERED = 300  # lines that are looked at for a cause of death

Say = Callable[[str, str, int, dict[str, Value]], None]


class _Cutter:
    """One stream on its way from bytes to lines."""

    def __init__(self) -> None:
        self.begin()
        self.last: deque[str] = deque(maxlen=_REMEMBERED)
        self.held = b""  # the end of what is passed over
        self.passed_over = 0  # lines; while this or `held` is something, a flood is on

    def begin(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.lines = Lines()


class Recorder:
    """Takes chunks of bytes, and says events."""

    def __init__(self, say: Say, bars: Bars, clock: Callable[[], float] = time.monotonic) -> None:
        """`say(kind, text, level, attrs)` puts an event on record."""
        self._say = say
        self._bars = bars
        self._clock = clock
        self._cutters: dict[str, _Cutter] = {}
        self._lines, self._bytes = float(BURST_LINES), float(BURST_BYTES)  # that may be taken down now
        self._looked = clock()
        self.pid = 0

    def take(self, stream: str, data: bytes) -> None:
        """Take in what was printed."""
        cutter = self._cutters.setdefault(stream, _Cutter())
        count = data.count(b"\n") + data.count(b"\r")
        if not self._may_take(flooded=bool(cutter.held)):
            cutter.held = (cutter.held + data)[-_HELD_BYTES:]
            cutter.passed_over += count
            return
        if cutter.held:
            self._come_back(stream, cutter)
        self._lines -= count
        self._bytes -= len(data) + _ESCAPE_BYTES * data.count(b"\x1b")
        self._tell(stream, cutter, cutter.decoder.decode(data))

    def close(self) -> None:
        """Take down what is left: the end of a flood, lines that nobody ended, bars that stopped on their way."""
        for stream, cutter in self._cutters.items():
            if cutter.held:
                self._come_back(stream, cutter)
            self._tell(stream, cutter, cutter.decoder.decode(b"", final=True), over=True)
        for text in self._bars.close():
            self._output(next(iter(self._cutters), "stderr"), text, "")

    def last(self, stream: str = "") -> list[str]:
        """Return the last lines of a stream, or of the one that a traceback would be in."""
        names = [stream] if stream else [name for name in ("stderr", "stdout") if name in self._cutters]
        return list(self._cutters[names[0]].last) if names and names[0] in self._cutters else []

    def _may_take(self, *, flooded: bool) -> bool:
        now = self._clock()
        past, self._looked = now - self._looked, now
        self._lines = min(BURST_LINES, self._lines + past * LINES_PER_S)
        self._bytes = min(BURST_BYTES, self._bytes + past * BYTES_PER_S)
        least = (LINES_PER_S, BYTES_PER_S) if flooded else (0, 0)  # not back and forth with each chunk
        return self._lines > least[0] and self._bytes > least[1]

    def _come_back(self, stream: str, cutter: _Cutter) -> None:
        """Own up to what was passed over of a flood, and take down its end."""
        held, count = cutter.held, cutter.passed_over
        cutter.held, cutter.passed_over = b"", 0
        cutter.begin()
        *whole, rest = held.split(b"\n")
        kept = whole[1:][-LAST_LINES:]
        why = f"more than {LINES_PER_S} lines or {BYTES_PER_S >> 20} MiB a second"
        count = max(0, count - len(kept))
        self._say(
            "dropped", f"{count} lines of {stream} were not taken down: {why}", 30,
            {"count": count, "why": why, "stream": stream},
        )  # fmt: skip
        text = b"".join(line + b"\n" for line in kept) + rest
        self._tell(stream, cutter, cutter.decoder.decode(text))

    def _tell(self, stream: str, cutter: _Cutter, text: str, *, over: bool = False) -> None:
        found = cutter.lines.feed(text)
        for line in found + cutter.lines.flush() if over else found:
            plain, ansi = split(line.text)
            drawn, said = self._bars.take(plain)
            if drawn:
                if said:
                    self._output(stream, said, ansi)
            elif line.over:
                cutter.last.append(plain)
                self._output(stream, plain, ansi)

    def _output(self, stream: str, text: str, ansi: str) -> None:
        attrs: dict[str, Value] = {"stream": stream, "pid": self.pid}
        if ansi:
            attrs["ansi"] = ansi
        self._say("output", text, 20, attrs)
