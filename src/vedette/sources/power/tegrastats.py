"""Power rails of a Jetson board, printed by the program `tegrastats`, for boards that do not show them in /sys.

The program is started once, without sudo. A thread reads its lines; `look` returns the newest one and never waits. The
first line comes about a second after the start, and most looks come between two lines: energy covers these times with
the power of the nearest line. The program must end when we do, even by SIGKILL, so it gets a parent-death signal. A
process must set that for itself: hence the few lines of Python that then become `tegrastats`.
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

# `RAIL now/average`, with mW behind both or neither; RAM, SWAP and IRAM have MB or kB there, and do not match.
_RAIL = re.compile(r"(?<!\S)([A-Za-z0-9][A-Za-z0-9_.-]*) (-?[0-9]{1,9})(?:mW)?/-?[0-9]{1,9}(?:mW)?(?!\S)")
_INTERVAL_MS = 1000
_STALE_S = 5.0
_RESTART_S = 30.0  # if the program has ended by itself, start it again after this
_MOST_BYTES = 1 << 16  # bytes of one line
_JOIN_S = 0.02
_BECOME = """
import ctypes, os, signal, sys
for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and a child inherits that
    signal.signal(number, signal.SIG_DFL)
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def parse(line: str) -> dict[str, float]:
    """Return the present power of each rail in a line, in watts; {} if the line has no rails.

    A negative value is the offset of an idle rail, and counts as 0.
    """
    found = {tag(name): max(0, int(power_mw)) / 1000 for name, power_mw in _RAIL.findall(line)}
    return {rail: power_w for rail, power_w in found.items() if rail.upper() != "NC"}


class Tegrastats:
    """The running program, and its newest line."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, program: str, interval_ms: int = _INTERVAL_MS) -> None:
        """Start the program."""
        self._argv = [program, "--interval", str(interval_ms)]
        self._stale_s = max(_STALE_S, 5 * interval_ms / 1000)
        self._board = Board("tegrastats", time.monotonic())
        self._pid = os.getpid()
        # A byte in this pipe ends the thread. Closing it would not: a fork may still have the writing end open.
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="vedette-tegrastats", daemon=True)
        self._thread.start()

    def look(self) -> list[Reading]:
        """Return the readings of the newest line, or nothing if there is none or it is old."""
        now_s = time.monotonic()
        return self._board.readings_until(now_s, now_s - self._stale_s)

    def close(self) -> None:
        """End the program. A forked child only closes its copies of the pipe: the program is its parent's."""
        stop_write, self._stop_write = self._stop_write, -1
        if stop_write < 0:
            return
        if os.getpid() == self._pid:
            os.write(stop_write, b"x")
            self._thread.join(_JOIN_S)
        else:
            os.close(self._stop_read)
        os.close(stop_write)

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._stop_read, select.POLLIN)
        try:
            while True:
                with contextlib.suppress(OSError, ValueError):
                    self._run()
                if poll.poll(1000 * _RESTART_S):
                    return
        finally:
            os.close(self._stop_read)

    def _run(self) -> None:
        """Run the program until it ends or we stop it."""
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
        poll.register(self._stop_read, select.POLLIN)
        poll.register(lines, select.POLLIN)
        rest = b""
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._stop_read in ready:
                return
            data = os.read(lines, _MOST_BYTES)
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            rest = rest[-_MOST_BYTES:]
            if whole:  # if several lines have come, only the last one is current
                powers = parse(whole[-1][-_MOST_BYTES:].decode(errors="replace"))
                if powers:
                    self._board.take(powers, time.monotonic())


def sensor(target: Target) -> Tegrastats | Absent:  # noqa: ARG001 - the program finds the board by itself
    """Return the sensor, if the program is installed."""
    program = shutil.which("tegrastats")
    if program is None:
        return Absent("no tegrastats on PATH")
    try:
        return Tegrastats(program)
    except (OSError, RuntimeError) as error:  # out of descriptors or threads
        return Absent(f"tegrastats cannot be started: {error}")
