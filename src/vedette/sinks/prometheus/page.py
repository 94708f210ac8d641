"""An HTTP server of one page, in a thread of its own, that ends at once when it is closed.

The guard of all HTTP servers checks each request before anything else.
"""

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any

from vedette import guard, http_port, kernel

Render = Callable[[str], tuple[bytes, str]]  # from the Accept header to the page and its media type
_TIMEOUT_S = 10.0
_MAX_READERS = 32  # at once
_PAUSE_S = 0.1


class Page:
    """Serves `/metrics` until it is closed."""

    def __init__(
        self, host: str, port: int, render: Render, token: str, context: ssl.SSLContext | None,
        names: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Begin to listen; raise SettingError if that is not safe, or fails.

        `names`: host names that readers may use, besides the address that it is bound to.
        """
        advice = "give token, cert and key, or listen on 127.0.0.1 and have it read through an ssh tunnel"
        guard.check_bind(host, token=bool(token), tls=context is not None, advice=advice)
        try:
            bound = http_port.take(host, port, dual_stack=True)
        except OSError as error:
            raise http_port.explain(error, host, port) from None
        self._server = _Server(bound, render, _rules(token, [host, *names]), context)
        self.port = int(self._server.server_address[1])
        try:
            self._ready = selectors.DefaultSelector()
            self._wakeup_read, self._wakeup_write = socket.socketpair()
        except OSError as error:
            self._server.server_close()
            raise http_port.explain(error, host, port) from None
        self._thread = threading.Thread(target=self._serve, name="vedette-prometheus", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        kernel.block_sigpipe()
        with self._ready as ready:
            ready.register(self._server, selectors.EVENT_READ)
            ready.register(self._wakeup_read, selectors.EVENT_READ)
            while not any(key.fileobj is self._wakeup_read for key, _ in ready.select()):
                self._server.handle_request()

    def close(self) -> None:
        """Stop listening, and close all connections; a second call does nothing."""
        if self._server.closed:
            return
        self._wakeup_write.shutdown(socket.SHUT_RDWR)  # close() is not enough: a fork child has the socket, too
        self._wakeup_write.close()
        self._thread.join(_TIMEOUT_S)
        self._server.server_close()
        self._wakeup_read.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, bound: socket.socket, render: Render, rules: guard.Rules, context: ssl.SSLContext | None
    ) -> None:
        self.closed = False
        self.render = render
        self.rules = rules
        self.context = context
        self._readers: dict[socket.socket, None] = {}  # open connections, the oldest first
        self._lock = threading.Lock()
        # TCPServer's would make a socket of its own, and HTTPServer's would ask a name server, which may be slow.
        BaseServer.__init__(self, bound.getsockname(), _Reader)
        self.socket = bound
        self.socket.setblocking(False)  # accept() must not block if a client has left meanwhile

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except BlockingIOError:
            raise
        except OSError:  # no descriptor is free: the client still waits, and we would spin
            time.sleep(_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. If there are too many connections, close the oldest: reading a page takes a moment."""
        with self._lock:
            oldest = next(iter(self._readers)) if len(self._readers) >= _MAX_READERS else None
            self._readers.pop(oldest, None)  # type: ignore[arg-type]
            self._readers[request] = None
        if oldest is not None:
            _shut(oldest)
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(_TIMEOUT_S)
        if self.context is not None:
            plain, request = request, self.context.wrap_socket(request, server_side=True)
            with self._lock:
                self._readers.pop(plain, None)
                self._readers[request] = None
        try:
            super().finish_request(request, client_address)
        finally:
            with self._lock:
                self._readers.pop(request, None)
            if self.context is not None:
                request.close()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._readers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a connection breaks."""

    def server_close(self) -> None:
        """Stop listening, also in fork children that have inherited the socket."""
        self.closed = True
        for one in (self.socket, *list(self._readers)):
            _shut(one)
        super().server_close()


def _rules(token: str, names: Iterable[str]) -> guard.Rules:
    return guard.Rules(
        guard.lower(names),
        (lambda said: "reader" if guard.same_token(said, token) else "") if token else None,
        name_hint="use localhost, or give the option hostnames=HOSTNAME",
        methods=("GET", "HEAD"),
    )


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


class _Reader(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        status, body, headers = self._answer()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def _answer(self) -> tuple[int, bytes, dict[str, str]]:
        text = {"Content-Type": "text/plain; charset=utf-8"}
        decision = guard.judge(self._asked(), self.server.rules)
        if decision.status != 200:
            return decision.status, decision.sentence.encode() + b"\n", {**text, **decision.headers}
        path = self.path.partition("?")[0]
        if path == "/":
            return 200, b"The metrics of a vedette monitor are at /metrics\n", text
        if path != "/metrics":
            return 404, b"there is only /metrics\n", text
        page, kind = self.server.render(self.headers.get("Accept", ""))
        return 200, page, {"Content-Type": kind}

    def _asked(self) -> guard.Asked:
        headers = tuple((name.lower(), value) for name, value in self.headers.items())
        return guard.Asked(self.command, headers, "http" if self.server.context is None else "https", page=True)

    def version_string(self) -> str:
        return "vedette"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass
