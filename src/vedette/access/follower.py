"""Waiting until it is time to look at the store again: every live view of a home uses this one loop.

The web page, `vedette top`, the console, `watch`, `logs -f` and whoever waits for something (`HomeAccess.wait_for`) all
look soon after something has changed, but not too often, and now and then even if nothing has. The hub that reports the
changes may come and go meanwhile.
"""

import math
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from vedette import kernel, unix_socket, wire
from vedette.access.hub_socket import HELLO_TIMEOUT_S, START_TIMEOUT_S, not_answering, not_starting
from vedette.errors import HubError, StrangerError, VedetteError
from vedette.home import Home

LEFT = "the hub has left; looking for another"
_RECONNECT_S = (0.2, 2.0)  # between two attempts to connect: the first pause, and the longest
_READ_BYTES = 1 << 18  # read from the hub at once; the rest waits for the next look


class Follower:
    """Says when to look again. If there is no hub it does not raise; `trouble` says what is wrong.

    Only the thread that waits may use it; other threads may only call `wake`.
    """

    def __init__(
        self,
        home: Home,
        run: str = "",
        *,
        least_s: float = 0.2,
        most_s: float = 1.0,
        needs_hub: Callable[[], bool] = lambda: True,
    ) -> None:
        """Follow a run, or all of them.

        Two looks are at least `least_s` apart however much changes, and at most `most_s` even if nothing does. If
        there is no hub, one is started, unless `needs_hub` says that none is needed just now.
        """
        self.run = run
        self.least_s, self.most_s = least_s, most_s
        self.trouble = ""  # why no hub is connected; empty if one is, or if none is needed
        self.connected = False  # a hub is there, and reports changes
        self._home = home
        self._needs_hub = needs_hub
        self._peer: socket.socket | None = None
        self._unframer = wire.Unframer(wire.MAX_SHIPMENT)
        self._connected_at = -math.inf
        self._pause_s = 0.0
        self._missing_since: float | None = None  # since when a hub is needed and there is none
        self._looked_at = self._heard_at = -math.inf
        self._changed: wire.Change | None = None  # since the last look
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)

    def wait(self, seconds: float = math.inf, also: Sequence[int] = ()) -> wire.Change | None:
        """Sleep until it is time to look, then return what has changed since the last look.

        Return None when something else came first: the time is over, one of these descriptors can be read, or
        somebody calls `wake`.
        """
        deadline = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if self._peer is None and now >= self._connected_at + self._pause_s:
                self._connect(now)
            if now >= self._look_at:
                self._check_running(now)
                return self._take(now)
            until = min(deadline, self._look_at, self._act_at(now))
            ready = kernel.wait(self._files(also), (), until - now)  # read the hub even if the time is over
            if self._peer is not None and self._peer in ready:
                self._receive()
            elif self._peer is not None and not self.connected:
                self._check_hello_in_time()
            if self._wake_reader in ready:
                with suppress(BlockingIOError):
                    self._wake_reader.recv(64)
                return None
            if now >= deadline or any(fd in ready for fd in also):
                return None

    def wake(self) -> None:
        """Have `wait` return now; any thread may ask for it."""
        with suppress(OSError):  # woken already, or closed
            self._wake_writer.send(b"!")

    def close(self) -> None:
        """Disconnect."""
        self._disconnect()
        self._wake_reader.close()
        self._wake_writer.close()

    @property
    def _look_at(self) -> float:
        return self._looked_at + (self.least_s if self._changed is not None else self.most_s)

    def _take(self, now: float) -> wire.Change:
        changed, self._changed = self._changed, None
        self._looked_at = now
        return changed if changed is not None else wire.Change()

    def _files(self, also: Sequence[int]) -> list[Any]:
        # Once we know that something has changed, further changes may wait in the socket until the next look.
        reads = self._peer is not None and (self._changed is None or not self.connected)
        return [*also, self._wake_reader, *([self._peer] if reads else [])]

    def _act_at(self, now: float) -> float:
        """Return when to act even if nothing arrives: connect again, or report a hub that does not answer."""
        if self._peer is None:
            return self._connected_at + self._pause_s
        if self.connected or self.trouble:
            return math.inf
        return max(now, self._connected_at + HELLO_TIMEOUT_S)

    def _note(self, change: wire.Change) -> None:
        before = self._changed
        if before is None:
            self._changed = change
        else:
            self._changed = wire.Change(
                [*before.spans, *change.spans], [*before.events, *change.events], [*before.points, *change.points],
                before.missed or change.missed,
            )  # fmt: skip

    def _set_trouble(self, trouble: str) -> None:
        """Set `trouble`, and cause a look, so that it is shown."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._note(wire.Change())

    # The hub.

    def _connect(self, now: float) -> None:
        self._connected_at = now
        self._pause_s = min(max(2 * self._pause_s, _RECONNECT_S[0]), _RECONNECT_S[1])
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.setblocking(False)
            self._home.check_owner()
            unix_socket.connect(peer, self._home.socket)
            peer.sendall(wire.pack_message(wire.Hello(name="follower")) + wire.pack_message(wire.Follow(self.run)))
        except StrangerError as error:
            peer.close()
            self._set_trouble(str(error))
            return
        except OSError:
            peer.close()
            self._start_hub(now)
            return
        self._peer, self._missing_since = peer, None
        self._unframer = wire.Unframer(wire.MAX_SHIPMENT)

    def _start_hub(self, now: float) -> None:
        """Start a hub if one is needed; if none is, a missing hub is not a trouble."""
        if not self._needs_hub():
            self._missing_since = None
            if self._home.hub_pid() is None:
                self._set_trouble("")
            return
        if self._missing_since is None:
            self._missing_since = now
        try:
            self._home.wake_hub()
        except (OSError, VedetteError) as error:
            self._set_trouble(f"{not_starting(self._home, error)}; trying again")
            return
        if now - self._missing_since >= START_TIMEOUT_S:
            self._set_trouble(f"{not_starting(self._home)}; trying again")

    def _receive(self) -> None:
        """Read what the hub has sent."""
        assert self._peer is not None
        try:
            data = self._peer.recv(_READ_BYTES)
            self._heard_at = time.monotonic()
            for payload in self._unframer.feed(data):
                self._handle(wire.unpack_message(payload))
            if data:
                return
            trouble = LEFT
        except BlockingIOError:
            return
        except VedetteError as error:  # it refuses, or is not a hub of our version
            trouble = f"{error}; trying again"
        except OSError:
            trouble = LEFT
        self._disconnect()
        self._connected_at, self._pause_s = time.monotonic(), max(self._pause_s, _RECONNECT_S[0])
        self._set_trouble(trouble)

    def _handle(self, message: wire.Message) -> None:
        if isinstance(message, wire.Hello):
            wire.check_version(message)
        elif isinstance(message, wire.Refused):
            raise HubError(f"the hub says: {message.why}")
        elif isinstance(message, wire.Done):  # from now on it reports changes; earlier ones are unknown
            self.connected = True
            self._pause_s = 0.0
            self._set_trouble("")
            self._note(wire.Change(missed=True))
        elif isinstance(message, wire.Change):
            self._note(message)

    def _check_hello_in_time(self) -> None:
        if time.monotonic() >= self._connected_at + HELLO_TIMEOUT_S:
            self._set_trouble(not_answering(self._home))

    def _check_running(self, now: float) -> None:
        """Report a hub that was stopped (SIGSTOP) after it had greeted: it says nothing, as one does without news."""
        if not self.connected or now < self._heard_at + HELLO_TIMEOUT_S:
            return
        self._heard_at = now  # look again after as long
        hub = self._home.hub()
        stopped = hub is not None and hub.is_here() and kernel.is_stopped(hub.pid)
        self._set_trouble(not_answering(self._home) if stopped else "")

    def _disconnect(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        if self.connected:
            self.connected = False
            self._note(wire.Change(missed=True))
