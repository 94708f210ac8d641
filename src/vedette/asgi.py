"""What the apps of our HTTP servers share: the types of ASGI, how a request is refused, and what uvicorn keeps closed.

It imports uvicorn only for a server that begins.
"""

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


def config(app: App, **own: Any) -> "uvicorn.Config":
    """Return uvicorn's config: no websockets, nothing printed, no name of the server, no trust in a proxy's headers.

    `own`: what the server sets besides.
    """
    import uvicorn  # noqa: PLC0415 - a web server, only where one is asked for

    return uvicorn.Config(
        app, ws="none", log_config=None, access_log=False, log_level="critical", server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=GRACE_S, **own,
    )  # fmt: skip
