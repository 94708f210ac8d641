"""The hub as it runs: its sockets and relays, in an event loop, around the thread that keeps."""

import asyncio
import contextlib
import functools
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from vedette import address as addresses
from vedette import host_port, kernel, tokens, wire
from vedette.address import Address
from vedette.errors import HubError, SettingError
from vedette.fileio import write_private
from vedette.home import Home
from vedette.hub import health
from vedette.hub.keeper_thread import KeeperThread
from vedette.hub.listeners import Listeners
from vedette.hub.log import Log
from vedette.hub.peers.blob_sender import BlobSender
from vedette.hub.peers.relay import Relay, Session
from vedette.hub.sockets.port import Endpoint, Port
from vedette.hub.sockets.server import Server
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.sweeper import Sweeper
from vedette.hub.turn.takein import TakeIn
from vedette.settings import Settings
from vedette.store import Store
from vedette.version import __version__

_LISTEN_AGAIN_S = 5.0
T = TypeVar("T")


class Service:
    """The hub of a home: what `HubHandle` promises, and the sockets that use it."""

    def __init__(
        self,
        home: Home,
        store: Store,
        settings: Settings,
        lock: int,
        sweeper: Sweeper,
        log: Log,
        endpoint: Endpoint | None = None,
        pids: int | None = None,
    ) -> None:
        """Serve this home, of which `lock` is held; `endpoint` says where other hubs may connect.

        `pids`: the socket that processes send their pidfds to.
        """
        self._home = home
        self._lock = lock
        self._settings = settings
        self._sweeper = sweeper
        self._log = log
        self._endpoint = endpoint
        self._listens = self._not_listening = ""
        self._home_id = tokens.home_id(home)
        self.keeper = Keeper(home, store, settings, pids, self._dial, measure=True, holds=lambda: home.holds(lock))
        self._thread = KeeperThread(home, lock, self.keeper, sweeper, settings.hub, log, pids)
        self._born = time.monotonic()
        self._relaying: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        fingerprint = endpoint.advertised.fingerprint if endpoint is not None else ""
        self._server = Server(self, settings.limits, home, fingerprint)
        self.keeper.on_safe = self._acknowledge
        self._listeners = Listeners(home, settings.hub.listeners(), self._read_own_spools, log)

    async def serve(self, *, quiet: bool, awaited: bool | None = None) -> None:
        """Answer on the sockets until the keeper's thread ends.

        `quiet`: print nothing. `awaited`: where it cannot listen, it ends with an error; else it tries again.
        """
        awaited = not quiet if awaited is None else awaited
        self._loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.leave)
        # All names below are those in this very directory, even if it is removed and another one made in its place.
        root = os.open(self._home.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not self._home.holds(self._lock):  # the socket that is there now is another hub's
                raise HubError(f"{self._home.root} was removed while its hub began")
            _unlink(root, self._home.socket, self._home.connect)  # a hub that was killed leaves them
            await self._serve(root, ended, quiet=quiet, awaited=awaited)
        finally:
            os.close(root)

    async def _serve(self, root: int, ended: asyncio.Event, *, quiet: bool, awaited: bool) -> None:
        server = await self._open_socket(root)
        port = None
        if self._endpoint is not None:
            most = max(8, self._settings.limits.connections // 8)
            port = Port(self._endpoint, self._home.socket, self._server.tcp, most, self._server.refuse_connection)
            self._server.admit = port.admit
            await self._open(port, self._endpoint, quiet=quiet, awaited=awaited)
        if awaited:
            await self._open_listeners(quiet=quiet)
        self._spawn(self._listeners.tend())
        clock = self.keeper.watcher.clock
        self._loop.add_reader(clock.fileno(), clock.note)
        if not quiet:
            text = f"vedette hub {__version__} keeps {self._home.root}, pid {os.getpid()}; Ctrl-C ends it"
            print(text, flush=True)  # noqa: T201 - the user asked
        self._thread.start(self._server.publish, ended.set, stays=self._endpoint is not None or bool(self._listeners))
        await ended.wait()
        self._loop.remove_reader(clock.fileno())
        server.close()
        self._listeners.close()
        if port is not None:
            port.close()
        for task in self._relaying:
            task.cancel()
        _unlink(root, self._home.socket, self._home.pids, *([self._home.connect] if self._endpoint is not None else []))
        self._thread.join()

    async def _open_socket(self, root: int) -> asyncio.Server:
        """Listen for the processes of this machine. The socket is for its owner alone from its birth."""
        listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            listening.bind(f"/proc/self/fd/{root}/{os.path.basename(self._home.socket)}")
        except OSError as error:
            listening.close()
            raise HubError(f"{self._home.socket} cannot be listened on: {error.strerror}") from None
        finally:
            os.umask(before)
        return await asyncio.start_unix_server(self._server.unix, sock=listening)

    async def _open(self, port: Port, endpoint: Endpoint, *, quiet: bool, awaited: bool) -> None:
        """Listen for other hubs, and say how they connect. A hub that no user waits for tries again if that fails."""
        try:
            number = port.open()
        except (OSError, SettingError) as error:
            self._cannot_listen(f"{endpoint.bind}", error, awaited=awaited)
            self._loop.call_later(
                _LISTEN_AGAIN_S, lambda: self._spawn(self._open(port, endpoint, quiet=quiet, awaited=False))
            )
            return
        told = endpoint.advertised
        if not told.path:  # the token may have been replaced since this hub began
            told = Address("", told.host, told.port or number, tokens.hub_token(self._home), told.fingerprint)
        self._listens, self._not_listening = str(told), ""
        write_private(self._home.connect, told.connect_string().encode() + b"\n", flush=False)
        if not quiet:
            print(_invitation(told, self._home.connect), flush=True)  # noqa: T201 - the user asked

    async def _open_listeners(self, *, quiet: bool) -> None:
        """Start the listeners for a user who waits, and say where their clients send to."""
        try:
            found = await self._listeners.open()
        except HubError:
            self._listeners.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._home.socket)
            raise
        for name, where in found if not quiet else ():
            print(f"{name}'s clients send to {where}", flush=True)  # noqa: T201 - the user asked

    async def _read_own_spools(self) -> None:
        """Return when all that this hub and its helpers have said until now is in the store."""
        await self.seal(wire.NO_RUN)

    def _cannot_listen(self, where: str, error: Exception, *, awaited: bool) -> None:
        """Say in the log and to `doctor` that an address cannot be listened on; where a user waits, end with that."""
        self._not_listening = host_port.cannot_listen(where, error)
        if awaited:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._home.socket)
            raise HubError(self._not_listening) from None
        self._log.complain(self._not_listening)

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # HubHandle: what the sockets need.

    async def seal(self, run: str, within_s: float = math.inf) -> bool:
        """Have all that a run has logged put into the store; tell whether that was done in time."""
        return await self._thread.seal(run, within_s)

    async def in_keeper(self, act: Callable[[Keeper], T], relay: str = "") -> T:
        """Do something in the keeper's thread, between two turns. `relay`: who asks for it, if it is one."""
        return await self._thread.act(act, relay)

    def take_in(self, path: str, tell: Callable[[], object]) -> TakeIn:
        """Have a path taken in; `tell` is called, in the loop, when that is over."""
        return self._thread.take_in(path, tell)

    def purged(self) -> None:
        """Take note that something was removed for good, and is to be deleted."""
        self._thread.purged()

    def leave(self) -> None:
        """End soon. The listeners end first, so that the keeper's last turn reads all that they have answered."""
        self._listeners.close()
        self._thread.stop()

    def health(self) -> wire.Health:
        """Return how the hub is."""
        return health.report(
            self.keeper,
            self._sweeper,
            self._server,
            up_s=time.monotonic() - self._born,
            listens=self._listens,
            not_listening=self._not_listening or self._listeners.trouble,
            refused=self._listeners.refused,
        )

    # Other hubs. `_dial` and `_acknowledge` are called in the keeper's thread.

    def _dial(self, upstream: str) -> Relay:
        """Begin to relay to another hub."""
        address = addresses.parse(upstream)
        ask = functools.partial(self._asked_by_upstream, upstream)
        sender = BlobSender(self.keeper.blob_queue, self.keeper.blobs, upstream)
        trusted = self._settings.hub.trusted_network
        relay = Relay(address, self._home, kernel.host(), ask, sender, trusted=trusted)
        self._loop.call_soon_threadsafe(self._run_relay, relay)
        return relay

    def _run_relay(self, relay: Relay) -> None:
        self._relaying.add(asyncio.ensure_future(relay.run(self._thread.alarm.set)))

    def _acknowledge(self, safe: dict[str, int], refused: dict[str, dict[str, str]]) -> None:
        broken = dict(self.keeper.inboxes.broken)
        self._loop.call_soon_threadsafe(self._server.downstreams.acknowledge, safe, refused, broken)

    def _asked_by_upstream(self, upstream: str, session: Session, message: wire.Message) -> None:
        self._spawn(self._do_for_upstream(upstream, session, message))

    async def _do_for_upstream(self, upstream: str, session: Session, message: wire.Message) -> None:
        if isinstance(message, wire.Seal):
            await self._server.downstreams.seal(message)
            with contextlib.suppress(HubError):  # the upstream shows what it has
                await self.seal(message.run, message.within_s)  # what is meant for the upstream is shipped by then
            session.send(wire.Done(id=message.id))
        if isinstance(message, wire.Order):
            await self._server.order(message, upstream, below=upstream == self.keeper.inboxes.onward)


def _unlink(directory: int, *paths: str) -> None:
    """Remove files of a directory, by its descriptor, if they are there."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.basename(path), dir_fd=directory)


def _invitation(told: Address, path: str) -> str:
    """Say who can connect, and how; `path` is the file that has it, too."""
    who = "jobs of other homes on this machine connect by"
    if not told.path:
        who = "only your jobs on this machine can connect, by" if told.is_local else "other machines connect by"
    lines = [f"{who}\n\n  export VEDETTE_HUB={told.connect_string()}\n"]
    if not told.path:
        lines.append(f"(also in {path}; whoever has it can send and ask: keep it to yourself)")
        if told.is_local:
            lines.append(f"(for other machines and users, too: vedette hub --address :{told.port})")
    return "\n".join(lines)
