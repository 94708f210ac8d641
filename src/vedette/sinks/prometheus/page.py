"""An HTTP server of one page, in a thread of its own, that ends at once when it is closed.

The guard of all HTTP servers checks each request before anything else.
"""

import contextlib
import http.client
import re
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, BinaryIO

from vedette import guard, http_port, kernel
from vedette.gate import Gate

Render = Callable[[str], tuple[bytes, str]]  # from the Accept header to the page and its media type
_TIMEOUT_S = 10.0  # for one read or write
_ANSWER_S = 30.0  # for a whole answer
_MAX_READERS = 32  # at once, and as many who have not asked yet: each has a thread
_MAX_HEAD = 64 << 10  # bytes of a request
_SWEEP_S = 1.0
_LOOK_S = 0.05  # how often we look for more of requests that have only begun
_PAUSE_S = 0.1
_END = re.compile(rb"\n\r?\n")  # of a head


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
            gate = http_port.take(host, port, dual_stack=True, most=_MAX_READERS)
        except OSError as error:
            raise http_port.explain(error, host, port) from None
        self._server = _Server(gate, render, _rules(token, [host, *names]), context)
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
        server = self._server
        with self._ready as ready:
            ready.register(server.gate, selectors.EVENT_READ)
            ready.register(self._wakeup_read, selectors.EVENT_READ)
            while True:
                found: set[Any] = {key.fileobj for key, _ in ready.select(_LOOK_S if server.begun else self._pause_s)}
                if self._wakeup_read in found:
                    break
                server.gate.sweep(_ANSWER_S)
                found |= set(server.begun)
                for line in found - {server.gate}:
                    server.look_at(line, ready)
                if server.gate in found:
                    server.accept_some(ready)
            for line in (*server.begun, *(key.fileobj for key in ready.get_map().values())):
                if line not in (server.gate, self._wakeup_read):
                    line.close()  # type: ignore[union-attr]

    @property
    def _pause_s(self) -> float | None:
        return _SWEEP_S if len(self._server.gate) else None

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
    """Answers each request in a thread, which begins when the whole head of the request is here.

    With TLS it begins when the client says anything: the head is not to be seen before that.
    """

    daemon_threads = True

    def __init__(self, gate: Gate, render: Render, rules: guard.Rules, context: ssl.SSLContext | None) -> None:
        self.closed = False
        self.gate = gate
        self.render = render
        self.rules = rules
        self.context = context
        self.begun: dict[socket.socket, None] = {}  # connections that have said something, but not all
        # TCPServer's would make a socket of its own, and HTTPServer's would ask a name server, which may be slow.
        BaseServer.__init__(self, gate.getsockname(), _Reader)
        self.socket = gate
        self.socket.setblocking(False)  # accept() must not block if a client has left meanwhile

    def accept_some(self, ready: selectors.BaseSelector) -> None:
        """Accept some of those who wait."""
        for _ in range(self.gate.at_once):
            try:
                line, _ = self.get_request()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is free: the client still waits, and we would spin
                time.sleep(_PAUSE_S)
                return
            line.setblocking(False)
            self.look_at(line, ready)

    def look_at(self, line: socket.socket, ready: selectors.BaseSelector) -> None:
        """See how far the request of a connection has come; answer it if it is all here."""
        with contextlib.suppress(KeyError, ValueError):
            ready.unregister(line)
        self.begun.pop(line, None)
        try:
            head = line.recv(_MAX_HEAD, socket.MSG_PEEK)
        except BlockingIOError:
            ready.register(line, selectors.EVENT_READ)
            return
        except OSError:
            head = b""
        if not head or not self.gate.holds(line):
            line.close()
        elif self.context is not None or len(head) == _MAX_HEAD or _END.search(head):
            try:
                self.process_request(line, ("", 0))
            except RuntimeError:  # no thread can be started now
                self.shutdown_request(line)
        else:
            self.begun[line] = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(_TIMEOUT_S)
        if self.context is None:
            super().finish_request(request, client_address)
            return
        with self.context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as wrapped:
            self.gate.replace(wrapped)
            wrapped.do_handshake()
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a connection breaks."""

    def server_close(self) -> None:
        """Stop listening, also in fork children that have inherited the socket."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.gate.end_all()
        super().server_close()


def _rules(token: str, names: Iterable[str]) -> guard.Rules:
    return guard.Rules(
        guard.lower(names),
        (lambda said: "reader" if guard.same_token(said, token) else "") if token else None,
        name_hint="use localhost, or give the option hostnames=HOSTNAME",
        methods=("GET", "HEAD"),
    )


class _Head:
    """The beginning of a request, up to so many bytes: the library would take a hundred long lines."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _MAX_HEAD

    def readline(self, most: int) -> bytes:
        if self._left <= 0:  # to go on with half of it would hide headers from the guard
            raise http.client.LineTooLong("request")
        line = self._file.readline(min(most, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        self._file.close()


class _Reader(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_S

    def setup(self) -> None:
        super().setup()
        self.rfile = _Head(self.rfile)  # type: ignore[assignment, arg-type]

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
        self.server.gate.admit(self.connection.fileno(), "reader")
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
