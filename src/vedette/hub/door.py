"""Who may come in, and what they may ask: the protocol of the hub's sockets, one connection at a time.

Over the Unix socket the peer's user is checked, over TCP the token. Until then a peer may send little, not for long.
"""

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from vedette import wire
from vedette.errors import FormatError, HubError, VedetteError
from vedette.hub import address as addresses
from vedette.hub.edits import facts_of
from vedette.hub.inbox import Inbox
from vedette.hub.keeper import Keeper
from vedette.hub.questions import ANSWER, Questions
from vedette.hub.takein import TakeIn
from vedette.model import PURGED, new_id
from vedette.settings import Limits
from vedette.version import __version__

_MOST_BEHIND = 256  # changes that a slow follower may be behind before it is told to read everything again
_HELLO_S = 10.0
_SILENCE_S = 60.0  # a relay says every few seconds that it lives
_SEAL_BELOW_S = 3.0
_TURN_PATIENCE_S = 2.0
_PAUSE_S = 0.2
_NEWS_S = 0.5
_MOST_ORIGINS = 100_000  # of one relay that answers find their way to
NOTHING = "-"  # no run has this id

T = TypeVar("T")


class Desk(Protocol):
    """What the door needs of the hub behind it."""

    keeper: Keeper

    async def seal(self, run: str) -> str:
        """Have all that a run has logged put into the store; return what went wrong, if anything."""

    async def in_keeper(self, act: Callable[[Keeper], T]) -> T:
        """Do something in the keeper's thread, between two turns."""

    def take_in(self, path: str, tell: Callable[[], object]) -> TakeIn:
        """Have a path taken in; `tell` is called, in the loop, when that is over."""

    def purged(self) -> None:
        """Take note that something was removed for good, and is to be deleted."""

    def health(self) -> wire.Health:
        """Return how the hub is."""


class Link:
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

    def send(self, message: wire.Message) -> None:
        """Send a message down."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self.writer.write(wire.pack_message(message))


def most_strangers(limits: Limits) -> int:
    """Return how many may be connected, or on their way, who have not shown the token."""
    return max(8, limits.connections // 8)


class Door:
    """Answers connections."""

    def __init__(self, desk: Desk, limits: Limits, token: str, home_id: str) -> None:
        self.links: dict[str, Link] = {}  # by the name of the inbox
        self.refused: collections.Counter[str] = collections.Counter()
        self._desk = desk
        self._limits = limits
        self._token = token
        self._home_id = home_id
        self._seals: collections.deque[str] = collections.deque(maxlen=1000)  # seen, and passed on
        self._open = {True: 0, False: 0}  # connections of this machine, and of others
        self._strangers = 0  # of others who have not shown the token yet
        self._followers: dict[asyncio.Queue[bytes], str] = {}
        self._questions = Questions()

    async def unix(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to a process of this machine."""
        await self._admit(reader, writer, local=True)

    async def tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to whoever has the token."""
        await self._admit(reader, writer, local=False)

    def turn_away(self) -> None:
        """Take note that somebody was not even heard."""
        self.refused["limits.connections"] += 1

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, local: bool) -> None:
        stranger = not local
        self._open[local] += 1
        self._strangers += stranger
        try:
            crowded = stranger and self._strangers > most_strangers(self._limits)
            if crowded or self._open[local] > self._limits.connections:
                self.turn_away()
                raise HubError("too many connections are open already (limits.connections)")
            visitor = _Visitor(reader, writer)
            if local:
                addresses.check_peer(writer.get_extra_info("socket"))
                writer.write(wire.pack_message(wire.Hello(name=f"vedette {__version__}", home=self._home_id)))
            hello = await asyncio.wait_for(visitor.hear(wire.MAX_HELLO), _HELLO_S)
            if not isinstance(hello, wire.Hello):
                raise FormatError("a Hello must come first")
            wire.check_version(hello)
            if not local:
                if not addresses.same_token(hello.token, self._token):
                    self.refused["token"] += 1
                    raise HubError("the token is not this hub's: copy the connect string that it printed")
                writer.write(wire.pack_message(wire.Hello(name=f"vedette {__version__}", home=self._home_id)))
                self._strangers -= 1
                stranger = False
            await self._serve(visitor, local=local)
        except VedetteError as error:
            self.refused["malformed"] += isinstance(error, FormatError)
            with contextlib.suppress(ConnectionError, RuntimeError):
                writer.write(wire.pack_message(wire.Refused(str(error))))
        except TimeoutError:
            self.refused["silent"] += 1
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._open[local] -= 1
            self._strangers -= stranger
            with contextlib.suppress(ConnectionError, RuntimeError):
                writer.close()

    async def _serve(self, visitor: "_Visitor", *, local: bool) -> None:
        while True:
            message = await visitor.hear(wire.MAX_PAYLOAD)
            if isinstance(message, wire.Introduce):
                await self._link(message, visitor)
                return
            if isinstance(message, wire.Follow):
                await self._follow(message.run, visitor)
                return
            if not local and isinstance(message, wire.Edit | wire.Order | wire.TakeIn | wire.Await):
                raise HubError(f"a {type(message).__name__} is taken from this machine alone")
            if isinstance(message, wire.TakeIn):
                await self._take_in(message.path, visitor)
                continue
            if isinstance(message, wire.Await):
                await self._wait_for_answer(message, visitor)
                return
            visitor.say(await self._answer(message))
            await visitor.writer.drain()

    async def _take_in(self, path: str, visitor: "_Visitor") -> None:
        """Have a path taken in, and say how far that is until it is over."""
        ended = asyncio.Event()
        asked = self._desk.take_in(path, ended.set)
        try:
            over = False
            while not over:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _NEWS_S)
                over = asked.over
                visitor.say(asked.news())
                await visitor.writer.drain()
        finally:
            asked.unwanted = True

    async def _answer(self, message: wire.Message) -> wire.Message:
        if isinstance(message, wire.Seal):
            behind = await self.seal_below(message)
            failure = await self._desk.seal(message.run)
            return wire.Refused(failure) if failure else wire.Done(behind=behind)
        if isinstance(message, wire.Edit):
            await self._desk.in_keeper(lambda keeper: keeper.own.say(facts_of(keeper.store, message)))
            failure = await self._desk.seal(NOTHING)  # a turn, so that it is kept when this is answered
            if message.state == PURGED:
                self._desk.purged()
            return wire.Refused(failure) if failure else wire.Done(len(message.spans))
        if isinstance(message, wire.AskHealth):
            with contextlib.suppress(TimeoutError):  # what was written until now shall count, if that can be had
                await asyncio.wait_for(self._desk.seal(NOTHING), _TURN_PATIENCE_S)
            return self._desk.health()
        if isinstance(message, wire.AskLatest):
            return wire.Latest(await self._desk.in_keeper(lambda keeper: keeper.newest(message.prefix)))
        if isinstance(message, wire.Order):
            count = await self.order(message)
            return wire.Refused("this command was given before, or too late") if count is None else wire.Done(count)
        raise FormatError(f"a {type(message).__name__} is not for the hub")

    async def _wait_for_answer(self, message: wire.Await, visitor: "_Visitor") -> None:
        """Hand a process the answer to its question, unless it says anything or goes away first."""
        answer = self._questions.wait(message)
        gone = asyncio.ensure_future(visitor.reader.read(1))
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() and not answer.cancelled():
                visitor.say(answer.result())
                await visitor.writer.drain()
        finally:
            gone.cancel()
            self._questions.leave(message, answer)

    # Those who watch.

    def publish(self, change: wire.Change) -> None:
        """Tell the followers what was committed."""
        news = wire.Change(sorted(set(change.spans)), sorted(set(change.events)), sorted(set(change.points)))
        data = wire.pack_message(news)
        touched = {*change.spans, *change.events, *change.points}
        for inbox, run in self._followers.items():
            if not run or any(span == run or span.startswith(run + "/") for span in touched):
                if inbox.full():
                    while not inbox.empty():
                        inbox.get_nowait()
                    inbox.put_nowait(wire.pack_message(wire.Change(missed=True)))
                else:
                    inbox.put_nowait(data)

    async def _follow(self, run: str, visitor: "_Visitor") -> None:
        """Send changes until the follower says anything or goes away."""
        inbox: asyncio.Queue[bytes] = asyncio.Queue(_MOST_BEHIND)
        self._followers[inbox] = run
        gone = asyncio.ensure_future(visitor.reader.read(1))
        try:
            visitor.say(wire.Done())
            while not gone.done():
                news = asyncio.ensure_future(inbox.get())
                await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    break
                visitor.writer.write(news.result())
                await visitor.writer.drain()
        finally:
            gone.cancel()
            del self._followers[inbox]

    # Those who relay.

    async def _link(self, introduction: wire.Introduce, visitor: "_Visitor") -> None:
        """Take in what another hub ships, until it leaves."""
        inbox = await self._desk.in_keeper(lambda keeper: keeper.mail.open(self._limits.inbox_bytes))
        link = self.links[inbox.name] = Link(introduction.host[:200], introduction.relay, inbox, visitor.writer)
        try:
            self._route(link, introduction.origins)
            await self._introduce(introduction, visitor)
            while True:
                payload = await asyncio.wait_for(visitor.read(wire.MAX_SHIPMENT), _SILENCE_S)
                message = wire.unpack_message(payload)
                if isinstance(message, wire.Shipment):
                    await self._room(inbox)
                    inbox.append(payload)
                elif isinstance(message, wire.Alive):
                    visitor.say(wire.Clock(message.t, time.time_ns()))
                    link.skew_s = message.skew_s
                    link.through = {introduction.relay, *message.through}
                    if self._home_id in link.through:
                        raise HubError("hubs relay in a circle, so that nobody keeps anything: see hub.onward of each")
                    await self._desk.in_keeper(_noting(message, self._homes()))
                elif isinstance(message, wire.Introduce):
                    self._route(link, message.origins)
                    await self._introduce(message, visitor)
                elif isinstance(message, wire.Done):
                    if (waiting := link.sealed.pop(message.id, None)) is not None:
                        _resolve(waiting)
                else:
                    raise FormatError(f"a {type(message).__name__} is not for the hub that keeps")
        except OSError as error:
            raise HubError(str(error)) from None
        finally:
            del self.links[inbox.name]
            for waiting in link.sealed.values():
                _resolve(waiting)
            inbox.close()
            with contextlib.suppress(HubError):  # the hub is leaving: its next one finds the inbox
                await asyncio.shield(self._desk.in_keeper(_leaving(inbox.name, self._homes())))

    def _homes(self) -> set[str]:
        """Return the homes of all hubs that relay through this one."""
        return {home for link in self.links.values() for home in link.through}

    def _route(self, link: Link, origins: list[str]) -> None:
        """Take note that a relay speaks for origins, unless another that is here did so first: answers go there."""
        others = [other.origins for other in self.links.values() if other.relay != link.relay]
        link.origins |= dict.fromkeys(name for name in origins if not any(name in theirs for theirs in others))
        while len(link.origins) > _MOST_ORIGINS:
            del link.origins[next(iter(link.origins))]

    async def _introduce(self, message: wire.Introduce, visitor: "_Visitor") -> None:
        while (  # noqa: ASYNC110 - the keeper's thread has no event to give
            marks := await self._desk.in_keeper(lambda keeper: keeper.reach(message.origins))
        ) is None:
            await asyncio.sleep(_PAUSE_S)
        visitor.say(wire.Marks(marks))
        await visitor.writer.drain()

    async def _room(self, inbox: Inbox) -> None:
        """Wait until an inbox has room: what is not read stays with its sender."""
        while inbox.is_full():  # noqa: ASYNC110 - it is the keeper's thread that makes room
            await asyncio.sleep(_PAUSE_S)

    def acknowledge(self, safe: dict[str, int], broken: dict[str, str]) -> None:
        """Tell those who relay what is safe here; `safe` and `broken` are by the name of the inbox."""
        for name, link in list(self.links.items()):
            if (seq := safe.get(name)) is not None:
                link.send(wire.Kept(seq))
            if (why := broken.get(name)) is not None:
                self.refused["malformed"] += 1
                link.send(wire.Refused(why))
                link.writer.close()

    async def order(self, order: wire.Order, upstream: str | None = None, *, below: bool = True) -> int | None:
        """Have a command obeyed, here and by the hubs below; return by how many, None when it is old.

        `upstream`: the hub that gives it; `below`: the hubs below are meant, too.
        """
        left_s = order.left_s
        if left_s is None:  # it was given on this machine, by this clock
            left_s = (order.command.expires_t - time.time_ns()) / 1e9
        if left_s <= 0:
            return None
        done = await self._desk.in_keeper(lambda keeper: keeper.order(order.command, upstream))
        if done and order.command.verb == ANSWER:
            if (why := self._questions.give(order.command)) and upstream is None:
                raise HubError(why)
            return done
        if done is None or not below:
            return done
        links = list(self.links.values())
        if order.command.verb == ANSWER:  # it may be a password: nobody else's hub is told
            asks = order.command.to.rpartition("/")[2]  # a process is named after its origin
            links = [link for link in links if asks in link.origins]
        for link in links:
            link.send(wire.Order(order.command, left_s))
        return done + len(links)

    async def seal_below(self, seal: wire.Seal) -> list[str]:
        """Have the hubs below ship what they have; return those that did not do so in time."""
        if seal.id in self._seals:
            return []  # it has come round in a circle
        passed = wire.Seal(seal.run, seal.id or new_id(8))
        self._seals.append(passed.id)
        waiting: list[tuple[Link, asyncio.Future[None]]] = []
        for link in self.links.values():
            future = link.sealed[passed.id] = asyncio.get_running_loop().create_future()
            link.send(passed)
            waiting.append((link, future))
        if waiting:
            await asyncio.wait([future for _, future in waiting], timeout=_SEAL_BELOW_S)
        for link, _ in waiting:
            link.sealed.pop(passed.id, None)
        return sorted(link.host for link, future in waiting if not future.done())


class _Visitor:
    """The other end of a connection, as it speaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._unframer = wire.Unframer()

    async def read(self, limit: int) -> bytes:
        """Return its next payload, of so many bytes at most; raise EOFError when it has left."""
        self._unframer.limit = limit  # for this one alone: what came with it is looked at when it is its turn
        data = b""
        while (payload := self._first(data)) is None:
            data = await self.reader.read(1 << 18)
            if not data:
                raise EOFError
        return payload

    def _first(self, data: bytes) -> bytes | None:
        frames = self._unframer.feed(data)
        try:
            return next(frames, None)
        finally:
            frames.close()

    async def hear(self, limit: int) -> wire.Message:
        """Return its next message."""
        return wire.unpack_message(await self.read(limit))

    def say(self, message: wire.Message) -> None:
        """Send it a message."""
        self.writer.write(wire.pack_message(message))


def _noting(message: wire.Alive, homes: set[str]) -> Callable[[Keeper], None]:
    def note(keeper: Keeper) -> None:
        keeper.outward.through = homes
        keeper.alive(message)

    return note


def _leaving(inbox: str, homes: set[str]) -> Callable[[Keeper], None]:
    def leave(keeper: Keeper) -> None:
        keeper.outward.through = homes
        keeper.mail.left(inbox)

    return leave


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
