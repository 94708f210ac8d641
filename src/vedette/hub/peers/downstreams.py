"""The hubs that relay to this one: their shipments go to inboxes and are acknowledged; orders are passed down."""

import asyncio
import collections
import contextlib
import functools
import time
from collections.abc import Callable, Iterator
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
_MOST_HOMES = 1000  # of one relay that are remembered
_HEARD_AT_ONCE = 5000  # origins in one look at the store
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
        self.asked: dict[str, float] = {}  # the last of them, and when: it may be late
        self.late = False  # it has not answered the last one in time: nobody waits for it until it answers again
        self.blob_task: asyncio.Task[None] | None = None  # answers its last message about blobs

    def send(self, message: wire.Message) -> None:
        """Send a message down. A relay that reads nothing of what it is sent is gone, or fills our memory: it ends."""
        if self.writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.writer.transport.abort()
            return
        with contextlib.suppress(ConnectionError, RuntimeError):
            self.writer.write(wire.pack_message(message))

    def ask(self, seal: wire.Seal) -> "asyncio.Future[None]":
        """Pass a Seal on; the future is done with its answer."""
        if len(self.asked) >= _MOST_ASKED:
            del self.asked[next(iter(self.asked))]
        self.asked[seal.id] = time.monotonic()
        future = self.sealed[seal.id] = asyncio.get_running_loop().create_future()
        self.send(seal)
        return future

    def answered(self, seal: str) -> None:
        """Note the answer to a Seal. Whoever answers too late is still late: nobody waits for the next one either."""
        asked = self.asked.pop(seal, None)
        if asked is not None and time.monotonic() < asked + _SEAL_S:
            self.late = False
        if (waiting := self.sealed.pop(seal, None)) is not None:
            _resolve(waiting)

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
                    through = {introduction.relay, *message.through}
                    if self._home_id in through or await self._hub.in_keeper(_leads_back(through), relay):
                        raise HubError("hubs relay in a circle, so that nobody keeps anything: see hub.onward of each")
                    some = [home for home in message.through if len(home) <= _LONGEST_HOME][:_MOST_HOMES]
                    if (through := {introduction.relay, *some}) != downstream.through:
                        downstream.through = through
                        await self._hub.in_keeper(self._note_homes, relay)
                    downstream.skew_s = _length(message.skew_s)
                    for part in _parts(message):
                        await self._hub.in_keeper(_noting_alive(part, relay), relay)
                elif isinstance(message, wire.Introduce):
                    await self._introduce(message, downstream)
                elif isinstance(message, wire.AskBlobs | wire.Piece):
                    if downstream.blob_task is not None and not downstream.blob_task.done():
                        raise FormatError("a relay sends messages about blobs without waiting for the answers")
                    downstream.blob_task = asyncio.ensure_future(
                        self._answer_blobs(message, downstream)
                    )  # shipments do not wait for it
                elif isinstance(message, wire.Done):
                    downstream.answered(message.id)
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
                await asyncio.shield(self._hub.in_keeper(functools.partial(self._leave, inbox.name), relay))

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

    def _note_homes(self, keeper: Keeper) -> None:
        """Note the homes of all hubs that relay through this one, as they are when the keeper comes to it."""
        keeper.upstreams.through = {home for downstream in list(self.open.values()) for home in downstream.through}

    def _leave(self, inbox: str, keeper: Keeper) -> None:
        self._note_homes(keeper)
        keeper.inboxes.disconnected(inbox)

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
            waiting.append((downstream, downstream.ask(passed)))
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


def _noting_alive(message: wire.Alive, relay: str) -> Callable[[Keeper], None]:
    return lambda keeper: requests.note_alive(keeper, message, relay)


def _parts(message: wire.Alive) -> Iterator[wire.Alive]:
    """Yield a heartbeat in parts of some thousand origins, without what is no length of time."""
    names = list(message.ages)
    for at in range(0, max(1, len(names)), _HEARD_AT_ONCE):
        some = names[at : at + _HEARD_AT_ONCE]
        ages = {name: age for name in some if (age := _length(message.ages[name])) is not None}
        skews = {name: skew for name in ages if (skew := _length(message.skews.get(name))) is not None}
        yield wire.Alive(message.t, ages, _length(message.skew_s), skews)


def _length(seconds: float | None) -> float | None:
    """Return a length of time; None if it is none."""
    return seconds if seconds is not None and abs(seconds) <= _MOST_S else None


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
