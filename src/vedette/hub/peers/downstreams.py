"""The hubs that relay to this one: their shipments go to inboxes and are acknowledged; orders are passed down."""

import asyncio
import collections
import contextlib
import itertools
import time
from collections.abc import Callable
from typing import TypeVar

from vedette import wire
from vedette.errors import FormatError, HubError
from vedette.hub.handle import HubHandle
from vedette.hub.peers.blob_receiver import BlobReceiver, Sender
from vedette.hub.peers.inbox import Inbox
from vedette.hub.sockets.connection import Connection
from vedette.hub.turn import requests
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.orders import ANSWER
from vedette.ids import new_id, origin_of, run_of
from vedette.store import Store

_SILENCE_S = 60.0  # a relay that sends nothing for so long is gone: it sends Alive every few seconds
_SEAL_S = 3.0  # how long a seal waits for downstreams
_MOST_ASKED = 100
_PAUSE_S = 0.2
_MOST_INTRODUCED, _INTRODUCED_AT_ONCE = 20_000, 1000  # origins, in one message and in one look at the store
_MOST_UNREAD = 4 << 20  # bytes that a relay leaves unread; the answer to what introduces so many origins is shorter
_MOST_HOMES, _MOST_ALIVE = 100, 20_000  # homes and origins in one heartbeat
_LONGEST_HOME = 100
_MOST_S = 1e9  # an age or a skew beyond is none
_LINGER_S = 10.0  # so long a link that has ended may still read why

_REVOKED = "its token was revoked: ask for a new one"
T = TypeVar("T")


class Downstream:
    """The connection of one hub that relays to this one."""

    def __init__(self, host: str, connection: Connection, inbox: Inbox) -> None:
        self.host = host
        self.relay = connection.relay  # its id
        self.holder = connection.holder  # whose token it uses
        self.inbox = inbox
        self.writer = connection.writer
        self._connection = connection
        self.skew_s: float | None = None
        self.through: set[str] = set()  # the homes that it relays for
        self.sealed: dict[str, asyncio.Future[None]] = {}  # by the id of the Seal that was passed on
        self.asked: collections.deque[str] = collections.deque(maxlen=_MOST_ASKED)  # the last of them: it may be late
        self.late = False  # it has not answered the last one in time: nobody waits for it until it answers again
        self.blob_task: asyncio.Task[None] | None = None  # answers its last message about blobs

    def send(self, message: wire.Message) -> None:
        """Send a message down. A relay that reads nothing of what it is sent is gone, or fills our memory: it ends."""
        if self.writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.writer.transport.abort()
            return
        with contextlib.suppress(ConnectionError, RuntimeError):
            self.writer.write(wire.pack_message(message))

    def is_admitted(self) -> bool:
        """Tell whether its token is still good; if not, end it: it may be silent, and say nothing for a minute."""
        try:
            if self._connection.is_admitted():
                return True
        except OSError:  # it cannot be told now
            return False
        self.send(wire.Refused(_REVOKED))
        self.writer.close()
        return False


class Downstreams:
    """All the hubs that relay to this one now."""

    def __init__(self, hub: HubHandle, inbox_bytes: int, home_id: str, refused: collections.Counter[str]) -> None:
        """Begin without connections; `refused` counts what is refused, by reason."""
        self.open: dict[str, Downstream] = {}  # by the name of the inbox
        self._hub = hub
        self._inbox_bytes = inbox_bytes
        self._home_id = home_id
        self._refused = refused
        self._blobs = BlobReceiver(hub.keeper.blobs, refused, self._in_store)
        self._seals: collections.deque[str] = collections.deque(maxlen=1000)  # ids of those that were passed on

    async def serve(self, introduction: wire.Introduce, connection: Connection) -> None:
        """Write what another hub ships to an inbox, until it disconnects."""
        host, relay, holder = introduction.host[:200], connection.relay, connection.holder
        if not relay:
            raise HubError("this relay does not say who it is: upgrade vedette on its machine")

        def begin(keeper: Keeper) -> Inbox:
            keeper.trust.connected(relay, holder, host)
            return keeper.inboxes.open(relay, self._inbox_bytes)

        inbox = await self._hub.in_keeper(begin, relay)
        downstream = self.open[inbox.name] = Downstream(host, connection, inbox)
        try:
            await self._introduce(introduction, downstream)
            while True:
                async with asyncio.timeout(_SILENCE_S):  # never wait_for: see relay.py
                    payload = await connection.read(wire.MAX_SHIPMENT)
                if not connection.is_admitted():
                    raise HubError(_REVOKED)
                message = wire.unpack_message(payload)
                if isinstance(message, wire.Shipment):
                    await self._wait_for_room(inbox)
                    inbox.append(payload)
                elif isinstance(message, wire.Alive):
                    downstream.send(wire.Clock(message.t, time.time_ns()))
                    message = _sound(message)
                    downstream.skew_s = message.skew_s
                    through = {introduction.relay, *message.through}
                    if self._home_id in through or await self._hub.in_keeper(_leads_back(through), relay):
                        raise HubError("hubs relay in a circle, so that nobody keeps anything: see hub.onward of each")
                    if through != downstream.through:
                        downstream.through = through
                        await self._hub.in_keeper(_relaying_for(self._homes()), relay)
                    await self._hub.in_keeper(_noting_alive(message, relay), relay)
                elif isinstance(message, wire.Introduce):
                    await self._introduce(message, downstream)
                elif isinstance(message, wire.AskBlobs | wire.Piece):
                    if downstream.blob_task is not None and not downstream.blob_task.done():
                        raise FormatError("a relay sends messages about blobs without waiting for the answers")
                    downstream.blob_task = asyncio.ensure_future(
                        self._answer_blobs(message, downstream)
                    )  # shipments do not wait for it
                elif isinstance(message, wire.Done):
                    if message.id in downstream.asked:
                        downstream.asked.remove(message.id)
                        downstream.late = False
                    if (waiting := downstream.sealed.pop(message.id, None)) is not None:
                        _resolve(waiting)
                else:
                    raise FormatError(f"an upstream hub does not accept a {type(message).__name__}")
                del payload, message  # they may be large, and the next one may come much later
        except OSError as error:
            raise HubError(str(error)) from None
        finally:
            del self.open[inbox.name]
            if downstream.blob_task is not None:
                downstream.blob_task.cancel()
            for waiting in downstream.sealed.values():
                _resolve(waiting)
            inbox.close()
            asyncio.get_running_loop().call_later(_LINGER_S, connection.writer.transport.abort)
            with contextlib.suppress(HubError):  # this hub is leaving: the next one finds the inbox
                await asyncio.shield(self._hub.in_keeper(_leaving(inbox.name, self._homes()), relay))

    async def _answer_blobs(self, message: wire.AskBlobs | wire.Piece, downstream: Downstream) -> None:
        """Receive a piece of a blob, or say how much of blobs is here."""
        sender = Sender(downstream.holder, downstream.relay)
        try:
            if isinstance(message, wire.Piece):
                downstream.send(await self._blobs.receive(message, sender))
            else:
                downstream.send(await self._blobs.offsets_of(message, sender))
        except (OSError, HubError):  # a full disk, for example: the relay is told that nothing is here, and tries again
            downstream.send(wire.HasBlobs())

    async def _in_store(self, act: Callable[[Store], T], relay: str) -> T:
        return await self._hub.in_keeper(lambda keeper: act(keeper.store), relay)

    def _homes(self) -> set[str]:
        """Return the homes of all hubs that relay through this one."""
        return {home for downstream in self.open.values() for home in downstream.through}

    async def _introduce(self, message: wire.Introduce, downstream: Downstream) -> None:
        names = list(dict.fromkeys(message.origins))
        if len(names) > _MOST_INTRODUCED:
            raise FormatError(f"a relay introduces more than {_MOST_INTRODUCED} origins at once")
        answer = wire.Marks({}, {})
        for at in range(0, max(1, len(names)), _INTRODUCED_AT_ONCE):
            some = names[at : at + _INTRODUCED_AT_ONCE]
            while (  # noqa: ASYNC110 - the keeper's thread has no event to give
                marks := await self._hub.in_keeper(_introducing(some, downstream.relay), downstream.relay)
            ) is None:
                await asyncio.sleep(_PAUSE_S)
            answer.marks.update(marks.marks)
            answer.refused.update(marks.refused)
        downstream.send(answer)
        async with asyncio.timeout(_SILENCE_S):
            await downstream.writer.drain()

    async def _wait_for_room(self, inbox: Inbox) -> None:
        """Wait until an inbox has room. Meanwhile its connection is not read, so the sender waits, too."""
        while inbox.is_full():  # noqa: ASYNC110 - it is the keeper's thread that makes room
            await asyncio.sleep(_PAUSE_S)

    def acknowledge(self, safe: dict[str, int], refused: dict[str, dict[str, str]], broken: dict[str, str]) -> None:
        """Acknowledge what is safe, tell what is refused, and end connections that are broken; all are by inbox."""
        for name, downstream in list(self.open.items()):
            if not_accepted := refused.get(name):  # first, so that its relay does not take it for kept
                self._refused["another's"] += len(not_accepted)
                downstream.send(wire.Marks({}, not_accepted))
            if (seq := safe.get(name)) is not None:
                downstream.send(wire.Kept(seq))
            if (why := broken.get(name)) is not None:
                self._refused["malformed"] += 1
                downstream.send(wire.Refused(why))
                downstream.writer.close()

    async def seal(self, seal: wire.Seal) -> list[str]:
        """Have all downstreams ship what they have; return the hosts of those that did not do so in time."""
        if seal.id in self._seals:
            return []  # hubs relay in a circle, and it has come back
        downstreams = await self._meant(seal.run)
        passed = wire.Seal(seal.run, seal.id or new_id(8))
        self._seals.append(passed.id)
        waiting: list[tuple[Downstream, asyncio.Future[None]]] = []
        for downstream in downstreams:
            if not downstream.is_admitted():
                continue
            downstream.asked.append(passed.id)
            future = downstream.sealed[passed.id] = asyncio.get_running_loop().create_future()
            downstream.send(passed)
            waiting.append((downstream, future))
        if expected := [future for downstream, future in waiting if not downstream.late]:
            await asyncio.wait(expected, timeout=_SEAL_S)
        for downstream, future in waiting:
            downstream.sealed.pop(passed.id, None)
            downstream.late = downstream.late or not future.done()
        return sorted({downstream.host for downstream, future in waiting if not future.done()})

    async def _meant(self, span: str) -> list[Downstream]:
        """Return the downstreams that may have something of a run: those of its holder. Without a run, all."""
        if not span:
            return list(self.open.values())
        holder = await self._hub.in_keeper(lambda keeper: keeper.trust.holder_of(run_of(span)))
        return [downstream for downstream in self.open.values() if downstream.holder == holder]

    async def pass_on(self, order: wire.Order, left_s: float) -> int:
        """Pass a command down to the hubs that it may be for; return to how many."""
        if order.command.verb == ANSWER:  # it may be a password: it goes only to the hub of the process that asked
            asks = origin_of(order.command.to)
            relay = await self._hub.in_keeper(lambda keeper: keeper.trust.relay_of(asks))
            downstreams = [downstream for downstream in self.open.values() if downstream.relay == relay]
        else:
            downstreams = await self._meant(order.command.to)
        downstreams = [downstream for downstream in downstreams if downstream.is_admitted()]
        for downstream in downstreams:
            downstream.send(wire.Order(order.command, left_s))
        return len(downstreams)


def _introducing(origins: list[str], relay: str) -> Callable[[Keeper], wire.Marks | None]:
    return lambda keeper: requests.introduce(keeper, origins, relay)


def _leads_back(homes: set[str]) -> Callable[[Keeper], bool]:
    """Tell whether the next hub relays through one of these homes. It is not told so, or it would refuse us all."""
    return lambda keeper: keeper.upstreams.next_home() in homes


def _relaying_for(homes: set[str]) -> Callable[[Keeper], None]:
    return lambda keeper: setattr(keeper.upstreams, "through", homes)


def _noting_alive(message: wire.Alive, relay: str) -> Callable[[Keeper], None]:
    return lambda keeper: requests.note_alive(keeper, message, relay)


def _sound(message: wire.Alive) -> wire.Alive:
    """Return a heartbeat without what is no length of time, cut to what one relay can have."""
    return wire.Alive(
        message.t,
        _lengths(message.ages),
        message.skew_s if message.skew_s is not None and abs(message.skew_s) <= _MOST_S else None,
        _lengths(message.skews),
        [home for home in message.through if len(home) <= _LONGEST_HOME][:_MOST_HOMES],
    )


def _lengths(seconds: dict[str, float]) -> dict[str, float]:
    some = itertools.islice(seconds.items(), _MOST_ALIVE)
    return {name: length for name, length in some if abs(length) <= _MOST_S}


def _leaving(inbox: str, homes: set[str]) -> Callable[[Keeper], None]:
    def leave(keeper: Keeper) -> None:
        keeper.upstreams.through = homes
        keeper.inboxes.disconnected(inbox)

    return leave


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
