"""Sends log messages over HTTP, as `logging.handlers.HTTPHandler` does, to a vedette hub or any heflwr receiver.

`POST /simple_log` has an identifier and the message; `POST /log` has every attribute of a log record. The header
`Vedette-Moment: SENDER N T` tells a vedette hub the time, and lets it recognise a repeated message; others ignore it.
"""

import contextlib
import http.client
import logging
import os
import re
import socket
import threading
import time
import urllib.parse
import uuid
from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from vedette import kernel
from vedette.compat.heflwr.wire import LABELS, MOMENT_HEADER
from vedette.errors import SettingError
from vedette.ids import new_id
from vedette.model import Sample
from vedette.sensing.sensor import Metric
from vedette.sinks import options, wanted
from vedette.sinks.plain import Plain, line

MAX_WAITING = 10_000  # moments that wait to be sent
_LOGGER = "HeFlwr"  # the logger name that receivers expect
_TIMEOUT_S = 5.0
_RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # pauses between tries; the last one repeats
_MAX_REFUSALS = 3  # a message is dropped after so many server errors (5xx)
_CLOSING_S = 0.5  # shorter than a monitor waits for its sinks
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


class Config(Struct, frozen=True):
    """The receiver HOST:PORT, the identifier, and `simple` or with every attribute of a log record."""

    host: str
    identifier: str = ""  # empty: a random one
    simple: bool = True
    wanted: tuple[str, ...] = ("cpu", "memory", "network")


def parse(text: str) -> Config:
    """Read `HOST:PORT[?identifier=NAME&full&wanted=cpu,power]`."""
    host, chosen = options(text, ("identifier", "full", "wanted"))
    config = Config(host, chosen.get("identifier", ""), "full" not in chosen, wanted(chosen, Config("").wanted))
    _check(config)
    return config


class Form:
    """Sends a message per moment, in a thread of its own; a message that fails waits, and is tried again."""

    def __init__(self, config: Config) -> None:
        """Start the thread; it waits for messages."""
        _check(config)
        self.lost = 0
        self.trouble = ""
        self.identifier = config.identifier or f"remote-monitor-{uuid.uuid4().hex}"
        self._host = config.host
        self._simple = config.simple
        self._plain = Plain(config.wanted)
        self._sender = new_id(10)
        self._n = 0
        self._waiting: deque[tuple[str, bytes]] = deque()  # header and body, the oldest first
        self._changed = threading.Condition()
        self._ending_at: float | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="vedette-form", daemon=True)
        self._thread.start()

    def prime(self, samples: list[Sample]) -> None:
        """Take the first reading, from which the first counts are computed."""
        self._plain.of(samples)

    def put(self, samples: list[Sample]) -> None:
        """Queue the message of a moment; a moment without numbers has no message."""
        numbers = self._plain.of(samples)
        if not numbers:
            return
        message = line(numbers, LABELS)
        t = samples[0].t
        self.post({"message": message} if self._simple else _record(message, t).__dict__, t)

    def post(self, fields: Mapping[str, object], t: int) -> None:
        """Queue a message of any fields, with a time."""
        fields = {"identifier": self.identifier, **fields}
        self._n += 1
        head = f"{self._sender} {self._n} {t}"
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                self.lost += 1
            self._waiting.append((head, urllib.parse.urlencode(fields, errors="replace").encode()))
            self._changed.notify()

    def close(self) -> None:
        """Send what waits, for half a second and without retries; what is left is lost, and counted."""
        if os.getpid() != self._pid:  # a fork child has no thread and no connection of its own
            return
        with self._changed:
            self._ending_at = time.monotonic() + _CLOSING_S
            self._changed.notify()
        self._thread.join(_CLOSING_S)
        with self._changed:
            self.lost += len(self._waiting)
            self._waiting.clear()

    def _run(self) -> None:
        kernel.block_sigpipe()
        failures = refusals = 0
        while True:
            with self._changed:
                if failures and self._ending_at is None:
                    self._changed.wait_for(self._is_ending, _RETRY_S[min(failures, len(_RETRY_S)) - 1])
                self._changed.wait_for(lambda: bool(self._waiting) or self._is_ending())
                if not self._waiting or (self._ending_at is not None and time.monotonic() >= self._ending_at):
                    break
                first = self._waiting[0]
                last_try = self._is_ending()
            status = self._send(*first)
            if status < 0 or (status >= 500 and refusals < _MAX_REFUSALS):
                failures += 1
                refusals += status >= 500
                if last_try:
                    break
                continue
            failures = refusals = 0
            with self._changed:
                if self._waiting and self._waiting[0] is first:  # else it was dropped meanwhile, for lack of room
                    self._waiting.popleft()
                    self.lost += status >= 300
            self.trouble = f"{self._host} answers {status}" if status >= 300 else ""
        self._disconnect()

    def _is_ending(self) -> bool:
        return self._ending_at is not None

    def _send(self, head: str, body: bytes) -> int:
        """Send one message; return the HTTP status of the answer, or -1 if there was none."""
        fresh = self._connection is None
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._host, timeout=_TIMEOUT_S)
            connection = self._connection
            if self._ending_at is not None:
                left_s = max(0.01, self._ending_at - time.monotonic())
                connection.timeout = left_s
                if connection.sock is not None:
                    connection.sock.settimeout(left_s)
            connection.putrequest("POST", "/simple_log" if self._simple else "/log")
            connection.putheader("Content-type", "application/x-www-form-urlencoded")
            connection.putheader("Content-length", str(len(body)))
            connection.putheader(MOMENT_HEADER, head)
            connection.endheaders(body)
            if (
                _QUICK_ACK is not None and connection.sock is not None
            ):  # many servers answer in two packets, and wait for the ACK
                connection.sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
            with connection.getresponse() as response:
                response.read(1 << 16)
                if not response.isclosed():  # the answer is too long
                    self._disconnect()
                return response.status
        except (OSError, http.client.HTTPException) as error:
            self._disconnect()
            if not fresh and isinstance(error, http.client.RemoteDisconnected | ConnectionError):
                return self._send(head, body)  # the server had closed the idle connection: connect again
            self.trouble = f"{self._host} cannot be reached: {_printable(error)}"
            return -1

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def open(config: Config, metrics: Mapping[str, Metric]) -> Form:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Form(config)


def _printable(error: Exception) -> str:
    """Return an error's text without control characters: it may contain text from the server."""
    return (
        "".join(character if character.isprintable() else "?" for character in str(error)[:200]) or type(error).__name__
    )


def _check(config: Config) -> None:
    port = config.host.rpartition(":")[2]
    if not _HOST.fullmatch(config.host) or (port.isdigit() and int(port) >= 1 << 16):
        raise SettingError(f"{config.host!r} is not an address to send to: give HOST:PORT, such as 127.0.0.1:5000")


def _record(message: str, t: int) -> logging.LogRecord:
    """Return the log record that heflwr's handler would send, with its formatted attributes."""
    record = logging.LogRecord(_LOGGER, logging.INFO, __file__, 1, message, (), None, "put")
    record.relativeCreated += t / 1e6 - record.created * 1e3
    record.created = t / 1e9
    record.msecs = float(t // 10**6 % 1000)
    record.message = message
    record.asctime = logging.Formatter().formatTime(record)
    return record
