"""Sends malformed streams to a live port over many connections, and reports the answers."""

import contextlib
import os
import random
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from tests.journeys.malformed import Malformer
from vedette import wire
from vedette.errors import VedetteError

Connect = Callable[[], socket.socket]

_PATIENCE_S = 10.0
_PIECE = 1 << 16


class Report(Struct):
    """What was sent, and the results."""

    frames: int = 0
    connections: int = 0
    bytes: int = 0
    seconds: float = 0.0
    sent: Counter[str] = field(default_factory=Counter)  # frames by kind
    answers: Counter[str] = field(default_factory=Counter)  # messages that came back, by name
    refusals: Counter[str] = field(default_factory=Counter)  # by their first words
    ends: Counter[str] = field(default_factory=Counter)  # closed, reset, left (by us), or stuck: never closed
    garbled: int = 0  # answers that are not valid messages
    unreachable: int = 0  # failed connections

    def __str__(self) -> str:
        rate = self.frames / max(self.seconds, 1e-9)
        return (
            f"{self.frames} frames, {self.bytes >> 20} MiB, {self.connections} connections in {self.seconds:.1f} s,"
            f" {rate:.0f}/s; ends {dict(self.ends)}; answers {dict(self.answers)}; {self.garbled} garbled,"
            f" {self.unreachable} unreachable; refusals {dict(self.refusals.most_common(8))}"
        )


def fuzz(
    connect: Connect,
    *,
    frames: int | None = None,
    seconds: float | None = None,
    seed: int = 1,
    messages: Any = wire.Message,
    greets: bool = True,
    framed: bool = False,
) -> Report:
    """Send so many frames, or for so long; stop early after three failed connections in a row.

    `greets`, `framed`: as Malformer has them.
    """
    report = Report()
    malformer = Malformer(seed, messages, greets=greets, framed=framed)
    chance = random.Random(seed)
    begun = time.monotonic()
    dead_ends = 0
    while dead_ends < 3:
        report.seconds = time.monotonic() - begun
        if report.frames >= (frames or 1 << 60) or report.seconds >= (seconds or 1e9):
            break
        stream = malformer.stream()
        report.sent.update(kind for kind, _ in stream)
        data = b"".join(part for _, part in stream)
        report.frames += len(stream)
        report.connections += 1
        report.bytes += len(data)
        try:
            peer = connect()
        except OSError:
            report.unreachable += 1
            dead_ends += 1
            continue
        dead_ends = 0
        with peer:
            manners = chance.random()  # most wait for the answer; some stop in the middle, some leave at once
            how, back = _exchange(peer, data, hang_up=manners < 0.7, leave=manners > 0.9)
        report.ends[how] += 1
        _read_answers(report, back)
    return report


def _exchange(peer: socket.socket, data: bytes, *, hang_up: bool, leave: bool) -> tuple[str, bytes]:
    """Send and receive at once until the other side closes; return how it ended, and all that was received."""
    peer.setblocking(False)
    view, back = memoryview(data), bytearray()
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        readable, writable, _ = select.select([peer], [peer] if view else [], [], 0.05 if not view else _PATIENCE_S)
        try:
            if writable:
                view = view[peer.send(view[:_PIECE]) :]
                if not view:
                    if leave:
                        return "left", bytes(back)
                    if hang_up:
                        peer.shutdown(socket.SHUT_WR)
            if readable:
                part = peer.recv(_PIECE)
                if not part:
                    return "closed", bytes(back)
                back += part
        except OSError:  # refused while we were sending: an answer may still be readable
            with contextlib.suppress(OSError):
                while part := peer.recv(_PIECE):
                    back += part
            return "reset", bytes(back)
        if not readable and not writable and not hang_up:
            return "left", bytes(back)  # it waits for the rest of a partial frame, as it should
        if time.monotonic() > deadline:
            return "stuck", bytes(back)


def _read_answers(report: Report, back: bytes) -> None:
    unframer = wire.Unframer(16 << 20)
    try:
        for payload in unframer.feed(back):
            message = wire.unpack_message(payload)
            report.answers[type(message).__name__] += 1
            if isinstance(message, wire.Refused):
                report.refusals[message.why[:40]] += 1
    except VedetteError:
        report.garbled += 1


class Loris:
    """Connections that are kept open by single bytes."""

    def __init__(self, connect: Connect, count: int, pause_s: float) -> None:
        self.peers = [connect() for _ in range(count)]
        self.sent = 0
        self._pause_s = pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._trickle, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> int:
        """How many connections the other side has closed."""
        count = 0
        for peer in self.peers:
            try:
                while part := peer.recv(_PIECE, socket.MSG_DONTWAIT):
                    del part
                count += 1
            except BlockingIOError:
                pass
            except OSError:
                count += 1
        return count

    def _trickle(self) -> None:
        # A Hello, and then a frame that is never complete.
        data = wire.pack_message(wire.Hello(name="slow")) + wire.pack_head(wire.MAX_PAYLOAD, 0)
        at = 0
        while not self._over.wait(self._pause_s):
            byte = data[at : at + 1] or b"\x90"
            at += 1
            for peer in self.peers:
                with contextlib.suppress(OSError):
                    self.sent += peer.send(byte, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def end(self) -> None:
        """Close all connections."""
        self._over.set()
        self._thread.join()
        for peer in self.peers:
            peer.close()


@contextlib.contextmanager
def slow_loris(connect: Connect, count: int, pause_s: float = 0.01) -> Iterator[Loris]:
    """Hold so many connections open, sending a byte at a time on each."""
    loris = Loris(connect, count, pause_s)
    try:
        yield loris
    finally:
        loris.end()


def memory_kib(pid: int) -> tuple[int, int]:
    """Return the memory of a process in KiB, now and at its peak."""
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmRSS"].split()[0]), int(lines["VmHWM"].split()[0])


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def has_flushed(pid: int) -> bool:
    """Tell whether a hub has opened all that it keeps open: with its first flush the store's log, as SQLite has."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return sum(path.endswith("store.db-wal") for path in found) == 2
