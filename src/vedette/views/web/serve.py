"""The port: where the web server listens, and who may reach it."""

import contextlib
import ssl
from collections.abc import Callable, Iterator

import uvicorn

from vedette import guard, http_port, http_server, kernel
from vedette.asgi import App
from vedette.gate import Gate

_MOST_HEADERS = 64 << 10  # bytes
_IDLE_S = 60  # of a connection between two requests


def check_bind(host: str, *, token: str, tls: bool) -> None:
    """Refuse to listen for other machines without a token and TLS (law 5)."""
    advice = "give --tls, or listen on 127.0.0.1 and use a tunnel (ssh -L 7878:127.0.0.1:7878 THIS-HOST)"
    guard.check_bind(host, token=bool(token), tls=tls, advice=advice)


def open_port(host: str, port: int) -> Gate:
    """Open the port; raise SettingError when that fails."""
    try:
        return http_port.take(host, port)
    except OSError as error:
        raise http_port.explain(error, host, port, "give another with --port") from None


def config_of(app: App, gate: Gate, certificate: str = "") -> uvicorn.Config:
    """Return uvicorn's config for an app; `certificate`: a file with key and certificate, for TLS."""
    config = http_server.config(
        app, gate, lifespan="on", timeout_keep_alive=_IDLE_S, ssl_certfile=certificate or None,
        h11_max_incomplete_event_size=_MOST_HEADERS,
    )  # fmt: skip
    if certificate:
        config.load()
        assert config.ssl is not None
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return config


def serve(app: App, gate: Gate, certificate: str = "", ready: Callable[[], None] | None = None) -> None:
    """Answer until SIGINT or SIGTERM."""
    kernel.give_memory_back()
    server = _Server(config_of(app, gate, certificate), gate, ready)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[gate])


class _Server(http_server.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at a signal, without raising it again."""
        with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
            yield
