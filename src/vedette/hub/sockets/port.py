"""The TCP port of a hub: who connects is counted before anything else, so that strangers cost little."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from vedette.errors import SettingError
from vedette.home import Home
from vedette.hub.peers import address as addresses
from vedette.hub.peers.address import Address
from vedette.settings import Settings

_HANDSHAKE_S = 5.0
_SHUTDOWN_S = 1.0
_PAUSE_S = 0.1

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listening(NamedTuple):
    """Where a hub listens for others, and how they are told to come."""

    bind: Address
    told: Address
    context: ssl.SSLContext | None


def listening(home: Home, settings: Settings, *, tls: bool = True) -> Listening | None:
    """Work out where to listen; raise SettingError when that would not be safe."""
    if not settings.hub.address:
        return None
    bind = addresses.parse(settings.hub.address, listening=True)
    if bind.path:  # another path for its own socket
        return Listening(bind, bind, None)
    wide = not bind.is_local
    if wide and not tls and not settings.hub.trusted_network:
        raise SettingError(
            f"{bind} can be reached from other machines, and without TLS anybody on the way could read the token:"
            " leave out --no-tls, or set hub.trusted_network=true if you trust the network"
        )
    context, fingerprint = addresses.serving(home) if wide and tls else (None, "")
    host = bind.host if bind.host not in ("", "0.0.0.0", "::") else addresses.guess_host()  # noqa: S104 - not bound to
    port = bind.port
    if settings.hub.advertise:
        text = settings.hub.advertise
        told = addresses.parse(text if ":" in text else f"{text}:{port}")
        host, port = told.host, told.port or port
    return Listening(bind, Address("", host, port, addresses.token_of(home), fingerprint), context)


class Listener:
    """Accepts connections, and hands them on once their handshake is done."""

    def __init__(self, listening: Listening, own: str, talk: Talk, most: int, turned_away: Callable[[], None]) -> None:
        """`most`: how many handshakes may go on at once; more are turned away unheard. `own`: the hub's own socket."""
        self._listening = listening
        self._own = own
        self._turned_away = turned_away
        self._talk = talk
        self._most = most
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._shaking = 0

    def open(self) -> int:
        """Begin to listen; return the port. Raise OSError when that cannot be done."""
        bind = self._listening.bind
        if bind.path:
            addresses.name_socket(bind.path, self._own)
            return 0
        if bind.host:
            family, *_, address = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server((str(address[0]), bind.port), family=family)
        else:
            try:
                self._socket = socket.create_server(("", bind.port), family=socket.AF_INET6, dualstack_ipv6=True)
            except (OSError, ValueError):  # no IPv6 here
                self._socket = socket.create_server(("", bind.port))
        self._socket.setblocking(False)
        self._start(self._accept(self._socket))
        return int(self._socket.getsockname()[1])

    def _start(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listener)
            except OSError:  # too many open files, say
                await asyncio.sleep(_PAUSE_S)
                continue
            if self._shaking >= self._most:
                peer.close()
                self._turned_away()
                continue
            self._shaking += 1
            self._start(self._shake_hands(peer))

    async def _shake_hands(self, peer: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        context = self._listening.context
        patience = {"ssl_handshake_timeout": _HANDSHAKE_S, "ssl_shutdown_timeout": _SHUTDOWN_S} if context else {}
        reader = asyncio.StreamReader(limit=1 << 18)
        try:
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.connect_accepted_socket(
                    lambda: asyncio.StreamReaderProtocol(reader, self._talk), peer, ssl=context, **patience
                )
        finally:
            self._shaking -= 1

    def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        if self._socket is not None:
            self._socket.close()
        path = self._listening.bind.path
        with contextlib.suppress(OSError):
            if path and os.readlink(path) == self._own:
                os.unlink(path)
