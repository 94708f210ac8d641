"""Live changes for viewers: each message is encoded once for all who watch the same run.

A viewer learns at most five times a second which runs have changed, and in which way, but not the new values: it then
asks for what it shows.
A viewer that reads too slowly gets one message that says it has missed something.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from vedette.access.home_access import HomeAccess
from vedette.asgi import Refusal
from vedette.ids import run_of
from vedette.query.listing import Listing
from vedette.query.unsealed import UnsealedPoints
from vedette.views.web.updater import Updater
from vedette.wire import Change

_LEAST_S = 0.2  # the least pause between two messages to a viewer
_HEARTBEAT_S = 15.0
_MOST_BEHIND = 8  # messages that a viewer may leave unread
_MOST_VIEWERS = 1000
_MOST_RUNS = 500  # runs in one message; if more have changed, it says `missed`


class News(Struct):
    """What has changed: which runs, and what kind of change it was."""

    runs: list[str] = []
    spans: bool = False
    events: bool = False
    points: list[str] = []  # runs and processes with new points
    missed: bool = False  # read everything again
    hub: bool = True  # whether a hub is connected, which reports changes
    trouble: str = ""  # why the hub does not answer, in a sentence, though it runs


class Viewer:
    """One browser that watches."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(_MOST_BEHIND)

    def send(self, message: bytes, missed: bytes) -> None:
        """Put a message into the queue; when that is full, `missed` replaces all of it."""
        if self.queue.full():
            while not self.queue.empty():
                self.queue.get_nowait()
            message = missed
        self.queue.put_nowait(message)


class Live:
    """Passes the hub's changes on to viewers, while the server runs."""

    def __init__(self, home: HomeAccess, listing: Listing, unsealed: UnsealedPoints) -> None:
        self._updater = Updater(home, listing, unsealed, self._send_later)
        self._listing = listing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scopes: dict[str, set[Viewer]] = {}
        self._pending: dict[str, News] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at = 0.0
        self._closed = False
        self.encoded = 0  # messages, each counted once however many viewers got it

    @property
    def viewers(self) -> int:
        """How many viewers there are."""
        return sum(len(viewers) for viewers in self._scopes.values())

    def start(self) -> None:
        """Start following the hub; call it in the event loop that serves."""
        self._loop = asyncio.get_running_loop()
        self._updater.start()

    def close(self) -> None:
        """Stop following the hub, and end the streams of all viewers."""
        self._closed = True
        self._updater.close()
        for viewers in self._scopes.values():
            for viewer in viewers:
                viewer.send(b"", b"")

    # In the event loop.

    async def watch(self, run: str) -> AsyncIterator[bytes]:
        """Yield the changes of a run, or of all, as server-sent events; a heartbeat when nothing changes."""
        if self.viewers >= _MOST_VIEWERS:
            raise Refusal(503, f"{_MOST_VIEWERS} viewers are connected already")
        viewer = Viewer()
        self._scopes.setdefault(run, set()).add(viewer)
        self._updater.watch(self._scopes)
        try:
            yield b"retry: 2000\n" + self._encode(News(hub=self._updater.connected), "hello")
            while not self._closed:
                try:
                    message = await asyncio.wait_for(viewer.queue.get(), _HEARTBEAT_S)
                except TimeoutError:
                    message = b": still here\n\n"
                if not message:
                    return
                yield message
        finally:
            viewers = self._scopes.get(run, set())
            viewers.discard(viewer)
            if not viewers:
                self._scopes.pop(run, None)
                self._pending.pop(run, None)
            self._updater.watch(self._scopes)

    def _send_later(self, change: Change) -> None:
        """Send a change to viewers soon; the thread of the updater calls this."""
        with contextlib.suppress(RuntimeError):  # the loop is over
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._take, change)

    def _take(self, change: Change) -> None:
        touched = {run_of(span) for span in (*change.spans, *change.events, *change.points)}
        for scope in self._scopes:
            if not scope or scope in touched or change.missed:
                self._gather(self._pending.setdefault(scope, News()), scope, change, touched)
        self._schedule()

    @staticmethod
    def _gather(news: News, scope: str, change: Change, touched: set[str]) -> None:
        def own(spans: list[str]) -> list[str]:
            return spans if not scope else [span for span in spans if run_of(span) == scope]

        news.missed = news.missed or change.missed
        news.spans = news.spans or bool(own(change.spans))
        news.events = news.events or bool(own(change.events))
        news.points = sorted({*news.points, *own(change.points)})
        news.runs = sorted({*news.runs, *(touched if not scope else {scope} & touched)})
        if len(news.runs) > _MOST_RUNS or len(news.points) > _MOST_RUNS:
            news.missed, news.runs, news.points = True, [], []

    def _schedule(self) -> None:
        if self._timer is None and self._pending and self._loop is not None:
            wait_s = max(0.0, self._sent_at + _LEAST_S - self._loop.time())
            self._timer = self._loop.call_later(wait_s, self._send)

    def _send(self) -> None:
        assert self._loop is not None
        self._timer = None
        self._sent_at = self._loop.time()
        pending, self._pending = self._pending, {}
        for scope, news in pending.items():
            message, missed = self._encode(news), b""
            for viewer in self._scopes.get(scope, ()):
                if viewer.queue.full() and not missed:
                    missed = self._encode(News(missed=True, hub=self._updater.connected))
                viewer.send(message, missed)

    def _encode(self, news: News, event: str = "change") -> bytes:
        self.encoded += 1
        news.trouble = self._updater.trouble
        data = msgspec.json.encode(news)
        return b"event: %s\nid: %s\ndata: %s\n\n" % (event.encode(), self._listing.cursor().encode(), data)


async def live(live_one: Live, run: str, receive: Any, send: Any) -> None:
    """Serve one viewer until it is gone."""
    messages = live_one.watch(run)
    first = await anext(messages)
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def stream() -> None:
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for message in messages:
            await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def until_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(stream()), asyncio.ensure_future(until_disconnect())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await messages.aclose()  # type: ignore[attr-defined]
