"""The protocol of the hub's sockets: who may connect, and what they may ask.

On the Unix socket the peer's user is checked, on TCP the token. Before that a peer may send only one small message,
and must do so soon.
"""

import asyncio
import collections
import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from vedette import kernel, tokens, unix_socket, wire
from vedette.errors import FormatError, HubError, StrangerError, VedetteError
from vedette.home import Home
from vedette.hub.handle import HubHandle
from vedette.hub.peers import identity
from vedette.hub.peers.downstreams import Downstreams
from vedette.hub.sockets.connection import Connection
from vedette.hub.sockets.questions import Questions
from vedette.hub.turn import requests
from vedette.hub.turn.edits import facts_of
from vedette.hub.turn.orders import ANSWER
from vedette.ids import is_within
from vedette.model import PURGED
from vedette.settings import Limits
from vedette.version import __version__

_MOST_BEHIND = 256  # changes that a follower may leave unread; then it is told to read everything again
_HELLO_S = 10.0  # for a Hello; and over TCP for what a relay says until it has introduced itself
_SHARE = 2  # one holder, the owner apart, may have half of the connections
_TURN_PATIENCE_S = 2.0
_NEWS_S = 0.5


class Server:
    """Answers connections."""

    def __init__(self, hub: HubHandle, limits: Limits, home: Home, fingerprint: str = "") -> None:
        """Answer for a home. `fingerprint`: of the certificate that it shows over TCP."""
        self._home = home
        self._fingerprint = fingerprint
        home_id = tokens.home_id(home)
        self.refused: collections.Counter[str] = collections.Counter()
        self.downstreams = Downstreams(hub, limits.inbox_bytes, home_id, self.refused)
        self._hub = hub
        self._limits = limits
        self._home_id = home_id
        self._open = {True: 0, False: 0}  # connections of this machine (True), and of others that have shown a token
        self._of_holder: collections.Counter[str] = collections.Counter()  # connections over TCP
        self.admit: Callable[[socket.socket], None] = lambda _connection: None  # called with who is no stranger
        self._followers: dict[asyncio.Queue[bytes], str] = {}
        self._questions = Questions()

    async def unix(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection of this machine."""
        await self._admit(reader, writer, local=True)

    async def tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection over TCP, if it sends the token."""
        await self._admit(reader, writer, local=False)

    def refuse_connection(self) -> None:
        """Count a connection that was refused because there are too many."""
        self.refused["limits.connections"] += 1

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, local: bool) -> None:
        is_known = local  # it has shown that it may come in
        holder: str | None = None
        peer = writer.get_extra_info("socket")
        self._open[local] += is_known
        try:
            if self._open[local] >= self._limits.connections + is_known:
                self.refuse_connection()
                raise HubError("too many connections are open already (limits.connections)")
            connection = Connection(reader, writer)
            challenge = os.urandom(identity.CHALLENGE_BYTES)
            if local:
                unix_socket.check_peer(writer.get_extra_info("socket"))
                writer.write(self._greeting(challenge))
            async with asyncio.timeout(_HELLO_S):
                hello = await connection.receive(wire.MAX_HELLO)
            if not isinstance(hello, wire.Hello):
                raise FormatError("a Hello must come first")
            wire.check_version(hello)
            if not local:
                if (holder := tokens.holder_of(self._home, hello.token)) is None:
                    self.refused["token"] += 1
                    raise HubError("the token is not this hub's, or was revoked: ask its owner for a connect string")
                if holder != tokens.OWNER and self._of_holder[holder] >= max(1, self._limits.connections // _SHARE):
                    self.refuse_connection()
                    raise HubError(
                        f"{holder} has too many connections already: a holder gets half of limits.connections"
                    )
                connection.holder = holder
                connection.is_admitted = lambda: tokens.is_current(self._home, holder, hello.token)
                writer.write(self._greeting(challenge))
                self.admit(peer)
                is_known = True
                self._open[local] += 1
                self._of_holder[holder] += 1
            fingerprint, token = ("", "") if local else (self._fingerprint, hello.token)
            await self._serve(
                connection, lambda shown: identity.identity_of(shown, challenge, token, fingerprint), local=local
            )
        except VedetteError as error:
            self.refused["malformed"] += isinstance(error, FormatError)
            self.refused["another user"] += isinstance(error, StrangerError)
            with contextlib.suppress(ConnectionError, RuntimeError):
                writer.write(wire.pack_message(wire.Refused(str(error))))
        except TimeoutError:
            self.refused["silent"] += 1
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._open[local] -= is_known
            if is_known and holder is not None:
                self._of_holder -= collections.Counter([holder])
            if not local:
                self.admit(peer)  # it does not count any more
            with contextlib.suppress(ConnectionError, RuntimeError):
                writer.close()

    def _greeting(self, challenge: bytes) -> bytes:
        takes = [wire.BLOBS, wire.UNSEALED, wire.LEAVE]
        hello = wire.Hello(name=f"vedette {__version__}", home=self._home_id, takes=takes, challenge=challenge)
        return wire.pack_message(hello)

    async def _serve(self, connection: Connection, identified: Callable[[wire.Identify], str], *, local: bool) -> None:
        """Answer what is asked. `identified` returns the id of a relay; it raises when its signature is wrong."""
        while True:
            async with asyncio.timeout(None if local else _HELLO_S):
                message = await connection.receive(wire.MAX_PAYLOAD)
            if isinstance(message, wire.Identify):
                connection.relay = await asyncio.to_thread(identified, message)
                continue
            if isinstance(message, wire.Introduce):
                await self.downstreams.serve(message, connection)
                return
            if not local:  # only relays come over TCP: readers and commands are on this machine
                raise HubError(f"a {type(message).__name__} is accepted from this machine only")
            if isinstance(message, wire.Follow):
                await self._follow(message.run, connection)
                return
            if isinstance(message, wire.TakeIn):
                await self._take_in(message.path, connection)
                continue
            if isinstance(message, wire.Await):
                await self._wait_for_answer(message, connection)
                return
            connection.send(await self._answer(message))
            await connection.writer.drain()

    async def _take_in(self, path: str, connection: Connection) -> None:
        """Have a path taken in, and send its progress until it is over."""
        ended = asyncio.Event()
        asked = self._hub.take_in(path, ended.set)
        try:
            over = False
            while not over:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_NEWS_S):
                        await ended.wait()
                over = asked.over
                connection.send(asked.news())
                await connection.writer.drain()
        finally:
            asked.unwanted = True

    async def _answer(self, message: wire.Message) -> wire.Message:
        if isinstance(message, wire.Seal):
            behind = await self.downstreams.seal(message)
            try:
                done = await self._hub.seal(message.run, message.within_s)
            except HubError as error:
                return wire.Refused(str(error))
            return wire.Done(behind=behind if done else [*behind, kernel.host()])
        if isinstance(message, wire.Edit):
            await self._hub.in_keeper(lambda keeper: keeper.own.say(facts_of(keeper.store, message)))
            try:
                await self._hub.seal(wire.NO_RUN)  # a turn, so that the edit is committed before the answer
            except HubError as error:
                return wire.Refused(str(error))
            if message.state == PURGED:
                self._hub.purged()
            return wire.Done(len(message.spans))
        if isinstance(message, wire.AskHealth):
            with contextlib.suppress(
                TimeoutError, HubError
            ):  # a turn first, so that health includes what was written until now
                async with asyncio.timeout(_TURN_PATIENCE_S):
                    await self._hub.seal(wire.NO_RUN)
            return self._hub.health()
        if isinstance(message, wire.AskLatest):
            return wire.Latest(await self._hub.in_keeper(lambda keeper: requests.newest(keeper, message.prefix)))
        if isinstance(message, wire.AskUnsealed):
            return await self._hub.in_keeper(lambda keeper: requests.unsealed(keeper, message))
        if isinstance(message, wire.Order):
            count = await self.order(message)
            return wire.Refused("this command was given before, or has expired") if count is None else wire.Done(count)
        if isinstance(message, wire.Leave):
            self._hub.leave()
            return wire.Done()
        raise FormatError(f"a {type(message).__name__} is not a message for a hub")

    async def _wait_for_answer(self, message: wire.Await, connection: Connection) -> None:
        """Send a process the answer to its question, unless it sends something or disconnects first."""
        answer = self._questions.wait(message)
        gone = asyncio.ensure_future(connection.reader.read(1))
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() and not answer.cancelled():
                connection.send(answer.result())
                await connection.writer.drain()
        finally:
            gone.cancel()
            self._questions.leave(message, answer)

    async def order(self, order: wire.Order, upstream: str | None = None, *, below: bool = True) -> int | None:
        """Carry out a command, here and at downstreams; return for how many, None when it was given before or expired.

        `upstream`: the hub that gives it. `below`: pass it on to downstreams, too.
        """
        left_s = order.left_s
        if left_s is None:  # it was given on this machine, by this clock
            left_s = (order.command.expires_t - time.time_ns()) / 1e9
        if left_s <= 0:
            return None
        done = await self._hub.in_keeper(lambda keeper: requests.order(keeper, order.command, upstream))
        if done and order.command.verb == ANSWER:
            if (why := self._questions.give(order.command)) and upstream is None:
                raise HubError(why)
            return done
        if done is None or not below:
            return done
        return done + await self.downstreams.pass_on(order, left_s)

    # Followers.

    def publish(self, change: wire.Change) -> None:
        """Tell the followers what was committed."""
        news = wire.Change(sorted(set(change.spans)), sorted(set(change.events)), sorted(set(change.points)))
        data = wire.pack_message(news)
        touched = {*change.spans, *change.events, *change.points}
        for unread, run in self._followers.items():
            if not run or any(is_within(span, run) for span in touched):
                if unread.full():
                    while not unread.empty():
                        unread.get_nowait()
                    unread.put_nowait(wire.pack_message(wire.Change(missed=True)))
                else:
                    unread.put_nowait(data)

    async def _follow(self, run: str, connection: Connection) -> None:
        """Send changes until the follower sends something or disconnects."""
        unread: asyncio.Queue[bytes] = asyncio.Queue(_MOST_BEHIND)
        self._followers[unread] = run
        gone = asyncio.ensure_future(connection.reader.read(1))
        try:
            connection.send(wire.Done())
            while not gone.done():
                news = asyncio.ensure_future(unread.get())
                await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    break
                connection.writer.write(news.result())
                await connection.writer.drain()
        finally:
            gone.cancel()
            del self._followers[unread]
