"""What the apps of our HTTP servers share: the types of ASGI, how a body is read, a request refused or let in.

It imports no web server: `http_server` has that.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

ADMIT = "vedette.admit"  # where a scope has what `admit` calls
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


def admit(scope: Scope, who: str = "known") -> None:
    """Tell the server that a request was let in, by a guard: its connection is no stranger's any more.

    `who`: a kind of reader; each has an allowance of its own.
    """
    if act := scope.get(ADMIT):
        act(who)
