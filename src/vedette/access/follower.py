"""Waiting until it is time to look again: the one loop below every live view of a home.

The web page, `vedette top`, the console, `watch` and `logs -f` all look at the store when something has changed, soon
but not too often, and now and then in any case. The hub that tells of changes may come and go meanwhile.
"""

import math
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from vedette import kernel, wire
from vedette.access.hub_socket import HELLO_PATIENCE_S, START_PATIENCE_S, not_answering, not_starting
from vedette.errors import HubError, VedetteError
from vedette.home import Home

LEFT = "the hub has left; looking for another"
_DIAL_AGAIN_S = (0.2, 2.0)  # between two tries to reach the hub: the first pause, and the longest
_READ_BYTES = 1 << 18  # of what has changed, at once; what is left waits for the next look


class Follower:
    """Says when to look again. It never raises because there is no hub; `trouble` says then what is wrong.

    It belongs to the thread that waits; only `wake` may be called by others.
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

        Two looks are at least `least_s` apart however much changes, and at most `most_s` though nothing does. A hub
        that is not there is started, unless it is not needed just now.
        """
        self.run = run
        self.least_s, self.most_s = least_s, most_s
        self.trouble = ""  # why no hub is heard; empty where one is, and where none is needed
        self.connected = False  # a hub is there, and says what changes
        self._home = home
        self._needs_hub = needs_hub
        self._peer: socket.socket | None = None
        self._unframer = wire.Unframer(wire.MAX_SHIPMENT)
        self._dialled_at = -math.inf
        self._pause_s = 0.0
        self._missing_since: float | None = None  # when a hub was first wanted that is not there
        self._looked_at = -math.inf
        self._changed: wire.Change | None = None  # since the last look
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)

    def wait(self, seconds: float = math.inf, also: Sequence[int] = ()) -> wire.Change | None:
        """Sleep until it is time to look, then return what has changed since the last look.

        Return None when something else came first: the time is over, one of these descriptors can be read, or
        somebody calls `wake`.
        """
        deadline = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if self._peer is None and now >= self._dialled_at + self._pause_s:
                self._dial(now)
            if now >= self._look_at:
                return self._take(now)
            until = min(deadline, self._look_at, self._act_at(now))
            ready = kernel.wait(self._files(also), (), until - now)  # the hub is heard even where the time is over
            if self._peer is not None and self._peer in ready:
                self._hear()
            elif self._peer is not None and not self.connected:
                self._grow_impatient()
            if self._bell in ready:
                with suppress(BlockingIOError):
                    self._bell.recv(64)
                return None
            if now >= deadline or any(fd in ready for fd in also):
                return None

    def wake(self) -> None:
        """Have `wait` return now; any thread may ask for it."""
        with suppress(OSError):  # rung already, or closed
            self._ringer.send(b"!")

    def close(self) -> None:
        """Hang up."""
        self._hang_up()
        self._bell.close()
        self._ringer.close()

    @property
    def _look_at(self) -> float:
        return self._looked_at + (self.least_s if self._changed is not None else self.most_s)

    def _take(self, now: float) -> wire.Change:
        changed, self._changed = self._changed, None
        self._looked_at = now
        return changed if changed is not None else wire.Change()

    def _files(self, also: Sequence[int]) -> list[Any]:
        # Once it is known that something has changed, the rest may wait in the socket until the look is due.
        listens = self._peer is not None and (self._changed is None or not self.connected)
        return [*also, self._bell, *([self._peer] if listens else [])]

    def _act_at(self, now: float) -> float:
        """Return when something is due here, whatever is heard."""
        if self._peer is None:
            return self._dialled_at + self._pause_s
        if self.connected or self.trouble:
            return math.inf
        return max(now, self._dialled_at + HELLO_PATIENCE_S)

    def _note(self, change: wire.Change) -> None:
        before = self._changed
        if before is None:
            self._changed = change
        else:
            self._changed = wire.Change(
                [*before.spans, *change.spans], [*before.events, *change.events], [*before.points, *change.points],
                before.missed or change.missed,
            )  # fmt: skip

    def _say(self, trouble: str) -> None:
        """Say what is wrong, or that nothing is; who shows it looks then."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._note(wire.Change())

    # The hub.

    def _dial(self, now: float) -> None:
        self._dialled_at = now
        self._pause_s = min(max(2 * self._pause_s, _DIAL_AGAIN_S[0]), _DIAL_AGAIN_S[1])
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.setblocking(False)
            peer.connect(self._home.socket)
            peer.sendall(wire.pack_message(wire.Hello(name="follower")) + wire.pack_message(wire.Follow(self.run)))
        except OSError:
            peer.close()
            self._want_hub(now)
            return
        self._peer, self._missing_since = peer, None
        self._unframer = wire.Unframer(wire.MAX_SHIPMENT)

    def _want_hub(self, now: float) -> None:
        """Have a hub started, where one is needed; if none is, that is no trouble."""
        if not self._needs_hub():
            self._missing_since = None
            if self._home.hub_pid() is None:
                self._say("")
            return
        if self._missing_since is None:
            self._missing_since = now
        try:
            self._home.wake_hub()
        except (OSError, VedetteError) as error:
            self._say(f"{not_starting(self._home, error)}; trying again")
            return
        if now - self._missing_since >= START_PATIENCE_S:
            self._say(f"{not_starting(self._home)}; trying again")

    def _hear(self) -> None:
        """Take in what the hub has said."""
        assert self._peer is not None
        try:
            data = self._peer.recv(_READ_BYTES)
            for payload in self._unframer.feed(data):
                self._take_message(wire.unpack_message(payload))
            if data:
                return
            trouble = LEFT
        except BlockingIOError:
            return
        except VedetteError as error:  # it refuses, or is no hub of ours
            trouble = f"{error}; trying again"
        except OSError:
            trouble = LEFT
        self._hang_up()
        self._dialled_at, self._pause_s = time.monotonic(), max(self._pause_s, _DIAL_AGAIN_S[0])
        self._say(trouble)

    def _take_message(self, message: wire.Message) -> None:
        if isinstance(message, wire.Hello):
            wire.check_version(message)
        elif isinstance(message, wire.Refused):
            raise HubError(f"the hub says: {message.why}")
        elif isinstance(message, wire.Done):  # from now on it tells; what has happened before is not known
            self.connected = True
            self._pause_s = 0.0
            self._say("")
            self._note(wire.Change(missed=True))
        elif isinstance(message, wire.Change):
            self._note(message)

    def _grow_impatient(self) -> None:
        if time.monotonic() >= self._dialled_at + HELLO_PATIENCE_S:
            self._say(not_answering(self._home))

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        if self.connected:
            self.connected = False
            self._note(wire.Change(missed=True))
