"""The port: where the web server listens, and who may reach it."""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

import uvicorn

from vedette import asgi, guard, http_port
from vedette.asgi import App

_MOST_CONNECTIONS = 2048


def check_bind(host: str, *, token: str, tls: bool) -> None:
    """Refuse to listen for other machines without a token and TLS (law 5)."""
    advice = "give --tls, or listen on 127.0.0.1 and use a tunnel (ssh -L 7878:127.0.0.1:7878 THIS-HOST)"
    guard.check_bind(host, token=bool(token), tls=tls, advice=advice)


def open_port(host: str, port: int) -> socket.socket:
    """Open the port; raise SettingError when that fails."""
    try:
        return http_port.take(host, port)
    except OSError as error:
        raise http_port.explain(error, host, port, "give another with --port") from None


def config_of(app: App, certificate: str = "") -> uvicorn.Config:
    """Return uvicorn's config for an app; `certificate`: a file with key and certificate, for TLS."""
    config = asgi.config(
        app, http="h11", lifespan="on", limit_concurrency=_MOST_CONNECTIONS, timeout_keep_alive=60,
        ssl_certfile=certificate or None, h11_max_incomplete_event_size=64 << 10,
    )  # fmt: skip
    if certificate:
        config.load()
        assert config.ssl is not None
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return config


def serve(app: App, bound: socket.socket, certificate: str = "", ready: Callable[[], None] | None = None) -> None:
    """Answer until SIGINT or SIGTERM."""
    server = _Server(config_of(app, certificate), ready)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[bound])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at a signal, without raising it again."""
        with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
            yield
