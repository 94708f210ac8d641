"""Rails of a Jetson board as its program `tegrastats` prints them, for boards whose /sys does not tell.

It is started without sudo, once, and its lines are read by a thread, as they come: `look` takes the newest and never
waits. The program dies with us, however we end: by a death signal, which the kernel sends when the thread that began it
is gone, and which must be set by the child itself; hence the few lines of Python that become `tegrastats`.
"""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources.power.attribute import tag
from vedette.sources.power.board import METRICS, Board

# `RAIL now/average`, with mW behind both or neither; RAM, SWAP and IRAM have MB or kB there, and are none.
_RAIL = re.compile(r"(?<!\S)([A-Za-z0-9][A-Za-z0-9_.-]*) (-?[0-9]{1,9})(?:mW)?/-?[0-9]{1,9}(?:mW)?(?!\S)")
_INTERVAL_MS = 1000
_STALE_S = 5.0
_AGAIN_S = 30.0  # it has ended by itself: try again then
_MOST_BYTES = 1 << 16  # of one line
_JOIN_S = 0.02
_BECOME = """
import ctypes, os, signal, sys
for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python has had ignored
    signal.signal(number, signal.SIG_DFL)
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def parse(line: str) -> dict[str, float]:
    """Return the watts of each rail that a line tells of, as they stand at the moment; nothing for what is no line.

    Below zero is the offset of a rail that nothing flows through.
    """
    found = {tag(name): max(0, int(power_mw)) / 1000 for name, power_mw in _RAIL.findall(line)}
    return {rail: power_w for rail, power_w in found.items() if rail.upper() != "NC"}


class Tegrastats:
    """The program, and what it said last."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, program: str, interval_ms: int = _INTERVAL_MS) -> None:
        """Start the program."""
        self._argv = [program, "--interval", str(interval_ms)]
        self._stale_s = max(_STALE_S, 5 * interval_ms / 1000)
        self._board = Board("tegrastats")
        self._pid = os.getpid()
        self._ear, self._voice = os.pipe()  # a byte ends the thread: a fork may hold the end that we shut
        self._thread = threading.Thread(target=self._serve, name="vedette-tegrastats", daemon=True)
        self._thread.start()

    def look(self) -> list[Reading]:
        """Return what the newest line said; nothing while there is none, or it is old."""
        return self._board.readings(time.monotonic() - self._stale_s)

    def close(self) -> None:
        """End the program. In a forked child that is not ours to do, and what we hold of it is let go of alone."""
        voice, self._voice = self._voice, -1
        if voice < 0:
            return
        if os.getpid() == self._pid:
            os.write(voice, b"x")
            self._thread.join(_JOIN_S)
        else:
            os.close(self._ear)
        os.close(voice)

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        try:
            while True:
                with contextlib.suppress(OSError, ValueError):
                    self._run()
                if poll.poll(1000 * _AGAIN_S):
                    return
        finally:
            os.close(self._ear)

    def _run(self) -> None:
        """Run the program until it ends, or is to end."""
        become = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid())] if sys.executable else []
        process = subprocess.Popen(
            [*become, *self._argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is not meant for it
        )
        assert process.stdout is not None
        with process.stdout as lines:
            try:
                self._read(lines.fileno())
            finally:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _read(self, lines: int) -> None:
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        poll.register(lines, select.POLLIN)
        rest = b""
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._ear in ready:
                return
            data = os.read(lines, _MOST_BYTES)
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            rest = rest[-_MOST_BYTES:]
            if whole:  # of several that have waited only the last tells of now
                powers = parse(whole[-1][-_MOST_BYTES:].decode(errors="replace"))
                if powers:
                    self._board.take(powers, time.monotonic())


def sensor(target: Target) -> Tegrastats | Absent:  # noqa: ARG001 - it knows where to look by itself
    """Return the program's word, if there is such a program."""
    program = shutil.which("tegrastats")
    if program is None:
        return Absent("no tegrastats on PATH")
    try:
        return Tegrastats(program)
    except (OSError, RuntimeError) as error:  # no descriptor, no thread to be had
        return Absent(f"tegrastats cannot be started: {error}")
