"""The connection to one upstream hub: batches are shipped, acknowledged, and shipped again after an outage.

The keeper's thread ships batches and handles news; the event loop talks to the other hub. They share nothing but
queues. Each connection is a new Session, so that messages for an old connection are never sent over a new one.
"""

import asyncio
import collections
import contextlib
import os
import random
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from vedette import certificate, socket_owner, tokens, unix_socket, wire
from vedette.address import Address
from vedette.errors import FormatError, HubError, VedetteError
from vedette.home import Home
from vedette.hub.peers.blob_sender import BlobSender
from vedette.hub.peers.identity import identify
from vedette.store import Batch, parcels

_WINDOW_BYTES = 16 << 20  # bytes that may be sent and not acknowledged
_SHIPMENT_BYTES = 1 << 20
_MOST_PARCELS = 2000  # in one shipment: each takes the other hub some time
_CONNECT_S = 10.0
_INTRODUCED_AT_ONCE = 1000
_BEATEN_AT_ONCE = 10_000  # origins in one heartbeat, so that it is no message that is too large
_MOST_HOMES = 1000  # in one heartbeat
_STABLE_S = 10.0  # after a connection that lasted so long, the first retry comes soon
_SILENCE_S = 30.0  # a hub that sends nothing for so long is gone, even if the connection is open
_LEAST_WAIT_S, _MOST_WAIT_S = 0.2, 15.0


class Session:
    """One connection: its outgoing frames, and the shipments that are not acknowledged. Both threads use it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outgoing: collections.deque[bytes] = collections.deque()
        self.waiting: collections.deque[tuple[int, int, list[tuple[str, Batch]]]] = collections.deque()
        self.seq = 0
        self.unacknowledged_bytes = 0
        self.more = asyncio.Event()
        self.introduced = asyncio.Event()  # the other hub knows who relays: before that it takes no blobs
        self.blob_request: bytes | None = None  # a message about blobs: it is sent when nothing else is to be sent
        self._answer: asyncio.Future[wire.HasBlobs] | None = None  # to that message
        self._loop = loop

    def send(self, message: wire.Message) -> int:
        """Queue a message, from either thread; return its size."""
        data = wire.pack_message(message)
        self.outgoing.append(data)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.more.set)
        return len(data)

    def request_blobs(self, message: wire.Message) -> "asyncio.Future[wire.HasBlobs]":
        """Send a message about blobs when nothing else waits; return the future of its answer. Call it in the loop."""
        self.blob_request = wire.pack_message(message)
        self._answer = self._loop.create_future()
        self.more.set()
        return self._answer

    def answered(self, answer: wire.HasBlobs) -> None:
        """Complete the answer to the message about blobs."""
        if self._answer is None or self._answer.done():
            raise FormatError("it sent an answer without a question")
        self._answer.set_result(answer)


class Connected(NamedTuple):
    """The other hub has accepted the connection: origins can be introduced."""

    session: Session


class Disconnected(NamedTuple):
    """The connection has ended: what was not acknowledged must be shipped again."""

    session: Session


class IsThisHub(NamedTuple):
    """The other hub is this one: records that are meant for it are kept here."""

    session: Session


class Received(NamedTuple):
    """The other hub has sent Marks or an acknowledgement."""

    session: Session
    message: wire.Message


News = Connected | Disconnected | IsThisHub | Received


class Relay:
    """Ships to one hub, and connects again whenever the connection ends."""

    def __init__(
        self,
        address: Address,
        home: Home,
        host: str,
        ask: Callable[[Session, wire.Message], None] = lambda _session, _message: None,
        sender: BlobSender | None = None,
        *,
        trusted: bool = False,
    ) -> None:
        """Connect to nothing yet: `run` does that.

        `ask` is called, in the loop, with a Seal or an Order of the other hub. `sender` sends blobs there. `trusted`:
        the network is trusted, so that the token may be sent without TLS.
        """
        self._ask = ask
        self.address = address
        self.trouble = "not connected yet"
        self.session: Session | None = None
        self.skew_s: float | None = None
        self._home = home
        self._home_id = tokens.home_id(home)
        self.other_home = ""  # the home of the other hub
        self._host = host
        self._trusted = trusted
        self._sender = sender
        self._takes_blobs = False
        self._news: collections.deque[News] = collections.deque()

    # In the keeper's thread.

    def news(self) -> list[News]:
        """Return what has happened since the last call."""
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
        """Whether more may be shipped now."""
        return self.session is not None and self.session.unacknowledged_bytes < _WINDOW_BYTES

    @property
    def blob_refused(self) -> str:
        """Why the other hub last refused a blob; empty when it did not."""
        why = self._sender.refused if self._sender is not None else ""
        return why and f"it refused a file: {why}"

    def introduce(self, origins: list[str]) -> None:
        """Ask the other hub for its marks of origins."""
        if self.session is not None:
            for at in range(0, max(1, len(origins)), _INTRODUCED_AT_ONCE):
                self.session.send(wire.Introduce(self._home_id, self._host, origins[at : at + _INTRODUCED_AT_ONCE]))

    def ship(self, batches: list[tuple[str, Batch]], *, over: bool = False) -> None:
        """Ship batches; `acknowledged` returns each when it is safe there. `over`: their origins have ended."""
        if self.session is None:
            return
        shipped: list[wire.Parcel] = []
        items: list[tuple[str, Batch]] = []
        size = 0
        for name, batch in batches:
            for parcel in parcels.pack(batch, over=over):
                weight = _weight(parcel)
                if shipped and (size + weight > _SHIPMENT_BYTES or len(shipped) >= _MOST_PARCELS):
                    self._send_shipment(shipped, items)
                    shipped, items, size = [], [], 0
                shipped.append(parcel)
                size += weight
            items.append(
                (name, msgspec.structs.replace(batch, facts=[], columns=[]))
            )  # its spool still has the content
        if shipped:
            self._send_shipment(shipped, items)

    def _send_shipment(self, shipped: list[wire.Parcel], items: list[tuple[str, Batch]]) -> None:
        session = self.session
        assert session is not None
        session.seq += 1
        size = session.send(wire.Shipment(session.seq, shipped))
        session.waiting.append((session.seq, size, items))
        session.unacknowledged_bytes += size

    def acknowledged(self, session: Session, seq: int) -> list[tuple[str, Batch]]:
        """Return the batches, without their content, that are safe there now."""
        safe: list[tuple[str, Batch]] = []
        while session.waiting and session.waiting[0][0] <= seq:
            _, size, items = session.waiting.popleft()
            session.unacknowledged_bytes -= size
            safe += items
        return safe

    def beat(self, alive: dict[str, int], skews: dict[str, float], through: list[str]) -> None:
        """Say that this hub lives, when origins were last known alive, and how far their clocks are ahead of ours."""
        if self.session is not None:
            now_t = time.time_ns()
            names = list(alive)
            for at in range(0, max(1, len(names)), _BEATEN_AT_ONCE):
                some = names[at : at + _BEATEN_AT_ONCE]
                ages = {name: (now_t - alive[name]) / 1e9 for name in some}
                theirs = {name: skews[name] for name in some if name in skews}
                self.session.send(wire.Alive(now_t, ages, self.skew_s, theirs, through[:_MOST_HOMES]))

    # In the event loop.

    async def run(self, wake: Callable[[], None]) -> None:
        """Connect, again and again, until cancelled; `wake` wakes the keeper when there is news."""
        wait_s = _LEAST_WAIT_S
        while True:
            session = Session(asyncio.get_running_loop())
            begun = time.monotonic()
            try:
                async with contextlib.AsyncExitStack() as stack:
                    async with asyncio.timeout(_CONNECT_S):
                        reader, writer, unframer = await self._dial(stack)
                    self.trouble = ""
                    if self.other_home == self._home_id:
                        self._report(IsThisHub(session), wake)
                        return
                    self._report(Connected(session), wake)
                    await self._talk(session, reader, writer, unframer, wake)
            except TimeoutError:
                self.trouble = "it does not answer"
            except (OSError, VedetteError, ValueError, asyncio.IncompleteReadError) as error:  # ValueError: a bad name
                self.trouble = _sentence(error)
            self._report(Disconnected(session), wake)
            if time.monotonic() - begun > _STABLE_S:
                wait_s = _LEAST_WAIT_S
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # so that not all hubs come back at once
            wait_s = min(wait_s * 2, _MOST_WAIT_S)

    def _report(self, item: News, wake: Callable[[], None]) -> None:
        self._news.append(item)
        wake()

    async def _dial(
        self, stack: contextlib.AsyncExitStack
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, wire.Unframer]:
        address = self.address
        if address.path:
            reader, writer = await _open_unix(address.path)
        elif address.fingerprint:
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=certificate.calling())
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
            if not certificate.is_the_one(handshake.getpeercert(binary_form=True), address.fingerprint):
                raise HubError(
                    "its certificate is not the one of the connect string: it is another hub, or an impostor"
                )
        elif not address.path and not self._trusted:
            connected = writer.get_extra_info("socket")
            if socket_owner.listener_is_strangers(connected.getpeername(), connected.getsockname()):
                raise HubError(
                    "another user of this machine listens there, and gets no token: a hub of another user has to listen"
                    " as `vedette hub --address :PORT`, so that its connect string has a fingerprint"
                )
        writer.write(wire.pack_message(wire.Hello(name=f"relay {self._host}", token=address.token)))
        unframer = wire.Unframer()
        hello = None
        while hello is None:
            data = await reader.read(1 << 12)
            if not data:
                raise HubError("it closed the connection without an answer")
            for payload in unframer.feed(data):
                hello = wire.unpack_message(payload)
                break
        if isinstance(hello, wire.Refused):
            raise HubError(f"it says: {hello.why}")
        if not isinstance(hello, wire.Hello):
            raise HubError("it is not a vedette hub: its first message is not a Hello")
        wire.check_version(hello)
        self.other_home = hello.home
        self._takes_blobs = wire.BLOBS in hello.takes
        if hello.challenge:  # an older hub has none
            token = "" if address.path else address.token
            shown = await asyncio.to_thread(identify, self._home, hello.challenge, token, address.fingerprint)
            writer.write(wire.pack_message(shown))
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
        receiving = asyncio.ensure_future(self._receive(session, reader, unframer, wake))
        tasks = [sending, receiving]
        if self._sender is not None:
            self._sender.takes(blobs=self._takes_blobs)
            if self._takes_blobs:
                tasks.append(asyncio.ensure_future(self._send_blobs(session, self._sender)))
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)  # blobs do not end a connection
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
                await _write(writer, session.outgoing.popleft())
            if session.blob_request is not None:
                data, session.blob_request = session.blob_request, None
                await _write(writer, data)
                continue
            await session.more.wait()

    async def _send_blobs(self, session: Session, sender: BlobSender) -> None:
        await session.introduced.wait()
        await sender.run(session.request_blobs)

    async def _receive(
        self, session: Session, reader: asyncio.StreamReader, unframer: wire.Unframer, wake: Callable[[], None]
    ) -> None:
        while data := await _read(reader):
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
                self._report(Received(session, message), wake)
                session.introduced.set()
        raise HubError("it closed the connection")


# Never asyncio.wait_for: before Python 3.12 it forgets a cancellation that comes together with its result, and then
# the task goes on, and the hub does not end.


async def _open_unix(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a Unix socket of the same user; raise OSError when that cannot be."""
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.setblocking(False)
        unix_socket.connect(peer, path)
        return await asyncio.open_unix_connection(sock=peer)
    except BaseException:
        peer.close()
        raise


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(_SILENCE_S):
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(_SILENCE_S):
        return await reader.read(1 << 16)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def _skew_s(clock: wire.Clock, now_t: int) -> float:
    """Return how far the clock here is ahead of the one there, if the message took equally long both ways."""
    return ((clock.t + now_t) / 2 - clock.here_t) / 1e9


def _weight(parcel: wire.Parcel) -> int:
    """Return how much of a shipment a parcel fills: its bytes, or more when its numbers are well compressed."""
    facts = sum(len(payload) + 12 for _, payload in parcel.facts)
    blocks = sum(map(_block_bytes, parcel.blocks))
    return 250 + facts + max(blocks, parcels.numbers_in(parcel))


def _block_bytes(block: wire.Packed) -> int:
    """Return about how large a block is. A parcel may have many blocks of one row each, so heads count, too."""
    names = sum(len(name.encode()) + 5 for name in (*block.names, *block.tags, *block.tags.values()))
    return 150 + names + sum(len(column) + 5 for column in (block.n, block.t, block.step, *block.values))
