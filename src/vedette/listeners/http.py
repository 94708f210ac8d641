"""The HTTP server of a listener: the guard before its app; `http_port` has its port, `http_server` its limits.

It imports starlette and uvicorn only when it begins to serve.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from vedette import asgi, guard
from vedette.asgi import App, Scope
from vedette.gate import Gate

if TYPE_CHECKING:
    import uvicorn

_BODY_S = 10.0
_IDLE_S = 30  # of a connection between two requests


class HttpServer:
    """Serves an ASGI app at a port, behind the guard."""

    def __init__(
        self, gate: Gate, app: App, rules: guard.Rules, refused: Callable[[str], None] = lambda _why: None
    ) -> None:
        """Answer nothing before `serve`. `refused` is called with the kind of each request that the guard refuses."""
        self._gate = gate
        self._app = guarded(app, rules, refused)
        self._server: uvicorn.Server | None = None
        self._ended = asyncio.Event()

    async def serve(self) -> None:
        """Answer until it is closed."""
        from vedette import http_server  # noqa: PLC0415 - a web server, only where one is asked for

        class Server(http_server.Server):
            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                """Leave signals alone: the hub says when to stop."""
                yield

        config = http_server.config(self._app, self._gate, lifespan="off", loop="none", timeout_keep_alive=_IDLE_S)
        self._server = Server(config, self._gate)
        try:
            await self._server.serve(sockets=[self._gate])
        finally:
            self._ended.set()

    async def close(self) -> None:
        """Close the port; requests that are being answered are finished."""
        if self._server is not None:
            self._server.should_exit = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 2 * asgi.GRACE_S)
        self._gate.close()


def guarded(app: App, rules: guard.Rules, refused: Callable[[str], None] = lambda _why: None) -> App:
    """Return an app that gets only the requests that the guard allows."""

    async def check(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        decision = guard.judge(guard.in_scope(scope), rules)
        if decision.status == 200:
            asgi.admit(scope)
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
