"""What the apps of our HTTP servers share: the types of ASGI, how a body is read and a request refused, and what
uvicorn keeps closed.

It imports uvicorn only for a server that begins.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

GRACE_S = 1  # for requests that are being answered when a server ends


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """A request that is answered with an error status and a sentence."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}


async def read_body(scope: Scope, receive: Any, most_bytes: int, within_s: float) -> bytes:
    """Return the body of a request; raise a Refusal, after which the connection is closed, if it is too long or late.

    Raise starlette's ClientDisconnect if the client is gone.
    """
    too_long = Refusal(413, f"a body has {most_bytes} bytes at most", {"Connection": "close"})
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if length.isdigit() and int(length[:20]) > most_bytes:
        raise too_long
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(within_s):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    from starlette.requests import ClientDisconnect  # noqa: PLC0415 - with the server

                    raise ClientDisconnect
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > most_bytes:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, "the body did not come in time", {"Connection": "close"}) from None
    return bytes(body)


def config(app: App, **own: Any) -> "uvicorn.Config":
    """Return uvicorn's config: no websockets, nothing printed, no name of the server, no trust in a proxy's headers.

    `own`: what the server sets besides.
    """
    import uvicorn  # noqa: PLC0415 - a web server, only where one is asked for

    return uvicorn.Config(
        app, ws="none", log_config=None, access_log=False, log_level="critical", server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=GRACE_S, **own,
    )  # fmt: skip
