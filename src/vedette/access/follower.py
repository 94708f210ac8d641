"""Waiting for changes: from a hub that may come and go, without ever raising for want of one."""

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from vedette import kernel, wire
from vedette.errors import HubError
from vedette.home import Home

_DIAL_AGAIN_S = 0.5


class Follower:
    """Waits for news of a run, or of any, from a hub that may come and go; never raises for want of one."""

    def __init__(self, home: Home, run: str = "") -> None:
        self.run = run
        self._home = home
        self._peer: socket.socket | None = None
        self._dial_at = 0.0

    def wait(self, seconds: float, also: Sequence[int] = ()) -> bool:
        """Sleep until something has changed, one of these descriptors can be read, or the time is over.

        Tell whether something may have changed.
        """
        fresh = self._peer is None and time.monotonic() >= self._dial_at and self._dial()
        watched: list[Any] = [*also, *([self._peer] if self._peer is not None else [])]
        ready = kernel.wait(watched, (), 0 if fresh else seconds)
        if self._peer is None or self._peer not in ready:
            return fresh or self._peer is None
        try:
            if self._peer.recv(1 << 16):
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.close()
        return True

    def _dial(self) -> bool:
        self._dial_at = time.monotonic() + _DIAL_AGAIN_S
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.setblocking(False)
            peer.connect(self._home.socket)
            peer.sendall(wire.pack_message(wire.Hello(name="console")) + wire.pack_message(wire.Follow(self.run)))
        except OSError:
            peer.close()
            with suppress(OSError, HubError):
                self._home.wake_hub()
            return False
        self._peer = peer
        return True

    def close(self) -> None:
        """Hang up."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None
