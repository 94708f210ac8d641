"""Live changes: who watches what, and what they are told, encoded once for all who watch the same.

A viewer is told at most five times a second that something has changed, not what: it asks for what it shows. One that
does not read is told, when it reads again, that it has missed something.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from vedette.access.home_access import HomeAccess
from vedette.query.listing import Listing
from vedette.query.unsealed import UnsealedPoints
from vedette.views.web.listener import HubListener
from vedette.views.web.replies import Refusal
from vedette.wire import Change

_LEAST_S = 0.2  # between two words to a viewer
_BEAT_S = 15.0
_MOST_BEHIND = 8  # words that a viewer may leave unread
_MOST_VIEWERS = 1000
_MOST_RUNS = 500  # in one word; more is everything


class News(Struct):
    """What has changed: which runs, and of what kind it was."""

    runs: list[str] = []
    spans: bool = False
    events: bool = False
    points: list[str] = []  # runs and processes with new points
    missed: bool = False  # read everything again
    hub: bool = True  # whether somebody would tell


class Viewer:
    """One who listens."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[bytes] = asyncio.Queue(_MOST_BEHIND)

    def tell(self, word: bytes, missed: bytes) -> None:
        """Put a word into its queue; when that is full, one word stands for all."""
        if self.words.full():
            while not self.words.empty():
                self.words.get_nowait()
            word = missed
        self.words.put_nowait(word)


class Live:
    """Tells viewers what the hub says, while the server lives."""

    def __init__(self, home: HomeAccess, listing: Listing, unsealed: UnsealedPoints) -> None:
        self._listener = HubListener(home, listing, unsealed, self._tell_later)
        self._listing = listing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scopes: dict[str, set[Viewer]] = {}
        self._pending: dict[str, News] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = 0.0
        self._closed = False
        self.encoded = 0  # words, however many have read each

    @property
    def viewers(self) -> int:
        """How many listen."""
        return sum(len(viewers) for viewers in self._scopes.values())

    def start(self) -> None:
        """Begin, in the event loop that serves."""
        self._loop = asyncio.get_running_loop()
        self._listener.start()

    def close(self) -> None:
        """Listen no more, and let all viewers go."""
        self._closed = True
        self._listener.close()
        for viewers in self._scopes.values():
            for viewer in viewers:
                viewer.tell(b"", b"")

    # In the event loop.

    async def watch(self, run: str) -> AsyncIterator[bytes]:
        """Yield what changes in a run, or in any, as server-sent events; a beat when nothing does."""
        if self.viewers >= _MOST_VIEWERS:
            raise Refusal(503, f"{_MOST_VIEWERS} viewers are here already")
        viewer = Viewer()
        self._scopes.setdefault(run, set()).add(viewer)
        self._listener.watch(self._scopes)
        try:
            yield b"retry: 2000\n" + self._word(News(hub=self._listener.connected), "hello")
            while not self._closed:
                try:
                    word = await asyncio.wait_for(viewer.words.get(), _BEAT_S)
                except TimeoutError:
                    word = b": still here\n\n"
                if not word:
                    return
                yield word
        finally:
            viewers = self._scopes.get(run, set())
            viewers.discard(viewer)
            if not viewers:
                self._scopes.pop(run, None)
                self._pending.pop(run, None)
            self._listener.watch(self._scopes)

    def _tell_later(self, change: Change) -> None:
        """Have viewers told; it is called by the thread that listens to the hub."""
        with contextlib.suppress(RuntimeError):  # the loop is over
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._take, change)

    def _take(self, change: Change) -> None:
        touched = {span.partition("/")[0] for span in (*change.spans, *change.events, *change.points)}
        for scope in self._scopes:
            if not scope or scope in touched or change.missed:
                self._gather(self._pending.setdefault(scope, News()), scope, change, touched)
        self._hurry()

    @staticmethod
    def _gather(news: News, scope: str, change: Change, touched: set[str]) -> None:
        def own(spans: list[str]) -> list[str]:
            return spans if not scope else [span for span in spans if span.partition("/")[0] == scope]

        news.missed = news.missed or change.missed
        news.spans = news.spans or bool(own(change.spans))
        news.events = news.events or bool(own(change.events))
        news.points = sorted({*news.points, *own(change.points)})
        news.runs = sorted({*news.runs, *(touched if not scope else {scope} & touched)})
        if len(news.runs) > _MOST_RUNS or len(news.points) > _MOST_RUNS:
            news.missed, news.runs, news.points = True, [], []

    def _hurry(self) -> None:
        if self._timer is None and self._pending and self._loop is not None:
            wait_s = max(0.0, self._told_at + _LEAST_S - self._loop.time())
            self._timer = self._loop.call_later(wait_s, self._tell)

    def _tell(self) -> None:
        assert self._loop is not None
        self._timer = None
        self._told_at = self._loop.time()
        pending, self._pending = self._pending, {}
        for scope, news in pending.items():
            word, missed = self._word(news), b""
            for viewer in self._scopes.get(scope, ()):
                if viewer.words.full() and not missed:
                    missed = self._word(News(missed=True, hub=self._listener.connected))
                viewer.tell(word, missed)

    def _word(self, news: News, event: str = "change") -> bytes:
        self.encoded += 1
        data = msgspec.json.encode(news)
        return b"event: %s\nid: %s\ndata: %s\n\n" % (event.encode(), self._listing.cursor().encode(), data)


async def live(live_one: Live, run: str, receive: Any, send: Any) -> None:
    """Serve one viewer until it is gone."""
    words = live_one.watch(run)
    first = await anext(words)
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def speak() -> None:
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for word in words:
            await send({"type": "http.response.body", "body": word, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def hear() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(speak()), asyncio.ensure_future(hear())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await words.aclose()  # type: ignore[attr-defined]
