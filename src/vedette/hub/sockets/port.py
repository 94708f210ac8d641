"""The TCP port of a hub. Strangers are limited before their TLS handshake, so that they cost little."""

import asyncio
import contextlib
import itertools
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from vedette import address as addresses
from vedette import certificate, host_port, tokens
from vedette.address import Address
from vedette.errors import SettingError
from vedette.gate import Gate
from vedette.home import Home
from vedette.settings import Settings

_HANDSHAKE_S = 5.0
_SHUTDOWN_S = 1.0
_PAUSE_S = 0.1
_LOOK_S = 0.5  # how often we look for those whose time is over

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Endpoint(NamedTuple):
    """Where a hub listens for other hubs, and the address that these are given."""

    bind: Address
    advertised: Address
    context: ssl.SSLContext | None


def endpoint_of(home: Home, settings: Settings, *, tls: bool = True) -> Endpoint | None:
    """Work out where to listen; raise SettingError when that would not be safe."""
    if not settings.hub.address:
        return None
    bind = addresses.parse(settings.hub.address, listening=True)
    if bind.path:  # another path for its own socket
        return Endpoint(bind, bind, None)
    wide = not bind.is_local
    if wide and not tls and not settings.hub.trusted_network:
        raise SettingError(
            f"{bind} can be reached from other machines, and without TLS others on the network could read the token:"
            " leave out --no-tls, or set hub.trusted_network=true if you trust the network"
        )
    context, fingerprint = certificate.serving(home) if wide and tls else (None, "")
    host = bind.host if bind.host not in ("", "0.0.0.0", "::") else host_port.guess_host()  # noqa: S104 - not bound to
    port = bind.port
    if settings.hub.advertise:
        text = settings.hub.advertise
        advertised = addresses.parse(text if ":" in text else f"{text}:{port}")
        host, port = advertised.host, advertised.port or port
    return Endpoint(bind, Address("", host, port, tokens.hub_token(home), fingerprint), context)


class Port:
    """Accepts connections, and hands them on once their handshake is done."""

    def __init__(self, endpoint: Endpoint, own: str, talk: Talk, most: int, refused: Callable[[], None]) -> None:
        """`most`: connections that have not shown a token; `refused` counts those that had to go.

        `own`: the hub's Unix socket.
        """
        self._endpoint = endpoint
        self._own = own
        self._talk = talk
        self._most = most
        self._refused = refused
        self._gate: Gate | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> int:
        """Begin to listen; return the port, 0 for a Unix socket. Raise OSError when that fails."""
        bind = self._endpoint.bind
        if bind.path:
            addresses.name_socket(bind.path, self._own)
            return 0
        if bind.host:
            family, *_, address = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM)[0]
            bound = socket.create_server((str(address[0]), bind.port), family=family)
        else:
            try:
                bound = socket.create_server(("", bind.port), family=socket.AF_INET6, dualstack_ipv6=True)
            except (OSError, ValueError):  # no IPv6 here
                bound = socket.create_server(("", bind.port))
        self._gate = Gate(bound, self._most, self._refused)
        self._gate.listen()
        self._gate.setblocking(False)
        self._start(self._accept(self._gate))
        self._start(self._sweep(self._gate))
        return int(self._gate.getsockname()[1])

    def admit(self, connection: socket.socket) -> None:
        """Note that a connection has shown a token, or is gone."""
        if self._gate is not None and connection.fileno() >= 0:
            self._gate.release(connection.fileno())

    def _start(self, doing: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, gate: Gate) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count():
            if number % gate.at_once == 0:
                await asyncio.sleep(0)  # sock_accept does not let others in while somebody waits
            try:
                peer, _ = await loop.sock_accept(gate)
            except OSError:  # too many open files, for example
                await asyncio.sleep(_PAUSE_S)
                continue
            self._start(self._handshake(peer))

    async def _sweep(self, gate: Gate) -> None:
        """End those who have not shown a token in time, the handshake of TLS included."""
        while True:
            await asyncio.sleep(_LOOK_S)
            gate.sweep()

    async def _handshake(self, peer: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        context = self._endpoint.context
        patience = {"ssl_handshake_timeout": _HANDSHAKE_S, "ssl_shutdown_timeout": _SHUTDOWN_S} if context else {}
        reader = asyncio.StreamReader(limit=1 << 18)
        try:
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.connect_accepted_socket(
                    lambda: asyncio.StreamReaderProtocol(reader, self._talk), peer, ssl=context, **patience
                )
                return
        except BaseException:
            peer.close()
            raise
        peer.close()

    def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        if self._gate is not None:
            self._gate.close()
        path = self._endpoint.bind.path
        with contextlib.suppress(OSError):
            if path and os.readlink(path) == self._own:
                os.unlink(path)
