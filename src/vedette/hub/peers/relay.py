"""The way up: what is meant for another hub is shipped there, acknowledged, and taken up again after any outage.

The keeper's thread offers batches and takes in news; the event loop talks to the other hub. They share nothing but
queues: each connection is a Session of its own, so that what was meant for an old one never goes out over a new one.
"""

import asyncio
import collections
import contextlib
import os
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from vedette import wire
from vedette.errors import FormatError, HubError, VedetteError
from vedette.hub.peers import address as addresses
from vedette.hub.peers import parcels
from vedette.hub.peers.address import Address
from vedette.hub.peers.blob_sender import BlobSender
from vedette.store import Batch

_WINDOW_BYTES = 16 << 20  # on the way and not acknowledged
_SHIPMENT_BYTES = 1 << 20
_CONNECT_S = 10.0
_INTRODUCED_AT_ONCE = 1000
_STANDS_S = 10.0  # a connection that has stood for so long may be tried again at once
_SILENCE_S = 30.0  # a hub that answers nothing for so long is gone, whatever the connection says
_LEAST_WAIT_S, _MOST_WAIT_S = 0.2, 15.0


class Session:
    """One connection's outgoing frames, and what of them is not acknowledged yet. Made by the loop, used by both."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outgoing: collections.deque[bytes] = collections.deque()
        self.waiting: collections.deque[tuple[int, int, list[tuple[str, Batch]]]] = collections.deque()
        self.seq = 0
        self.unacknowledged_bytes = 0
        self.more = asyncio.Event()
        self.introduced = asyncio.Event()  # the other hub knows whose link this is: before that it takes no blobs
        self.aside: bytes | None = None  # goes out when there is nothing else
        self._answer: asyncio.Future[wire.HasBlobs] | None = None  # to what went aside
        self._loop = loop

    def send(self, message: wire.Message) -> int:
        """Put a message into the queue, from the keeper's thread; return its size."""
        data = wire.pack_message(message)
        self.outgoing.append(data)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.more.set)
        return len(data)

    def tell_aside(self, message: wire.Message) -> "asyncio.Future[wire.HasBlobs]":
        """Send a message about blobs, in the loop, when nothing else waits; return its answer, which will come."""
        self.aside = wire.pack_message(message)
        self._answer = self._loop.create_future()
        self.more.set()
        return self._answer

    def answered(self, answer: wire.HasBlobs) -> None:
        """Hand on the answer to what went aside."""
        if self._answer is None or self._answer.done():
            raise FormatError("it answers what it was not asked")
        self._answer.set_result(answer)


class Connected(NamedTuple):
    """A connection stands: origins can be introduced."""

    session: Session


class Disconnected(NamedTuple):
    """It is gone, and what was not acknowledged must be shipped again."""

    session: Session


class IsThisHub(NamedTuple):
    """The other hub is this one: what is meant for it is kept here."""

    session: Session


class Received(NamedTuple):
    """The other hub has said something."""

    session: Session
    message: wire.Message


News = Connected | Disconnected | IsThisHub | Received


class Relay:
    """Ships to one hub for as long as this one lives."""

    def __init__(
        self,
        address: Address,
        home_id: str,
        host: str,
        ask: Callable[[Session, wire.Message], None] = lambda _session, _message: None,
        sender: BlobSender | None = None,
        *,
        trusted: bool = False,
    ) -> None:
        """Make ready.

        `ask` is called, in the loop, with what the other hub wants done: a Seal or an Order. `carrier`
        has the blobs that go there, too. `trusted`: the network is, so that even a token may go over it in the clear.
        """
        self._ask = ask
        self.address = address
        self.trouble = "not connected yet"
        self.session: Session | None = None
        self.skew_s: float | None = None
        self._home_id = home_id
        self._there = ""  # the home of the other hub
        self._host = host
        self._trusted = trusted
        self._sender = sender
        self._takes_blobs = False
        self._news: collections.deque[News] = collections.deque()

    # In the keeper's thread.

    def news(self) -> list[News]:
        """Return what has happened since it was last asked."""
        found = []
        with contextlib.suppress(IndexError):
            while True:
                found.append(self._news.popleft())
        for item in found:
            if isinstance(item, Connected):
                self.session = item.session
            elif item.session is self.session and isinstance(item, Disconnected):
                self.session = None
        return found

    @property
    def has_room(self) -> bool:
        """Whether more may be offered now."""
        return self.session is not None and self.session.unacknowledged_bytes < _WINDOW_BYTES

    @property
    def turned_away(self) -> str:
        """Why the other hub did not take a file, if it has not."""
        why = self._sender.refused if self._sender is not None else ""
        return why and f"a file was not taken there: {why}"

    def introduce(self, origins: list[str]) -> None:
        """Ask how far origins are there."""
        if self.session is not None:
            for at in range(0, max(1, len(origins)), _INTRODUCED_AT_ONCE):
                self.session.send(wire.Introduce(self._home_id, self._host, origins[at : at + _INTRODUCED_AT_ONCE]))

    def offer(self, batches: list[tuple[str, Batch]], *, over: bool = False) -> None:
        """Ship batches; each is kept when `acknowledged` hands it back. `over`: their origins will say no more."""
        if self.session is None:
            return
        held: list[wire.Parcel] = []
        items: list[tuple[str, Batch]] = []
        size = 0
        for name, batch in batches:
            for parcel in parcels.pack(batch, over=over):
                weight = _weight(parcel)
                if held and size + weight > _SHIPMENT_BYTES:
                    self._ship(held, items)
                    held, items, size = [], [], 0
                held.append(parcel)
                size += weight
            items.append((name, msgspec.structs.replace(batch, facts=[], columns=[])))  # it is read again if need be
        if held:
            self._ship(held, items)

    def _ship(self, held: list[wire.Parcel], items: list[tuple[str, Batch]]) -> None:
        session = self.session
        assert session is not None
        session.seq += 1
        size = session.send(wire.Shipment(session.seq, held))
        session.waiting.append((session.seq, size, items))
        session.unacknowledged_bytes += size

    def acknowledged(self, session: Session, seq: int) -> list[tuple[str, Batch]]:
        """Return the batches, without what was in them, that are safe there now."""
        safe: list[tuple[str, Batch]] = []
        while session.waiting and session.waiting[0][0] <= seq:
            _, size, items = session.waiting.popleft()
            session.unacknowledged_bytes -= size
            safe += items
        return safe

    def beat(self, heard: dict[str, int], skews: dict[str, float], through: list[str]) -> None:
        """Say that this hub lives, when origins were last heard, and how their clocks differ from the one here."""
        if self.session is not None:
            now_t = time.time_ns()
            ages = {name: (now_t - t) / 1e9 for name, t in heard.items()}
            self.session.send(wire.Alive(now_t, ages, self.skew_s, skews, through))

    # In the event loop.

    async def run(self, wake: Callable[[], None]) -> None:
        """Connect, again and again, until cancelled; `wake` tells the keeper that there is news."""
        wait_s = _LEAST_WAIT_S
        while True:
            session = Session(asyncio.get_running_loop())
            begun = time.monotonic()
            try:
                async with contextlib.AsyncExitStack() as stack:
                    reader, writer, unframer = await asyncio.wait_for(self._dial(stack), _CONNECT_S)
                    self.trouble = ""
                    if self._there == self._home_id:
                        self._tell(IsThisHub(session), wake)
                        return
                    self._tell(Connected(session), wake)
                    await self._talk(session, reader, writer, unframer, wake)
            except TimeoutError:
                self.trouble = "it does not answer"
            except (OSError, VedetteError, ValueError, asyncio.IncompleteReadError) as error:  # a name may be none
                self.trouble = _sentence(error)
            self._tell(Disconnected(session), wake)
            if time.monotonic() - begun > _STANDS_S:
                wait_s = _LEAST_WAIT_S
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # so that not all come back at once
            wait_s = min(wait_s * 2, _MOST_WAIT_S)

    def _tell(self, item: News, wake: Callable[[], None]) -> None:
        self._news.append(item)
        wake()

    async def _dial(
        self, stack: contextlib.AsyncExitStack
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, wire.Unframer]:
        address = self.address
        if address.path:
            reader, writer = await asyncio.open_unix_connection(address.path)
            addresses.check_peer(writer.get_extra_info("socket"))
        elif address.fingerprint:
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=addresses.calling())
        elif not (address.is_local or self._trusted):
            raise HubError(
                "it is on another machine, and the address has no fingerprint: copy the whole connect string"
                " that `vedette hub` printed there, or set hub.trusted_network"
            )
        else:
            reader, writer = await asyncio.open_connection(address.host, address.port)
        stack.callback(writer.close)
        if address.fingerprint:
            handshake = writer.get_extra_info("ssl_object")
            if not addresses.is_the_one(handshake.getpeercert(binary_form=True), address):
                raise HubError(
                    "its certificate is not the one of the connect string: it is another hub, or an impostor"
                )
        writer.write(wire.pack_message(wire.Hello(name=f"relay {self._host}", token=address.token)))
        unframer = wire.Unframer()
        hello = None
        while hello is None:
            data = await reader.read(1 << 12)
            if not data:
                raise HubError("it hung up without a word")
            for payload in unframer.feed(data):
                hello = wire.unpack_message(payload)
                break
        if isinstance(hello, wire.Refused):
            raise HubError(f"it says: {hello.why}")
        if not isinstance(hello, wire.Hello):
            raise HubError("it does not answer as a hub")
        wire.check_version(hello)
        self._there = hello.home
        self._takes_blobs = wire.BLOBS in hello.takes
        return reader, writer, unframer

    async def _talk(
        self,
        session: Session,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unframer: wire.Unframer,
        wake: Callable[[], None],
    ) -> None:
        sending = asyncio.ensure_future(self._send(session, writer))
        hearing = asyncio.ensure_future(self._hear(session, reader, unframer, wake))
        tasks = [sending, hearing]
        if self._sender is not None:
            self._sender.takes(blobs=self._takes_blobs)
            if self._takes_blobs:
                tasks.append(asyncio.ensure_future(self._carry(session, self._sender)))
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)  # whatever becomes of blobs
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _send(self, session: Session, writer: asyncio.StreamWriter) -> None:
        while True:
            session.more.clear()
            while session.outgoing:
                writer.write(session.outgoing.popleft())
                await asyncio.wait_for(writer.drain(), _SILENCE_S)
            if session.aside is not None:
                data, session.aside = session.aside, None
                writer.write(data)
                await asyncio.wait_for(writer.drain(), _SILENCE_S)
                continue
            await session.more.wait()

    async def _carry(self, session: Session, sender: BlobSender) -> None:
        await session.introduced.wait()
        await sender.carry(session.tell_aside)

    async def _hear(
        self, session: Session, reader: asyncio.StreamReader, unframer: wire.Unframer, wake: Callable[[], None]
    ) -> None:
        while data := await asyncio.wait_for(reader.read(1 << 16), _SILENCE_S):
            for payload in unframer.feed(data):
                message = wire.unpack_message(payload)
                if isinstance(message, wire.Refused):
                    raise HubError(f"it says: {message.why}")
                if isinstance(message, wire.Clock):
                    self.skew_s = _skew_s(message, time.time_ns())
                    continue
                if isinstance(message, wire.HasBlobs):
                    session.answered(message)
                    continue
                if isinstance(message, wire.Seal | wire.Order):
                    self._ask(session, message)
                    continue
                if not isinstance(message, wire.Marks | wire.Kept):
                    raise FormatError(f"a {type(message).__name__} is not for a relay")
                self._tell(Received(session, message), wake)
                session.introduced.set()
        raise HubError("it hung up")


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def _skew_s(clock: wire.Clock, now_t: int) -> float:
    """Return how far the clock here is ahead of the one there, taking the way there and back as equally long."""
    return ((clock.t + now_t) / 2 - clock.here_t) / 1e9


def _weight(parcel: wire.Parcel) -> int:
    """Return what a parcel costs: its bytes, or more when it is small only because its numbers compress so well."""
    facts = sum(len(payload) + 12 for _, payload in parcel.facts)
    blocks = sum(map(_block_bytes, parcel.blocks))
    return 250 + facts + max(blocks, parcels.numbers_in(parcel) // 4)


def _block_bytes(block: wire.Packed) -> int:
    """Return how large a block is, about; as many with one row each may make up a parcel, their heads count, too."""
    names = sum(len(name.encode()) + 5 for name in (*block.names, *block.tags, *block.tags.values()))
    return 150 + names + sum(len(column) + 5 for column in (block.n, block.t, block.step, *block.values))
