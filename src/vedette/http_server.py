"""uvicorn, as all servers of ours run it: closed where it is open, and with the limits that it lacks.

A connection ends when the headers of a request do not come in time, and when its answers are not read: each that waits
to be read is held in memory. `gate` says how many connections there may be.
"""

import asyncio
import contextlib
import fcntl
import sys
import termios
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vedette import gate as gates
from vedette.asgi import ADMIT, GRACE_S, App, Scope
from vedette.gate import Gate

_UNREAD_S = 30.0  # how often we look whether an answer is being read
_LEAST_BYTES = 64 << 10  # read in that time; an answer that is nearly read may be shorter
_MOST_UNREAD = 128 << 20  # bytes of all answers that wait to be read by one kind of reader


def config(app: App, gate: Gate, **own: Any) -> uvicorn.Config:
    """Return uvicorn's config: no websockets, nothing printed, no name of the server, no trust in a proxy's headers.

    `own`: what the server sets besides.
    """

    class Connection(_Connection):
        pass

    Connection.gate, Connection.unread = gate, {}
    chosen: dict[str, Any] = {"loop": "asyncio", **own}  # another loop would not ask the gate
    return uvicorn.Config(
        app, http=Connection, ws="none", log_config=None, access_log=False, log_level="critical", server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=GRACE_S, backlog=gate.at_once, **chosen,
    )  # fmt: skip


class Server(uvicorn.Server):
    """Serves what the gate accepts."""

    def __init__(self, config: uvicorn.Config, gate: Gate, ready: Callable[[], None] | None = None) -> None:
        """`ready` is called when it answers."""
        super().__init__(config)
        self._gate = gate
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """End the strangers whose time is over; uvicorn calls this ten times a second."""
        self._gate.sweep()
        return await super().on_tick(counter)


class _Connection(H11Protocol):
    """One connection."""

    gate: Gate
    unread: "dict[_Connection, str]"  # those whose answers wait to be read, and whose they are; the longest first

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._who = ""
        self._headers: asyncio.TimerHandle | None = None  # until when headers that have begun must be complete
        self._reading: asyncio.TimerHandle | None = None  # when we look again whether the answer is being read
        app = self.app

        async def admitting(scope: Scope, receive: Any, send: Any) -> None:
            scope[ADMIT] = self._admit
            await app(scope, receive, send)

        self.app = admitting

    def _admit(self, who: str) -> None:
        self._who = who
        self.gate.admit(self.transport.get_extra_info("socket").fileno(), who)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        partial = self.conn.their_state is h11.IDLE
        if partial and self._headers is None:
            self._headers = self.loop.call_later(gates.HEADERS_S, self.transport.abort)
        elif not partial and self._headers is not None:
            self._headers.cancel()
            self._headers = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._headers, self._reading):
            if timer is not None:
                timer.cancel()
        self.unread.pop(self, None)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unread[self] = self._who
        waiting = [one for one, who in self.unread.items() if who == self._who]
        held = sum(one._left for one in waiting)  # noqa: SLF001 - of this class
        for one in waiting[:-1]:
            if held > _MOST_UNREAD:
                held -= one._left  # noqa: SLF001
                del self.unread[one]
                one.transport.abort()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread.pop(self, None)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    @property
    def _left(self) -> int:
        """Bytes that wait to be read."""
        return self.transport.get_write_buffer_size()

    def _watch(self) -> None:
        """See to it that what waits is read; while an answer is only begun, no more of it comes before that."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self.loop.call_later(_UNREAD_S, self._check, self._unread) if self._left else None

    def _check(self, before: int) -> None:
        """End the connection if too little was read since the last look."""
        if self._left and before - self._unread < _LEAST_BYTES:
            self.transport.abort()
        else:
            self._watch()

    @property
    def _unread(self) -> int:
        """Bytes that wait, also in the kernel, which takes some megabytes, and asks for more only now and then."""
        with contextlib.suppress(OSError):
            fd = self.transport.get_extra_info("socket").fileno()
            return self._left + int.from_bytes(fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        return self._left
