"""The keeper's thread: it takes turns until nobody needs the hub, and between two turns does what others ask of it.

The event loop asks by a queue, and is answered by futures that are completed in the loop.
"""

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from vedette import wire
from vedette.errors import DamagedError, HubError
from vedette.fileio import identity
from vedette.home import Home
from vedette.hub.alarm import Alarm
from vedette.hub.log import Log
from vedette.hub.turn import takein
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.seal_wish import SealWish
from vedette.hub.turn.sweeper import Sweeper
from vedette.hub.turn.turns import Turns
from vedette.settings import Hub

_RETRY_S = 1.0
_MOST_RETRY_S = 60.0  # a damaged store does not mend itself
_REST = 9.0  # the pause after a turn, in lengths of that turn: many quiet spools take at most a tenth of the time
_RELAYS_S = 0.2  # how long one turn does what relays ask for
_LEAVING = "the hub is leaving"
T = TypeVar("T")


class _Seal(NamedTuple):
    wish: SealWish
    until: float  # it is answered by then
    answer: "asyncio.Future[bool]"


class _Act(NamedTuple):
    do: Callable[[Keeper], Any]
    answer: "asyncio.Future[Any]"
    relay: str  # that asks for it; "" for this home's own


class KeeperThread:
    """Runs a keeper. `start`, `seal`, `act`, `take_in` and `purged` are called in the event loop, `stop` anywhere."""

    def __init__(
        self, home: Home, lock: int, keeper: Keeper, sweeper: Sweeper, pace: Hub, log: Log, pids: int | None = None
    ) -> None:
        """`pids`: the socket that processes send their pidfds to."""
        self.alarm = Alarm(home.spool, pids)
        self._home = home
        self._lock = lock
        self._keeper = keeper
        self._sweeper = sweeper
        self._pace = pace
        self._log = log
        self._requests: queue.SimpleQueue[_Seal | _Act] = queue.SimpleQueue()
        self._seals: list[_Seal] = []  # that are not answered yet
        self._of_relays: list[_Act] = []  # what relays ask for, and there was no time for yet
        self._turns = Turns(keeper.trust.holder_of_relay)
        self._taking_in = takein.Queue(keeper)
        self._stopping = threading.Event()
        self._left = False
        self._store = identity(home.store)
        self._resume_at = self._pause_s = 0.0  # while the store is damaged, no turn is taken before that
        self._thread = threading.Thread(target=self._run, name="keeper")

    def start(self, publish: Callable[[wire.Change], None], ended: Callable[[], None], *, stays: bool) -> None:
        """Begin to take turns. `publish` and `ended` are called in the event loop that this is called in.

        `stays`: the hub goes on when it is idle, since others connect to it who could not start one.
        """
        self._loop = asyncio.get_running_loop()
        self._publish = publish
        self._ended = ended
        self._stays = stays
        self._thread.start()

    def stop(self) -> None:
        """Have it end soon: it seals everything first."""
        self._stopping.set()
        self.alarm.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    async def seal(self, run: str, within_s: float = math.inf) -> bool:
        """Have all that a run has logged put into the store; tell whether that was done in time.

        Raise HubError if it failed.
        """
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._request(_Seal(SealWish(run), time.monotonic() + within_s, answer))
        return await answer

    async def act(self, do: Callable[[Keeper], T], relay: str = "") -> T:
        """Do something in this thread, between two turns; return its result, raise HubError if it failed.

        `relay`: who asks for it, if it is one. What they all ask for gets a part of the time, and they take turns.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._request(_Act(do, answer, relay))
        return await answer

    def take_in(self, path: str, tell: Callable[[], object]) -> takein.TakeIn:
        """Have a path taken in; `tell` is called, in the loop, when that is over."""
        loop = asyncio.get_running_loop()
        asked = self._taking_in.ask(path, lambda: loop.call_soon_threadsafe(tell))
        self.alarm.set()
        return asked

    def purged(self) -> None:
        """Take note that something was removed for good, and is to be deleted."""
        # It stays so until a sweep finds nothing to delete: nobody is told too early that all is deleted.
        self._sweeper.busy = True
        self.alarm.set()

    def _request(self, request: _Seal | _Act) -> None:
        self._requests.put(request)
        self.alarm.set()
        if self._left:  # the thread does not look any more
            self._refuse_requests()

    # All below runs in the thread itself, but for `_refuse_requests`.

    def _run(self) -> None:
        """Keep until nobody needs it; whatever happens, the program ends with this thread, and its lock is released."""
        try:
            self._take_turns()
            if self._is_ours:
                self._keeper.close()
        except Exception as error:  # the spools are safe, and the next hub reads them
            self._log.complain(f"{type(error).__name__}: {error}")
        finally:
            self._left = True
            self._refuse_requests()
            self._taking_in.refuse(f"{_LEAVING}; do it again")
            self._loop.call_soon_threadsafe(self._ended)

    def _take_turns(self) -> None:
        idle_since = connected_at = time.monotonic()
        self._keeper.upstreams.resume_blobs()
        while not self._stopping.is_set():
            if not self._is_ours:
                self._keeper.let_go()
                break
            begun = time.monotonic()
            requests = self._take_requests()
            more = self._turn(requests)
            more = self._taking_in.step(self._tell) or more
            if more or requests or self._stays or not self._keeper.is_stranded:
                connected_at = time.monotonic()
            elif time.monotonic() - connected_at > self._pace.without_upstream_s:
                break  # what is meant for another hub stays on disk, and the next hub sends it
            if more or requests or self._stays or self._busy:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self._pace.idle_s:
                break
            if not more:
                took_s = time.monotonic() - begun
                if self._keeper.readers:
                    with contextlib.suppress(Exception):  # too many open files, say: the first points try it again
                        self._keeper.store.prepare()
                self.alarm.wait(max(self._pace.turn_s, min(_REST * took_s, self._keeper.flush_in_s)))

    @property
    def _is_ours(self) -> bool:
        """Whether home and store are still those that we began with: what is there now may be another hub's."""
        return self._home.holds(self._lock) and identity(self._home.store) == self._store

    @property
    def _busy(self) -> bool:
        return not self._keeper.idle or self._sweeper.busy or self._keeper.blob_collector.busy

    def _turn(self, requests: list[_Seal | _Act]) -> bool:
        """Answer requests and do one pass; return whether there is more to do at once."""
        self._seals += [request for request in requests if isinstance(request, _Seal)]
        acts = [request for request in requests if isinstance(request, _Act)]
        self._of_relays += [act for act in acts if act.relay]
        more = False
        try:
            for act in acts:
                if not act.relay:
                    self._do(act)
            self._do_for_relays()
            if time.monotonic() < self._resume_at:
                self._fail_seals()
                return False
            self._keeper.trouble = self._keeper.watcher.trouble = ""
            change, more = self._keeper.step([seal.wish for seal in self._seals])
            if change.spans or change.events or change.points:
                self._tell(change)
            for trouble in self._keeper.helper_troubles:
                self._log.complain(trouble)
        except Exception as error:  # whatever it is: the spools are safe, and it may help to start over
            self._keeper.start_over(error)
            self._log.complain(f"{self._keeper.trouble}; trying again")
            self._fail_seals()
            if isinstance(error, DamagedError):
                self._pause_s = min(max(_RETRY_S, 2 * self._pause_s), _MOST_RETRY_S)
                self._resume_at = time.monotonic() + self._pause_s
            else:
                self._stopping.wait(_RETRY_S)
            return more
        self._pause_s = 0.0
        self._answer_seals()
        self._sweep(more=more)  # after everybody has an answer
        return more or bool(self._seals or self._of_relays)

    def _do_for_relays(self) -> None:
        """Do what relays ask for, for a while; the rest is done in the next turns."""
        until = time.monotonic() + _RELAYS_S
        waiting = self._turns.sort(self._of_relays, lambda act: act.relay)
        done = 0
        while done < len(waiting) and (not done or time.monotonic() < until):
            self._turns.had(waiting[done].relay)
            self._do(waiting[done])
            done += 1
        self._of_relays = waiting[done:]

    def _fail_seals(self) -> None:
        """Tell those who wait for a seal why there is none."""
        for seal in self._seals:
            self._loop.call_soon_threadsafe(_fail, seal.answer, HubError(self._keeper.trouble))
        self._seals.clear()

    def _answer_seals(self) -> None:
        """Answer those who wait for a seal that is done, or for whom the time is over."""
        now = time.monotonic()
        for seal in self._seals:
            if seal.wish.is_done or now >= seal.until:
                self._loop.call_soon_threadsafe(_answer, seal.answer, seal.wish.is_done)
        self._seals = [seal for seal in self._seals if not seal.wish.is_done and now < seal.until]

    def _tell(self, change: wire.Change) -> None:
        self._loop.call_soon_threadsafe(self._publish, change)

    def _sweep(self, *, more: bool) -> None:
        keeper = self._keeper

        def living() -> set[str]:
            origins = [keeper.readers[name].origin for name in keeper.living()]
            return {origin.span for origin in origins if origin is not None}

        was_busy = self._sweeper.busy
        self._sweeper.sweep(keeper.own.say, living)
        if was_busy and not self._sweeper.busy:
            keeper.blob_collector.ask()
        keeper.blob_collector.step(lambda: not more and not self._taking_in.busy and keeper.has_read_all)

    def _do(self, request: _Act) -> None:
        try:
            result = request.do(self._keeper)
        except Exception as error:
            failure = HubError(f"{type(error).__name__}: {error}")
            self._loop.call_soon_threadsafe(_fail, request.answer, failure)
        else:
            self._loop.call_soon_threadsafe(_answer, request.answer, result)

    def _take_requests(self) -> list[_Seal | _Act]:
        requests = []
        with contextlib.suppress(queue.Empty):
            while True:
                requests.append(self._requests.get_nowait())
        return requests

    def _refuse_requests(self) -> None:
        for request in (*self._take_requests(), *self._seals, *self._of_relays):
            self._loop.call_soon_threadsafe(_fail, request.answer, HubError(_LEAVING))


def _answer(answer: "asyncio.Future[Any]", result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
