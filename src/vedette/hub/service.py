"""The hub as a program: one thread keeps, the event loop answers on the sockets and talks to other hubs."""

import asyncio
import contextlib
import functools
import os
import queue
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from vedette import kernel, wire
from vedette.errors import HubError, SettingError, VedetteError
from vedette.home import Home
from vedette.hub.forms import Forms, FormServer, bind_address
from vedette.hub.peers import address as addresses
from vedette.hub.peers.address import Address
from vedette.hub.peers.blob_sender import BlobSender
from vedette.hub.peers.relay import Relay, Session
from vedette.hub.sockets.port import Listener, Listening, listening
from vedette.hub.sockets.server import Server, most_strangers
from vedette.hub.turn import takein
from vedette.hub.turn.alarm import Alarm
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.sweeper import Sweeper
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore
from vedette.version import __version__

_RETRY_S = 1.0
_AGAIN_S = 60.0  # the same complaint
_REST = 9.0
_LISTEN_AGAIN_S = 5.0
T = TypeVar("T")


class _Seal(NamedTuple):
    run: str
    answer: "asyncio.Future[str]"


class _Act(NamedTuple):
    do: Callable[[Keeper], Any]
    answer: "asyncio.Future[Any]"


def run(
    home: Home,
    settings: Settings,
    *,
    quiet: bool,
    tls: bool = True,
    handed: dict[tuple[int, int], int] | None = None,
    reload: Callable[[], Settings] | None = None,
) -> int:
    """Be the hub of a home until nobody needs one; return the exit code. `reload` gathers the settings anew."""
    if quiet and not os.path.isdir(home.root):  # it was removed since somebody asked for us
        return 0
    os.umask(0o077)
    home.prepare()
    listen = listening(home, settings, tls=tls)
    if settings.hub.heflwr:
        bind_address(settings.hub.heflwr)
    for upstream in (settings.hub.onward, settings.hub.reroute):
        if upstream:
            addresses.parse(upstream)  # what is wrong with it is said at once
    lock = home.take_lock()
    if lock is None:
        if not quiet:
            print(f"a hub keeps {home.root} already, pid {home.hub_pid()}")  # noqa: T201 - the user asked
        return 0
    _trim(home.log)
    _raise_limits()
    try:
        store = SqliteStore(home.store, most_series=settings.limits.series_per_run)
    except (sqlite3.Error, OSError, VedetteError) as error:
        sys.stderr.write(f"vedette hub: the store {home.store} cannot be opened: {error}\n")
        return 1
    service = _Service(home, store, settings, lock, listen, handed, Sweeper(home, store, settings.keep, reload))
    asyncio.run(service.serve(quiet=quiet))
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


class _Service:
    def __init__(
        self,
        home: Home,
        store: SqliteStore,
        settings: Settings,
        lock: int,
        listen: Listening | None,
        handed: dict[tuple[int, int], int] | None,
        sweeper: Sweeper,
    ) -> None:
        self._sweeper = sweeper
        self._home = home
        self._lock = lock
        self._settings = settings
        self._pace = settings.hub
        self._listen = listen
        self._listens = self._deaf = ""
        self._home_id = addresses.home_id(home)
        self.keeper = Keeper(home, store, settings, handed, self._dial, measure=True)
        self._born = time.monotonic()
        self._asked: queue.SimpleQueue[_Seal | _Act] = queue.SimpleQueue()
        self._wake = Alarm(home.spool)
        self._stopping = threading.Event()
        self._left = False
        self._complained = ("", 0.0)
        self._relaying: set[asyncio.Task[None]] = set()
        self._errands: set[asyncio.Task[None]] = set()
        self._server = Server(self, settings.limits, listen.told.token if listen is not None else "", self._home_id)
        self.keeper.on_safe = self._acknowledge
        self.taking_in = takein.Queue(self.keeper)
        self._forms: FormServer | None = None
        if settings.hub.heflwr:
            self._forms = FormServer(
                bind_address(settings.hub.heflwr), Forms(home, self.in_keeper, self._server.refused)
            )

    async def serve(self, *, quiet: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        if not self._home.holds(self._lock):  # the socket that is there now is another hub's
            raise HubError(f"{self._home.root} was removed while its hub began")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._home.socket)
        server = await asyncio.start_unix_server(self._server.unix, self._home.socket)
        os.chmod(self._home.socket, 0o600)
        listener = None
        if self._listen is not None:
            most = most_strangers(self._settings.limits)
            listener = Listener(self._listen, self._home.socket, self._server.tcp, most, self._server.turn_away)
            await self._open(listener, self._listen, quiet=quiet)
        if self._forms is not None:
            self._open_forms(self._forms, quiet=quiet)
        if not quiet:
            text = f"vedette hub {__version__} keeps {self._home.root}, pid {os.getpid()}; Ctrl-C ends it"
            print(text, flush=True)  # noqa: T201 - the user asked
        keeping = threading.Thread(target=self._keep, name="keeper")
        keeping.start()
        await self._ended.wait()
        server.close()
        if self._forms is not None:
            await self._forms.close()
        if listener is not None:
            listener.close()
        for task in self._relaying:
            task.cancel()
        if self._home.holds(self._lock):  # else what lies there is another hub's
            for name in (self._home.socket, *([self._home.connect] if self._listen is not None else [])):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
        keeping.join()

    async def _open(self, listener: Listener, listen: Listening, *, quiet: bool) -> None:
        """Listen for other hubs, and say how they connect; one that started by itself goes on without if need be."""
        try:
            port = listener.open()
        except (OSError, SettingError) as error:
            self._say_deaf(f"{listen.bind}", error, quiet=quiet)
            self._loop.call_later(_LISTEN_AGAIN_S, lambda: self._errand(self._open(listener, listen, quiet=quiet)))
            return
        told = listen.told
        if not told.path:
            told = Address("", told.host, told.port or port, told.token, told.fingerprint)
        self._listens, self._deaf = str(told), ""
        text = told.connect_string()
        addresses.write_private(self._home.connect, text.encode() + b"\n")
        if not quiet:
            who = "jobs of other homes on this machine" if told.path else "other machines"
            print(f"{who} connect by\n\n  export VEDETTE_HUB={text}\n")  # noqa: T201 - the user asked
        if not quiet and not told.path:
            print(f"(also in {self._home.connect}; whoever has it can send and ask: keep it to yourself)", flush=True)  # noqa: T201

    def _open_forms(self, forms: FormServer, *, quiet: bool) -> None:
        """Listen for heflwr's clients; one that started by itself goes on without if need be."""
        try:
            where = forms.open()
        except OSError as error:
            self._say_deaf(self._pace.heflwr, error, quiet=quiet)
            self._loop.call_later(_LISTEN_AGAIN_S, lambda: self._open_forms(forms, quiet=quiet))
            return
        self._deaf = ""
        self._errand(forms.start())
        if not quiet:
            print(f"heflwr's clients send to {where}", flush=True)  # noqa: T201 - the user asked

    def _say_deaf(self, where: str, error: Exception, *, quiet: bool) -> None:
        """Say that a port cannot be had, to `doctor` and in the log; to a user, as an error that ends this."""
        number = getattr(error, "errno", 0)
        why = os.strerror(number) if number and number > 0 else str(error)
        self._deaf = f"{where} cannot be listened on: {why}"
        if not quiet:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._home.socket)
            raise HubError(self._deaf) from None
        self._complain(self._deaf)

    def _errand(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(doing)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    # What the door needs.

    async def seal(self, run: str) -> str:
        """Have all that a run has logged put into the store; return what went wrong, if anything."""
        answer: asyncio.Future[str] = self._loop.create_future()
        self._ask(_Seal(run, answer))
        return await answer

    def _ask(self, item: _Seal | _Act) -> None:
        self._asked.put(item)
        self._wake.set()
        if self._left:  # nobody will look any more
            self._turn_away()

    def take_in(self, path: str, tell: Callable[[], object]) -> takein.TakeIn:
        """Have a path taken in; `tell` is called, in the loop, when that is over."""
        asked = self.taking_in.ask(path, lambda: self._loop.call_soon_threadsafe(tell))
        self._wake.set()
        return asked

    def _asked_from_above(self, upstream: str, session: Session, message: wire.Message) -> None:
        self._errand(self._do_from_above(upstream, session, message))

    async def _do_from_above(self, upstream: str, session: Session, message: wire.Message) -> None:
        if isinstance(message, wire.Seal):
            await self._server.downstreams.seal_below(message)
            await self.seal(message.run)  # what is meant for above is shipped by then
            session.send(wire.Done(id=message.id))
        if isinstance(message, wire.Order):
            await self._server.order(message, upstream, below=upstream == self.keeper.inboxes.onward)

    async def in_keeper(self, act: Callable[[Keeper], T]) -> T:
        """Do something in the keeper's thread, between two turns."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._ask(_Act(act, answer))
        return await answer

    def purged(self) -> None:
        """Take note that something was removed for good, and is to be deleted."""
        self._sweeper.busy = True  # until a sweep finds nothing: who asks before that must not hear that all is gone
        self._wake.set()

    def health(self) -> wire.Health:
        """Return how the hub is."""
        keeper = self.keeper
        return wire.Health(
            pid=os.getpid(),
            version=__version__,
            up_s=time.monotonic() - self._born,
            living=len(keeper.living()),
            waiting_bytes=sum(reader.waiting_bytes for reader in list(keeper.readers.values())),
            set_aside=keeper.set_aside | {f"inbox/{name}": why for name, why in keeper.inboxes.set_aside.items()},
            trouble=keeper.trouble or keeper.watcher.trouble or keeper.inboxes.trouble,
            listens=self._listens,
            deaf=self._deaf,
            links=[(link.host, link.skew_s) for link in self._server.downstreams.open.values()],
            relays=[
                (str(relay.address), relay.trouble or relay.turned_away)
                for relay in list(keeper.upstreams.relays.values())
            ],
            refused=dict(self._server.refused),
            keep=self._sweeper.keep,
            sweeping=self._sweeper.busy or self.keeper.blob_collector.busy,
            sweep_trouble=self._sweeper.trouble,
        )

    # In the keeper's thread.

    def _dial(self, upstream: str) -> Relay:
        """Begin to relay to another hub."""
        address = addresses.parse(upstream)
        ask = functools.partial(self._asked_from_above, upstream)
        sender = BlobSender(self.keeper.blob_queue, self.keeper.blobs, upstream)
        relay = Relay(address, self._home_id, kernel.host(), ask, sender, trusted=self._pace.trusted_network)
        self._loop.call_soon_threadsafe(self._run_relay, relay)
        return relay

    def _run_relay(self, relay: Relay) -> None:
        task = asyncio.ensure_future(relay.run(self._wake.set))
        self._relaying.add(task)

    def _acknowledge(self, safe: dict[str, int]) -> None:
        broken = dict(self.keeper.inboxes.broken)
        self._loop.call_soon_threadsafe(self._server.downstreams.acknowledge, safe, broken)

    def _keep(self) -> None:
        """Keep until nobody needs it; whatever happens, the program ends with this, and the lock goes with it."""
        try:
            self._keep_on()
            if self._home.holds(self._lock):
                self.keeper.close()
        except Exception as error:  # the spools are safe, and the next hub reads them
            self._complain(f"{type(error).__name__}: {error}")
        finally:
            self._left = True
            self._turn_away()
            self.taking_in.refuse("the hub is leaving; do it again")
            self._loop.call_soon_threadsafe(self._ended.set)

    def _keep_on(self) -> None:
        idle_since = time.monotonic()
        self.keeper.upstreams.take_up()
        while not self._stopping.is_set():
            if not self._home.holds(self._lock):  # the home was removed: what is there now is another hub's
                self.keeper.let_go()
                break
            begun = time.monotonic()
            asked = self._take_asked()
            seals = [item for item in asked if isinstance(item, _Seal)]
            more = False
            try:
                for item in asked:
                    if isinstance(item, _Act):
                        self._do(item)
                self.keeper.trouble = self.keeper.watcher.trouble = ""
                change, more = self.keeper.turn(seal={item.run for item in seals} or None)
                failure = ""
                if change.spans or change.events or change.points:
                    self._loop.call_soon_threadsafe(self._server.publish, change)
            except Exception as error:  # whatever it is: the spools are safe, and a new start may cure it
                self.keeper.start_over(error)
                failure = self.keeper.trouble
                self._complain(f"{failure}; trying again")
                self._stopping.wait(_RETRY_S)
            for item in seals:
                self._loop.call_soon_threadsafe(_answer, item.answer, failure)
            if not failure:
                self._sweep()  # when everybody has an answer
                self._sweep_blobs(unheard=more)
            taking = self.taking_in.step(lambda news: self._loop.call_soon_threadsafe(self._server.publish, news))
            more = more or taking
            if (
                more
                or not self.keeper.idle
                or self._sweeper.busy
                or self.keeper.blob_collector.busy
                or asked
                or self._stays
            ):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self._pace.idle_s:
                break
            if not more:  # many who say little must not cost much: looking at them takes a tenth of the time at most
                took_s = time.monotonic() - begun
                self._wake.wait(max(self._pace.turn_s, min(_REST * took_s, self.keeper.flush_in_s)))

    @property
    def _stays(self) -> bool:
        """Whether others may come to it at any time, who could not start one."""
        return self._listen is not None or self._forms is not None

    def _complain(self, text: str) -> None:
        """Put a sentence into the log, if it is a new one; the disk that the log is on may be full."""
        if text == self._complained[0] and time.monotonic() - self._complained[1] < _AGAIN_S:
            return
        self._complained = text, time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"vedette hub: {text}\n")
            sys.stderr.flush()

    def _sweep(self) -> None:
        def living() -> set[str]:
            origins = [self.keeper.readers[name].origin for name in self.keeper.living()]
            return {origin.span for origin in origins if origin is not None}

        was_busy = self._sweeper.busy
        self._sweeper.sweep(self.keeper.own.say, living)
        if was_busy and not self._sweeper.busy:
            self.keeper.blob_collector.ask()

    def _sweep_blobs(self, *, unheard: bool) -> None:
        self.keeper.blob_collector.step(lambda: not unheard and not self.taking_in.busy and self.keeper.has_read_all)

    def _turn_away(self) -> None:
        for item in self._take_asked():
            if isinstance(item, _Seal):
                self._loop.call_soon_threadsafe(_answer, item.answer, "the hub is leaving")
            else:
                self._loop.call_soon_threadsafe(_fail, item.answer, HubError("the hub is leaving"))

    def _do(self, item: _Act) -> None:
        try:
            result = item.do(self.keeper)
        except Exception as error:
            self._loop.call_soon_threadsafe(_fail, item.answer, HubError(f"{type(error).__name__}: {error}"))
        else:
            self._loop.call_soon_threadsafe(_answer, item.answer, result)

    def _take_asked(self) -> list[_Seal | _Act]:
        asked = []
        with contextlib.suppress(queue.Empty):
            while True:
                asked.append(self._asked.get_nowait())
        return asked


def _answer(answer: "asyncio.Future[Any]", result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
