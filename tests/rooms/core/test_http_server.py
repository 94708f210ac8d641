"""uvicorn as we run it: it shows and believes no more than it must, and nobody who hangs on the line is a burden."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time

import pytest
import uvicorn

from vedette import asgi, http_port, http_server
from vedette import gate as gates
from vedette.certificate import _make_certificate

BIG = 16 << 20  # bytes of an answer, more than the system holds on its way
CROWD = 105  # half requests; `scripts/bench half_open` has 2,000


async def seen(scope, receive, send):
    """Answer with who asked, as the server tells it."""
    body = json.dumps([scope["type"], scope["scheme"], scope["client"][0]]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def app(scope, receive, send):
    """Let in who asks; answer with many bytes at /big, and with blocks of them at /blocks."""
    asgi.admit(scope)
    if scope["path"] == "/":
        await seen(scope, receive, send)
        return
    blocks = [b"x" * BIG] if scope["path"] == "/big" else [b"x" * (BIG // 64)] * 64
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % BIG)]})
    for block in blocks:
        await send({"type": "http.response.body", "body": block, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextlib.contextmanager
def serving(server, gate):
    """Serve at a gate; hand out the port."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [gate]})
    thread.start()
    try:
        yield gate.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        gate.close()


@contextlib.contextmanager
def ours(most=8, served=app, **own):
    """Serve as we do; hand out the gate and the port."""
    gate = http_port.take("127.0.0.1", 0, most=most)
    server = http_server.Server(http_server.config(served, gate, lifespan="off", **own), gate)
    with serving(server, gate) as port:
        yield gate, port


def ask(port, path="/", headers=None):
    """Ask once; return status, names of the headers, and the body."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
        client.request("GET", path, headers=headers or {})
        got = client.getresponse()
        return got.status, {name.lower() for name, _ in got.getheaders()}, got.read()


FORGED = {"X-Forwarded-For": "10.9.8.7", "X-Forwarded-Proto": "https", "Forwarded": "for=10.9.8.7"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "eA=="}


@pytest.mark.parametrize("headers", [FORGED, UPGRADE])
def test_what_is_closed(headers):
    """No header makes a client another one, and none opens a websocket; the server does not name itself."""
    with ours() as (_, port):
        _, names, saw = ask(port, headers=headers)

    assert "server" not in names
    assert json.loads(saw) == ["http", "http", "127.0.0.1"]


def test_a_config_left_open():
    """Control: uvicorn by itself names itself, and believes a forged header."""
    config = uvicorn.Config(seen, http="h11", lifespan="off", log_config=None)
    with serving(uvicorn.Server(config), http_port.take("127.0.0.1", 0)) as port:
        _, names, saw = ask(port, headers=FORGED)

    assert "server" in names
    assert json.loads(saw) == ["http", "https", "10.9.8.7"]


@contextlib.contextmanager
def crowd(port, said=b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
    """Hang on the line, many of us, with half a request each; hand out our ends."""
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(CROWD)]
        for end in ends:
            with contextlib.suppress(OSError):  # it had to go already
                end.sendall(said)
        yield ends


def test_a_crowd_with_half_requests_keeps_nobody_out():
    """Who asks is answered while a crowd hangs on the line, on a new connection and on one that was let in before."""
    with ours() as (gate, port), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as known:
        known.request("GET", "/")
        known.getresponse().read()
        line = known.sock
        with crowd(port):
            for _ in range(5):
                assert ask(port)[0] == 200
                known.request("GET", "/")
                assert known.getresponse().read()
            assert len(gate) <= 2 * 8
        assert known.sock is line


def test_uvicorn_without_the_gate_is_full():
    """Control: with a limit of connections alone, as uvicorn has it, the crowd keeps everybody out."""
    config = uvicorn.Config(app, http="h11", lifespan="off", log_config=None, limit_concurrency=CROWD)
    with serving(uvicorn.Server(config), http_port.take("127.0.0.1", 0, most=10_000)) as port, crowd(port):
        deadline = time.monotonic() + 60
        while ask(port)[0] != 503:
            assert time.monotonic() < deadline


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_headers_that_do_not_come(said, monkeypatch):
    """A connection whose first headers are not complete in time ends, whatever it has said so far."""
    monkeypatch.setattr(gates, "HEADERS_S", 0.2)
    with ours() as (_, port), socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(said)
        assert slow.recv(100) == b""


def test_headers_of_a_later_request_that_do_not_come(monkeypatch):
    """Who was let in has no longer to say what he wants next, once he has begun; until then he may wait."""
    monkeypatch.setattr(gates, "HEADERS_S", 0.3)
    with ours() as (_, port), socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        assert answer.read()
        slow.settimeout(0.6)
        with pytest.raises(TimeoutError):
            slow.recv(1)
        slow.settimeout(60)
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert slow.recv(1) == b""


def test_headers_that_are_too_long():
    """Headers without an end are refused before they fill the memory."""
    with ours() as (_, port), socket.create_connection(("127.0.0.1", port), timeout=60) as long:
        long.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * (1 << 18))
        assert long.recv(100).startswith(b"HTTP/1.1 400")


def test_a_handshake_that_does_not_come(tmp_path, monkeypatch):
    """Where TLS is spoken, those who do not even begin to are strangers, too: the oldest goes, and their time ends."""
    (tmp_path / "both.pem").write_bytes(_make_certificate())
    with ours(ssl_certfile=str(tmp_path / "both.pem")) as (gate, port), crowd(port, b"") as ends:
        context = ssl._create_unverified_context()
        with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)) as client:
            client.request("GET", "/")
            assert client.getresponse().status == 200
        assert len(gate) <= 2 * 8
        monkeypatch.setattr(gates, "HEADERS_S", 0.0)
        assert ends[-1].recv(1) == b""


def begin(port, path, *, hasty=False):
    """Ask for a long answer, and read the beginning of it."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    line.settimeout(60)
    line.connect(("127.0.0.1", port))
    line.sendall(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{'Connection: close' if hasty else 'X: y'}\r\n\r\n".encode()
    )
    line.recv(1)
    return line


@pytest.mark.parametrize("path", ["/big", "/blocks"])
def test_an_answer_that_nobody_reads(path, monkeypatch):
    """An answer that is not read is not held for ever, also where the connection was to end after it."""
    monkeypatch.setattr(http_server, "_UNREAD_S", 0.2)
    with ours() as (gate, port), begin(port, path), begin(port, path, hasty=True):
        deadline = time.monotonic() + 60
        while len(gate):
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("path", ["/big", "/blocks"])
def test_an_answer_that_is_read_slowly(path, monkeypatch):
    """One who reads, however slowly, gets all of it."""
    monkeypatch.setattr(http_server, "_UNREAD_S", 1.0)
    monkeypatch.setattr(http_server, "_LEAST_BYTES", 1)
    until = time.monotonic() + 2.2
    with ours() as (_, port), begin(port, path, hasty=True) as line:
        count = 1
        while block := line.recv(1 << 18):
            count += len(block)
            if count < 2 << 20 and time.monotonic() < until:
                time.sleep(0.08)
    assert count > BIG


def test_answers_that_nobody_reads_are_few(monkeypatch):
    """All that waits to be read is bounded: when it is too much, who has read nothing for longest ends."""
    monkeypatch.setattr(http_server, "_MOST_UNREAD", 2 * BIG)
    with ours() as (gate, port), contextlib.ExitStack() as stack:
        lines = [stack.enter_context(begin(port, "/big")) for _ in range(4)]
        deadline = time.monotonic() + 60
        while len(gate) > 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(lines[-1].recv(1 << 16, socket.MSG_WAITALL)) == 1 << 16
