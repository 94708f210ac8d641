"""Where heflwr's clients send to, `vedette hub --listen heflwr=ADDRESS`: each identifier becomes a run (decisions/012).

The clients have no token, so this listens only on this machine, and the guard refuses browsers.
"""

import asyncio
import contextlib
from typing import Any

from msgspec import Struct

from vedette import guard, http_port
from vedette.asgi import App, Refusal, Scope
from vedette.compat.heflwr import wire
from vedette.compat.heflwr.receiver import Receiver
from vedette.errors import FormatError
from vedette.gate import Gate
from vedette.listeners import http
from vedette.listeners.http import HttpServer
from vedette.listeners.intake import Intake

_TEND_S = 5.0


class Config(Struct, frozen=True):
    """Where to listen."""

    host: str
    port: int


def parse(address: str) -> Config:
    """Read HOST:PORT, :PORT or PORT; raise SettingError when other machines could reach it."""
    host, port = guard.bind(address)
    advice = (
        "heflwr's clients have neither. Send through a tunnel (ssh -L 5000:127.0.0.1:5000 THIS-HOST), or by the sink"
        " `hub` with VEDETTE_HUB, which has both"
    )
    guard.check_bind(host, token=False, tls=False, advice=advice)
    return Config(host, port)


class Listener:
    """The HTTP server of heflwr's clients, and the receiver behind it."""

    def __init__(self, port: Gate, intake: Intake) -> None:
        """Answer nothing before `serve`."""
        self.where = http_port.where(port)
        self._receiver = Receiver(intake)
        self._server = HttpServer(port, _app(self._receiver, intake), guard.Rules(), intake.refuse)

    async def serve(self) -> None:
        """Find the open runs, then answer."""
        await self._receiver.begin()
        tending = asyncio.ensure_future(self._tend())
        try:
            await self._server.serve()
        finally:
            tending.cancel()

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(_TEND_S)
            await self._receiver.tend()

    async def close(self) -> None:
        """Stop listening; requests that are being answered are finished."""
        await self._server.close()


def open(config: Config, intake: Intake) -> Listener:  # noqa: A001 - the name that every listener has
    """Open the port."""
    return Listener(http_port.take(config.host, config.port), intake)


def _app(receiver: Receiver, intake: Intake) -> App:
    async def answer(request: Any) -> tuple[int, str, dict[str, str]]:
        from starlette.requests import ClientDisconnect  # noqa: PLC0415 - with the server

        try:
            if request.url.path not in wire.PATHS:
                raise Refusal(404, f"there are {' and '.join(wire.PATHS)}, by POST")
            if request.method != "POST":
                raise Refusal(405, f"{request.url.path} takes only POST", {"Allow": "POST"})
            receiver.receive(await http.read_body(request, wire.MAX_BYTES), request.headers.get(wire.MOMENT_HEADER, ""))
        except Refusal as refusal:
            return refusal.status, str(refusal), refusal.headers
        except FormatError as error:
            intake.refuse("malformed")
            return 400, str(error), {}
        except OSError as error:
            return 503, f"it cannot be stored now: {error}", {}
        except ClientDisconnect:
            raise
        except Exception as error:  # the listener goes on; the client still has the message
            return 500, f"it could not be stored: {type(error).__name__}", {}
        return 200, "kept", {}

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        from starlette.requests import ClientDisconnect, Request  # noqa: PLC0415 - with the server
        from starlette.responses import PlainTextResponse  # noqa: PLC0415

        with contextlib.suppress(ClientDisconnect):
            status, text, headers = await answer(Request(scope, receive))
            await PlainTextResponse(text + "\n", status, headers)(scope, receive, send)

    return app
