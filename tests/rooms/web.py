"""A web server on a real port, in a thread, over a store of the test's own; and how to ask it."""

import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from vedette import http_port, http_server
from vedette.access.home_access import HomeAccess
from vedette.blobs import Blobs
from vedette.home import Home
from vedette.views.web import server
from vedette.views.web.key import Key
from vedette.views.web.serve import config_of

TOKEN = "t0ken-of-the-owner"
KEY = Key(lambda: TOKEN)


def access(store: Any) -> HomeAccess:
    """Return access to the home that a store of the test's own lies in."""
    return HomeAccess(Home(os.path.dirname(store.connection.execute("PRAGMA database_list").fetchone()[2])))


def put_blob(home: Home, data: bytes) -> str:
    """Put bytes where a home keeps them; return their digest."""
    digest = hashlib.sha256(data).hexdigest()
    path = Blobs(home).path(digest)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return digest


class Site:
    """A server that answers, and a browser that is not one."""

    def __init__(self, port: int, token: str = TOKEN) -> None:
        self.port = port
        self.token = token

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask just so; `token`: '' for none. The path goes out as it stands."""
        token = self.token if token is None else token
        said = {"Host": self.host, **({"Authorization": f"Bearer {token}"} if token else {})}
        if body is not None:
            said["Content-Type"] = "application/json"
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        if data is not None:
            said["Content-Length"] = str(len(data))
        said |= headers or {}
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), timeout=60)) as peer:
            head = "".join(f"{key}: {value}\r\n" for key, value in said.items())
            peer.sendall(
                f"{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode("latin-1") + (data or b"")
            )
            answer = http.client.HTTPResponse(peer, method=method)
            answer.begin()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()

    def get(self, path: str, **kwargs: Any) -> Any:
        status, _, body = self.ask("GET", path, **kwargs)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        status, _, answer = self.ask("POST", path, body if body is not None else {}, **kwargs)
        assert status == 200, answer
        return json.loads(answer)

    def draw(self, **wish: Any) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
        """Return the head of an answer with points, and for each series its x and y."""
        status, headers, body = self.ask("POST", "/api/series", wish)
        assert status == 200, body
        assert headers["content-type"] == "application/octet-stream"
        size = struct.unpack_from("<I", body)[0]
        assert (4 + size) % 8 == 0
        head = json.loads(body[4 : 4 + size])
        columns = np.frombuffer(body, "<f8", offset=4 + size)
        cut = [tuple(columns[at : at + count] for at, count in (one["x"], one["y"])) for one in head["series"]]
        return head, cut  # type: ignore[return-value]


class _Prompt(http_server.Server):
    """Sees at once that it is to end, and that all connections are closed; uvicorn looks ten times a second."""

    async def main_loop(self) -> None:
        tick = 0
        while not await self.on_tick(tick):
            tick += 1
            await asyncio.sleep(0.005)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in [*self.servers, *(sockets or [])]:
            one.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - uvicorn has no event
                    await asyncio.sleep(0.002)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


@contextlib.contextmanager
def served(app: Any) -> Iterator[int]:
    """Serve an app on a port of its own; hand out which."""
    gate = http_port.take("127.0.0.1", 0)
    running = _Prompt(config_of(app, gate), gate)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [gate]}, daemon=True)
    thread.start()
    try:
        yield gate.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(30)
        gate.close()


@contextlib.contextmanager
def site(access: Any, **kwargs: Any) -> Iterator[Site]:
    """Serve a home."""
    with served(server.build(access, KEY, **kwargs)) as port:
        yield Site(port)
