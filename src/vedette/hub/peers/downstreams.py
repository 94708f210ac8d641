"""Hubs that relay to this one: what they ship is taken in, what is safe is acknowledged, and orders go down."""

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable

from vedette import wire
from vedette.errors import FormatError, HubError
from vedette.hub.handle import HubHandle
from vedette.hub.peers.blob_receiver import BlobReceiver
from vedette.hub.peers.inbox import Inbox
from vedette.hub.sockets.connection import Connection
from vedette.hub.turn import requests
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.questions import ANSWER
from vedette.model import new_id

_SILENCE_S = 60.0  # a relay says every few seconds that it lives
_SEAL_BELOW_S = 3.0
_PAUSE_S = 0.2
_MOST_ORIGINS = 100_000  # of one relay that answers find their way to


class Downstream:
    """A hub that relays to this one."""

    def __init__(self, host: str, relay: str, inbox: Inbox, writer: asyncio.StreamWriter) -> None:
        self.host = host
        self.relay = relay
        self.origins: dict[str, None] = {}  # that it speaks for, the newest last
        self.inbox = inbox
        self.writer = writer
        self.skew_s: float | None = None
        self.through: set[str] = set()  # the homes that it relays for
        self.sealed: dict[str, asyncio.Future[None]] = {}  # by the id of the Seal that was passed on
        self.taking: asyncio.Task[None] | None = None  # what it has sent of a blob, or asked of some

    def send(self, message: wire.Message) -> None:
        """Send a message down."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self.writer.write(wire.pack_message(message))


class Downstreams:
    """All the hubs that relay to this one now."""

    def __init__(self, hub: HubHandle, inbox_bytes: int, home_id: str, refused: collections.Counter[str]) -> None:
        """Nobody has come yet; `refused` counts what is turned away."""
        self.open: dict[str, Downstream] = {}  # by the name of the inbox
        self._hub = hub
        self._inbox_bytes = inbox_bytes
        self._home_id = home_id
        self._refused = refused
        self._blobs = BlobReceiver(hub.keeper.blobs, refused)
        self._seals: collections.deque[str] = collections.deque(maxlen=1000)  # seen, and passed on

    async def serve(self, introduction: wire.Introduce, connection: Connection) -> None:
        """Take in what another hub ships, until it leaves."""
        inbox = await self._hub.in_keeper(lambda keeper: keeper.inboxes.open(self._inbox_bytes))
        link = self.open[inbox.name] = Downstream(introduction.host[:200], introduction.relay, inbox, connection.writer)
        try:
            self._route(link, introduction.origins)
            await self._introduce(introduction, connection)
            while True:
                payload = await asyncio.wait_for(connection.read(wire.MAX_SHIPMENT), _SILENCE_S)
                message = wire.unpack_message(payload)
                if isinstance(message, wire.Shipment):
                    await self._room(inbox)
                    inbox.append(payload)
                elif isinstance(message, wire.Alive):
                    connection.say(wire.Clock(message.t, time.time_ns()))
                    link.skew_s = message.skew_s
                    link.through = {introduction.relay, *message.through}
                    if self._home_id in link.through:
                        raise HubError("hubs relay in a circle, so that nobody keeps anything: see hub.onward of each")
                    await self._hub.in_keeper(_noting(message, self._homes()))
                elif isinstance(message, wire.Introduce):
                    self._route(link, message.origins)
                    await self._introduce(message, connection)
                elif isinstance(message, wire.AskBlobs | wire.Piece):
                    if link.taking is not None and not link.taking.done():
                        raise FormatError("a relay does not wait for what it has asked of blobs")
                    link.taking = asyncio.ensure_future(self._take(message, link))  # shipments do not wait for it
                elif isinstance(message, wire.Done):
                    if (waiting := link.sealed.pop(message.id, None)) is not None:
                        _resolve(waiting)
                else:
                    raise FormatError(f"a {type(message).__name__} is not for the hub that keeps")
        except OSError as error:
            raise HubError(str(error)) from None
        finally:
            del self.open[inbox.name]
            if link.taking is not None:
                link.taking.cancel()
            for waiting in link.sealed.values():
                _resolve(waiting)
            inbox.close()
            with contextlib.suppress(HubError):  # the hub is leaving: its next one finds the inbox
                await asyncio.shield(self._hub.in_keeper(_leaving(inbox.name, self._homes())))

    async def _take(self, message: wire.AskBlobs | wire.Piece, link: Downstream) -> None:
        """Take in a piece of a blob, or say how much of blobs is here."""
        try:
            if isinstance(message, wire.Piece):
                link.send(await self._blobs.take(message, link.relay))
            else:
                link.send(await self._blobs.have(message, link.relay))
        except OSError:  # a full disk, say: the relay is not told that anything is here, and comes again
            link.send(wire.HasBlobs())

    def _homes(self) -> set[str]:
        """Return the homes of all hubs that relay through this one."""
        return {home for link in self.open.values() for home in link.through}

    def _route(self, link: Downstream, origins: list[str]) -> None:
        """Take note that a relay speaks for origins, unless another that is here did so first: answers go there."""
        others = [other.origins for other in self.open.values() if other.relay != link.relay]
        link.origins |= dict.fromkeys(name for name in origins if not any(name in theirs for theirs in others))
        while len(link.origins) > _MOST_ORIGINS:
            del link.origins[next(iter(link.origins))]

    async def _introduce(self, message: wire.Introduce, connection: Connection) -> None:
        while (  # noqa: ASYNC110 - the keeper's thread has no event to give
            marks := await self._hub.in_keeper(lambda keeper: requests.offsets(keeper, message.origins))
        ) is None:
            await asyncio.sleep(_PAUSE_S)
        connection.say(wire.Marks(marks))
        await connection.writer.drain()

    async def _room(self, inbox: Inbox) -> None:
        """Wait until an inbox has room: what is not read stays with its sender."""
        while inbox.is_full():  # noqa: ASYNC110 - it is the keeper's thread that makes room
            await asyncio.sleep(_PAUSE_S)

    def acknowledge(self, safe: dict[str, int], broken: dict[str, str]) -> None:
        """Tell those who relay what is safe here; `safe` and `broken` are by the name of the inbox."""
        for name, link in list(self.open.items()):
            if (seq := safe.get(name)) is not None:
                link.send(wire.Kept(seq))
            if (why := broken.get(name)) is not None:
                self._refused["malformed"] += 1
                link.send(wire.Refused(why))
                link.writer.close()

    async def seal_below(self, seal: wire.Seal) -> list[str]:
        """Have the hubs below ship what they have; return those that did not do so in time."""
        if seal.id in self._seals:
            return []  # it has come round in a circle
        passed = wire.Seal(seal.run, seal.id or new_id(8))
        self._seals.append(passed.id)
        waiting: list[tuple[Downstream, asyncio.Future[None]]] = []
        for link in self.open.values():
            future = link.sealed[passed.id] = asyncio.get_running_loop().create_future()
            link.send(passed)
            waiting.append((link, future))
        if waiting:
            await asyncio.wait([future for _, future in waiting], timeout=_SEAL_BELOW_S)
        for link, _ in waiting:
            link.sealed.pop(passed.id, None)
        return sorted(link.host for link, future in waiting if not future.done())

    def pass_on(self, order: wire.Order, left_s: float) -> int:
        """Pass a command on to the hubs that it is for; return to how many."""
        links = list(self.open.values())
        if order.command.verb == ANSWER:  # it may be a password: nobody else's hub is told
            asks = order.command.to.rpartition("/")[2]  # a process is named after its origin
            links = [link for link in links if asks in link.origins]
        for link in links:
            link.send(wire.Order(order.command, left_s))
        return len(links)


def _noting(message: wire.Alive, homes: set[str]) -> Callable[[Keeper], None]:
    def note(keeper: Keeper) -> None:
        keeper.upstreams.through = homes
        requests.note_alive(keeper, message)

    return note


def _leaving(inbox: str, homes: set[str]) -> Callable[[Keeper], None]:
    def leave(keeper: Keeper) -> None:
        keeper.upstreams.through = homes
        keeper.inboxes.disconnected(inbox)

    return leave


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
