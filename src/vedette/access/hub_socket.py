"""The conversation with a home's hub over its socket: connect, starting a hub if there is none, and ask."""

import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from vedette import unix_socket, wire
from vedette.errors import FormatError, HubError, StrangerError, TakeInError
from vedette.fileio import file_size
from vedette.home import Home

START_TIMEOUT_S = 10.0
HELLO_TIMEOUT_S = 3.0  # it greets at once unless it is stopped
_ANSWER_TIMEOUT_S = 60.0
_RECENT_S = 30.0  # what a hub has logged within that may be why it is not there


def ask(
    home: Home, message: wire.Message, within_s: float = math.inf, answer_s: float = _ANSWER_TIMEOUT_S
) -> wire.Message:
    """Ask the hub, starting one if there is none; raise HubError when it cannot be reached or refuses.

    `within_s`: it has so long for each step, from its start to its answer, if that is less than it has anyway.
    `answer_s`: how long it has for its answer anyway.
    """
    with connect(home, within_s, answer_s) as hub:
        return hub.ask(message)


def take_in(home: Home, path: str) -> Iterator[wire.TakenIn]:
    """Have the hub take in what is at a path; yield its progress, the last time with `over`."""
    with connect(home) as hub:
        hub.say(wire.TakeIn(os.path.abspath(path)))
        for message in hub.messages:
            if isinstance(message, wire.Refused):
                raise TakeInError(message.why)
            if isinstance(message, wire.TakenIn):
                yield message
                if message.over:
                    return
    raise HubError("the hub went away before all was taken in: do it again, and what is here already is skipped")


class HubSocket:
    """A connection to a hub that has greeted."""

    def __init__(self, peer: socket.socket, messages: Iterator[wire.Message], takes: list[str]) -> None:
        """`takes`: the optional messages that this hub understands."""
        self.takes = takes
        self.messages = messages
        self._peer = peer

    def say(self, message: wire.Message) -> None:
        """Send a message."""
        self._peer.sendall(wire.pack_message(message))

    def ask(self, message: wire.Message) -> wire.Message:
        """Send a message and return its answer; raise HubError when it is refused, or none comes."""
        self.say(message)
        answer = next(self.messages, None)
        if isinstance(answer, wire.Refused):
            raise HubError(f"the hub says: {answer.why}")
        if answer is None:
            raise HubError("the hub went away")
        return answer


@contextmanager
def connect(home: Home, within_s: float = math.inf, answer_s: float = _ANSWER_TIMEOUT_S) -> Iterator[HubSocket]:
    """Connect to the hub, starting one if there is none; `ask` explains `within_s`.

    Whatever goes wrong, then or later, is a HubError.
    """
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(min(HELLO_TIMEOUT_S, within_s))
    messages = receive(peer)
    try:
        home.check_owner()
        _dial(home, peer, min(START_TIMEOUT_S, within_s))
        peer.sendall(wire.pack_message(wire.Hello(name="vedette")))
        hello = next(messages, None)
        if isinstance(hello, wire.Refused):
            raise HubError(f"the hub says: {hello.why}")
        if not isinstance(hello, wire.Hello):
            raise HubError("what answers at the hub's socket is not a hub")
        wire.check_version(hello)
        peer.settimeout(min(answer_s, within_s))
        yield HubSocket(peer, messages, hello.takes)
    except TimeoutError:
        raise HubError(not_answering(home)) from None
    except StrangerError:
        raise
    except (OSError, FormatError) as error:
        raise HubError(f"the hub cannot be reached: {error}") from None
    finally:
        peer.close()


def not_answering(home: Home) -> str:
    """Return the message for a hub that runs, but does not answer."""
    return f"the hub (pid {home.hub()}) does not answer: is it stopped?"


def not_starting(home: Home, error: Exception | None = None) -> str:
    """Return the message for a hub that does not start."""
    said = last_line(home.log, _RECENT_S).removeprefix("vedette hub: ")
    return f"no hub can be started for {home.root}: {error or said or f'see {home.log}'}"


def last_line(path: str, within_s: float = float("inf")) -> str:
    """Return the last line of a log, if something was written to it within so many seconds; empty if not."""
    try:
        with open(path, errors="replace") as file:
            recent = time.time() - os.fstat(file.fileno()).st_mtime < within_s
            return (file.read()[-2000:].strip().splitlines() or [""])[-1] if recent else ""
    except OSError:
        return ""


def _dial(home: Home, peer: socket.socket, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    log_size = file_size(home.log)
    while True:
        try:
            unix_socket.connect(peer, home.socket)
            return
        except StrangerError:
            raise
        except OSError:
            failed = home.hub_pid() is None and file_size(home.log) > log_size  # it started, logged an error, and ended
            if failed or time.monotonic() > deadline:
                raise HubError(not_starting(home)) from None
        try:
            home.wake_hub()
        except OSError as error:
            raise HubError(not_starting(home, error)) from None
        time.sleep(0.02)


def receive(peer: socket.socket) -> Iterator[wire.Message]:
    """Yield the messages that come over a connection, until its end."""
    unframer = wire.Unframer(wire.MAX_SHIPMENT)
    while data := peer.recv(1 << 16):
        for payload in unframer.feed(data):
            yield wire.unpack_message(payload)
