"""The HTTP server of a listener: the guard before its app, and time limits for connections; `http_port` has its port.

It imports starlette and uvicorn only when it begins to serve.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from vedette import asgi, guard
from vedette.asgi import App, Scope

if TYPE_CHECKING:
    import uvicorn

_MAX_CONNECTIONS = 256
_BODY_S = 10.0
_IDLE_S = 30.0  # for the headers of a request, and for an idle connection


class HttpServer:
    """Serves an ASGI app at a port, behind the guard."""

    def __init__(
        self, bound: socket.socket, app: App, rules: guard.Rules, refused: Callable[[str], None] = lambda _why: None
    ) -> None:
        """Answer nothing before `serve`. `refused` is called with the kind of each request that the guard refuses."""
        self._bound = bound
        self._app = guarded(app, rules, refused)
        self._server: uvicorn.Server | None = None
        self._ended = asyncio.Event()

    async def serve(self) -> None:
        """Answer until it is closed."""
        config = asgi.config(
            self._app, http=_protocol(), lifespan="off", loop="none", limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=30,
        )  # fmt: skip
        self._server = _server(config)
        try:
            await self._server.serve(sockets=[self._bound])
        finally:
            self._ended.set()

    async def close(self) -> None:
        """Close the port; requests that are being answered are finished."""
        if self._server is not None:
            self._server.should_exit = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 2 * asgi.GRACE_S)
        self._bound.close()


def guarded(app: App, rules: guard.Rules, refused: Callable[[str], None] = lambda _why: None) -> App:
    """Return an app that gets only the requests that the guard allows."""

    async def check(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        decision = guard.judge(guard.in_scope(scope), rules)
        if decision.status == 200:
            await app(scope, receive, send)
            return
        refused(guard.REFUSALS[decision.status])
        headers = [(name.lower().encode(), value.encode()) for name, value in decision.headers.items()]
        headers.append((b"content-type", b"text/plain; charset=utf-8"))
        await send({"type": "http.response.start", "status": decision.status, "headers": headers})
        await send({"type": "http.response.body", "body": decision.sentence.encode() + b"\n"})

    return check


async def read_body(request: Any, most_bytes: int) -> bytes:
    """Return the body of a starlette Request; raise a Refusal if it is too long, or does not come in time."""
    return await asgi.read_body(request.scope, request.receive, most_bytes, _BODY_S)


def _protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - with the server

    class Protocol(H11Protocol):
        """One connection; it is closed when it is idle for too long, or when its headers take too long."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(_IDLE_S, self._close_if_idle, None)

        def _close_if_idle(self, before: Any) -> None:
            if self.transport.is_closing():
                return
            if self.cycle is before and (before is None or before.response_complete):
                self.transport.close()
            else:
                self.loop.call_later(_IDLE_S, self._close_if_idle, self.cycle)

    return Protocol


def _server(config: "uvicorn.Config") -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415 - with the server

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals alone: the hub says when to stop."""
            yield

    return Server(config)
