"""The hub as a program: one thread keeps, the event loop answers on the Unix socket."""

import asyncio
import contextlib
import os
import queue
import resource
import select
import signal
import socket
import sqlite3
import struct
import sys
import threading
import time
from typing import NamedTuple

from vedette import kernel, wire
from vedette.errors import FormatError, VedetteError
from vedette.home import Home
from vedette.hub import takein
from vedette.hub.keeper import Keeper
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore
from vedette.version import __version__

_MOST_BEHIND = 256  # changes that a slow follower may be behind before it is told to read everything again
_RETRY_S = 1.0
_NEWS_S = 0.5


class _Asked(NamedTuple):
    run: str
    answer: "asyncio.Future[str]"


def run(home: Home, settings: Settings, *, quiet: bool, handed: dict[tuple[int, int], int] | None = None) -> int:
    """Be the hub of a home until nobody needs one; return the exit code."""
    if quiet and not os.path.isdir(home.root):  # it was removed since somebody asked for us
        return 0
    os.umask(0o077)
    home.prepare()
    lock = home.take_lock()
    if lock is None:
        if not quiet:
            print(f"a hub keeps {home.root} already, pid {home.hub_pid()}")  # noqa: T201 - the user asked
        return 0
    _trim(home.log)
    _raise_limits()
    try:
        keeper = Keeper(home, SqliteStore(home.store), settings.hub, handed)
    except (sqlite3.Error, OSError, VedetteError) as error:
        sys.stderr.write(f"vedette hub: the store {home.store} cannot be opened: {error}\n")
        return 1
    if not quiet:
        print(f"vedette hub {__version__} keeps {home.root}, pid {os.getpid()}; Ctrl-C ends it")  # noqa: T201
    asyncio.run(_Service(home, keeper, settings, lock).serve())
    os.close(lock)
    return 0


def _raise_limits() -> None:
    """A hub inherits the limits of whoever started it; take what is allowed."""
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)


def _trim(log: str) -> None:
    with contextlib.suppress(OSError):
        if os.stat(log).st_size > 1 << 20:
            os.truncate(log, 0)


class _Alarm:
    """Wakes the keeper: when it is asked to, and at once when a process begins to speak, which may not live long."""

    def __init__(self, spool: str) -> None:
        self._asked = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._asked, select.POLLIN)
        if (fd := kernel.watch_directory(spool)) is not None:
            self._poll.register(fd, select.POLLIN)

    def set(self) -> None:
        """Wake it."""
        os.eventfd_write(self._asked, 1)

    def wait(self, seconds: float) -> None:
        """Sleep until the time is over or something is up."""
        for fd, _ in self._poll.poll(seconds * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 1 << 16)


class _Service:
    def __init__(self, home: Home, keeper: Keeper, settings: Settings, lock: int) -> None:
        self._home = home
        self._lock = lock
        self._keeper = keeper
        self._pace = settings.hub
        self._born = time.monotonic()
        self._asked: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self._wake = _Alarm(home.spool)
        self._stopping = threading.Event()
        self._followers: dict[asyncio.Queue[bytes], str] = {}
        self._taking_in = takein.Queue(keeper)

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._home.socket)
        server = await asyncio.start_unix_server(self._talk, self._home.socket)
        os.chmod(self._home.socket, 0o600)
        keeping = threading.Thread(target=self._keep, name="keeper")
        keeping.start()
        await self._ended.wait()
        server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._home.socket)
        keeping.join()

    def _stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    # In the keeper's thread.

    def _keep(self) -> None:
        idle_since = time.monotonic()
        while not self._stopping.is_set():
            if not self._home.holds(self._lock):  # the home was removed: what is there now is another hub's
                self._keeper.let_go()
                break
            asked = self._take_asked()
            more = False
            try:
                change, more = self._keeper.turn(seal={item.run for item in asked} or None)
                self._keeper.trouble = ""
                failure = ""
                if change.spans or change.events or change.points:
                    self._loop.call_soon_threadsafe(self._publish, change)
            except Exception as error:  # whatever it is: the spools are safe, and a new start may cure it
                self._keeper.start_over(error)
                failure = self._keeper.trouble
                sys.stderr.write(f"vedette hub: {failure}; trying again\n")
                sys.stderr.flush()
                self._stopping.wait(_RETRY_S)
            for item in asked:
                self._loop.call_soon_threadsafe(_answer, item.answer, failure)
            taking = self._taking_in.step(lambda news: self._loop.call_soon_threadsafe(self._publish, news))
            more = more or taking
            if not self._keeper.idle or asked or taking:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self._pace.idle_s:
                break
            if not more:
                self._wake.wait(self._pace.turn_s)
        try:
            if self._home.holds(self._lock):
                self._keeper.close()
        finally:
            for item in self._take_asked():
                self._loop.call_soon_threadsafe(_answer, item.answer, "the hub is leaving")
            self._taking_in.refuse("the hub is leaving; do it again")
            self._loop.call_soon_threadsafe(self._ended.set)

    def _take_asked(self) -> list[_Asked]:
        asked = []
        with contextlib.suppress(queue.Empty):
            while True:
                asked.append(self._asked.get_nowait())
        return asked

    # In the event loop.

    def _publish(self, change: wire.Change) -> None:
        data = wire.pack_message(
            wire.Change(sorted(set(change.spans)), sorted(set(change.events)), sorted(set(change.points)))
        )
        touched = {*change.spans, *change.events, *change.points}
        for inbox, run in self._followers.items():
            if not run or any(span == run or span.startswith(run + "/") for span in touched):
                if inbox.full():
                    while not inbox.empty():
                        inbox.get_nowait()
                    inbox.put_nowait(wire.pack_message(wire.Change(missed=True)))
                else:
                    inbox.put_nowait(data)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _check_peer(writer.get_extra_info("socket"))
            writer.write(wire.pack_message(wire.Hello(name=f"vedette {__version__}")))
            unframer = wire.Unframer()
            greeted = False
            while data := await reader.read(1 << 16):
                for payload in unframer.feed(data):
                    message = wire.unpack_message(payload)
                    if not greeted:
                        if not isinstance(message, wire.Hello):
                            raise FormatError("a Hello must come first")
                        wire.check_version(message)
                        greeted = True
                        continue
                    await self._reply(message, reader, writer)
        except VedetteError as error:
            writer.write(wire.pack_message(wire.Refused(str(error))))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _reply(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(message, wire.Seal):
            answer: asyncio.Future[str] = self._loop.create_future()
            self._asked.put(_Asked(message.run, answer))
            self._wake.set()
            failure = await answer
            writer.write(wire.pack_message(wire.Refused(failure) if failure else wire.Done()))
        elif isinstance(message, wire.AskHealth):
            writer.write(wire.pack_message(self._health()))
        elif isinstance(message, wire.TakeIn):
            await self._take_in(message.path, writer)
        elif isinstance(message, wire.Follow):
            await self._follow(message.run, reader, writer)
        else:
            raise FormatError(f"a {type(message).__name__} is not for the hub")
        await writer.drain()

    async def _take_in(self, path: str, writer: asyncio.StreamWriter) -> None:
        """Have a path taken in, and say how far that is until it is over."""
        ended = asyncio.Event()
        asked = self._taking_in.ask(path, lambda: self._loop.call_soon_threadsafe(ended.set))
        self._wake.set()
        try:
            while not asked.over:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _NEWS_S)
                writer.write(wire.pack_message(asked.news()))
                await writer.drain()
        finally:
            asked.unwanted = True

    async def _follow(self, run: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send changes until the follower says anything or goes away."""
        inbox: asyncio.Queue[bytes] = asyncio.Queue(_MOST_BEHIND)
        self._followers[inbox] = run
        gone = asyncio.ensure_future(reader.read(1))
        try:
            writer.write(wire.pack_message(wire.Done()))
            while not gone.done():
                news = asyncio.ensure_future(inbox.get())
                await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    break
                writer.write(news.result())
                await writer.drain()
        finally:
            gone.cancel()
            del self._followers[inbox]
        raise ConnectionAbortedError

    def _health(self) -> wire.Health:
        keeper = self._keeper
        return wire.Health(
            pid=os.getpid(),
            version=__version__,
            up_s=time.monotonic() - self._born,
            living=len(keeper.living()),
            waiting_bytes=sum(speaker.waiting_bytes for speaker in list(keeper.speakers.values())),
            set_aside=dict(keeper.set_aside),
            trouble=keeper.trouble,
        )


def _answer(answer: "asyncio.Future[str]", failure: str) -> None:
    if not answer.done():
        answer.set_result(failure)


def _check_peer(peer: socket.socket) -> None:
    """Refuse other users, whatever the socket's mode says."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", credentials)[1]
    if uid != os.getuid():
        raise FormatError(f"this hub belongs to user {os.getuid()}, and you are {uid}")
