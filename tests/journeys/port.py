"""A hub that listens on TCP, connections to it with and without its token, and a job that relays to it meanwhile."""

import contextlib
import itertools
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.journeys.fuzz import Connect
from tests.journeys.test_relay import JOB, VEDETTE, is_whole
from vedette import address, certificate, wire
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.hub.peers.identity import identify

# The messages that a client may send after its Hello, and those of a hub after Introduce.
FROM_OTHERS = (
    wire.Hello | wire.Seal | wire.Follow | wire.AskHealth | wire.Health | wire.Done | wire.Change | wire.Refused
    | wire.Marks | wire.Kept | wire.Clock | wire.Order | wire.AskLatest | wire.Latest | wire.Await | wire.Answer
    | wire.AskUnsealed | wire.Unsealed | wire.Identify
)  # fmt: skip
FROM_A_HUB = wire.Identify | wire.Introduce | wire.Shipment | wire.Alive | wire.Done | wire.AskBlobs | wire.Piece

_numbers = itertools.count()


class Port:
    """The hub of a home at its port: on loopback without TLS, or on all interfaces with TLS."""

    def __init__(self, home: Home, *more: str, loopback: bool = True, program: tuple[str, ...] = ()) -> None:
        self.home = home
        where = "127.0.0.1:0" if loopback else "0.0.0.0:0"
        argv = [*(program or VEDETTE), "hub", "--address", where, "--advertise", "127.0.0.1", *more]
        home.prepare()
        with open(home.log, "ab") as log:
            self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=log)
        eventually(lambda: os.path.exists(home.connect) or self.process.poll() is not None, 20)
        assert self.process.poll() is None
        with open(home.connect) as file:
            self.connect_string = file.read().strip()
        self._address = address.parse(self.connect_string)

    @property
    def complaints(self) -> str:
        """The hub's log, which should have no traceback and no complaint."""
        with open(self.home.log) as file:
            return file.read()

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()

    # Ways to connect, for `fuzz`.

    def stranger(self) -> socket.socket:
        """Connect, and send nothing."""
        return socket.create_connection((self._address.host, self._address.port), 10)

    def greeted(self) -> socket.socket:
        """Connect with the token, and wait for the hub's Hello."""
        return self._greeted()[0]

    def _greeted(self) -> tuple[socket.socket, wire.Hello]:
        peer = self.stranger()
        peer.sendall(self.hello())
        hello = hear(peer)
        assert isinstance(hello, wire.Hello)
        return peer, hello

    def introduced(self) -> socket.socket:
        """Connect as a hub that relays, and wait for the marks; raise TimeoutError if they do not come."""
        peer, hello = self._greeted()
        peer.sendall(wire.pack_message(identify(self.home, hello.challenge, self._address.token, "")))
        peer.sendall(wire.pack_message(wire.Introduce(f"fuzz-{next(_numbers)}", "hostile", ["x"])))
        assert isinstance(hear(peer), wire.Marks)
        return peer

    def over_tls(self, say: bytes = b"") -> Connect:
        """Return a function that connects through TLS: a thread passes on what the plain socket sends."""

        def connect() -> socket.socket:
            near, inner = socket.socketpair()
            outer = certificate.calling().wrap_socket(self.stranger())
            outer.sendall(say)
            threading.Thread(target=_pump, args=(inner, outer), daemon=True).start()
            return near

        return connect

    def hello(self) -> bytes:
        """Return a Hello with the token."""
        return wire.pack_message(wire.Hello(name="fuzz", token=self._address.token))


def _pump(inner: socket.socket, outer: ssl.SSLSocket) -> None:
    """Copy bytes both ways until the far side closes; only one thread uses the TLS socket."""
    sources: list[socket.socket] = [inner, outer]
    with inner, outer, contextlib.suppress(OSError):
        while True:
            ready = select.select(sources, [], [], 0 if outer.pending() else 30)[0]
            if inner in ready:
                outer.settimeout(10)
                if data := inner.recv(1 << 16):
                    outer.sendall(data)
                else:
                    sources.remove(inner)
                    socket.socket.shutdown(outer, socket.SHUT_WR)
            if outer in ready or outer.pending():
                outer.setblocking(False)  # the data may be only TLS's own
                try:
                    data = outer.recv(1 << 16)
                except ssl.SSLWantReadError:
                    continue
                if not data:
                    return
                inner.sendall(data)


def hear(peer: socket.socket) -> wire.Message | None:
    """Return the next message, None if the other side has closed; more messages in that packet are dropped."""
    unframer = wire.Unframer(16 << 20)
    with contextlib.suppress(ConnectionError):
        while data := peer.recv(1 << 16):
            for payload in unframer.feed(data):
                return wire.unpack_message(payload)
    return None


def ask_through(peer: socket.socket, *messages: wire.Message) -> wire.Message | None:
    """Send messages; return the first answer."""
    with contextlib.suppress(ConnectionError):
        peer.sendall(b"".join(wire.pack_message(message) for message in messages))
    return hear(peer)


@contextlib.contextmanager
def shipping(port: Port, far: Any, count: int = 1500, pause_s: float = 0.002, patience_s: float = 40) -> Iterator[None]:
    """Let a job of another home log through its own hub during the block; then check that all arrived, once."""
    environ = {**os.environ, "VEDETTE_HOME": str(far), "VEDETTE_HUB": port.connect_string}
    script = far / "job.py"
    script.write_text("if True:" + JOB)
    job = subprocess.Popen(
        [sys.executable, str(script), str(count), str(pause_s)], env=environ, stdout=subprocess.PIPE, text=True
    )
    try:
        assert job.stdout is not None
        job.stdout.readline()
        eventually(lambda: ask(port.home, wire.AskHealth()).links, 20)
        yield
        assert job.wait(900) == 0
        eventually(
            lambda: any(is_whole(run, count) for run in read_runs(port.home) if "count" in run.config), patience_s
        )
    finally:
        job.kill()
        job.communicate()
        end_hub(Home(str(far)))
