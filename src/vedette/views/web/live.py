"""Live changes for viewers: each message is encoded once for all who watch the same run.

A viewer learns at most five times a second which runs have changed, and in which way, but not the new values: it then
asks for what it shows.
A viewer that reads too slowly gets one message that says it has missed something.
Whoever came by a link is told only of the runs that it shows when the message is sent.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

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
_STILL_HERE = b"event: still-here\ndata: {}\n\n"
_MOST_BEHIND = 8  # messages that a viewer may leave unread
_MOST_VIEWERS = 1000  # of the owner, and as many who came by a link
_MOST_RUNS = 500  # runs in one message; if more have changed, it says `missed`
_MOST_SPANS = 20_000  # that are gathered for one message


class News(Struct):
    """What has changed: which runs, and what kind of change it was."""

    runs: list[str] = []
    spans: bool = False
    events: bool = False
    points: list[str] = []  # runs and processes with new points
    missed: bool = False  # read everything again
    hub: bool = True  # whether a hub is connected, which reports changes
    trouble: str = ""  # why the hub does not answer, in a sentence, though it runs


Sees = Callable[[], Awaitable[frozenset[str]]]  # the runs that somebody with a link may see now


class Topic(NamedTuple):
    """What some viewers watch together: a run, or all of them (""); `links`: those that they came by, if any."""

    run: str
    links: str = ""


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

    def __init__(self, home: HomeAccess, listing: Listing, unsealed: UnsealedPoints, *others: Listing) -> None:
        """`listing`: the owner's; `others` are kept up to date, too."""
        self._updater = Updater(home, (listing, *others), unsealed, self._send_later)
        self._listing = listing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._topics: dict[Topic, set[Viewer]] = {}
        self._sees: dict[str, Sees] = {}  # by the links that viewers came by
        self._pending: dict[Topic, Change] = {}
        self._sending: dict[Topic, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at = 0.0
        self._closed = False
        self.encoded = 0  # messages, each counted once however many viewers got it

    @property
    def viewers(self) -> int:
        """How many viewers there are."""
        return sum(len(viewers) for viewers in self._topics.values())

    def start(self) -> None:
        """Start following the hub; call it in the event loop that serves."""
        self._loop = asyncio.get_running_loop()
        self._updater.start()

    def close(self) -> None:
        """Stop following the hub, and end the streams of all viewers."""
        self._closed = True
        self._updater.close()
        for viewers in self._topics.values():
            for viewer in viewers:
                viewer.send(b"", b"")

    # In the event loop.

    async def watch(self, topic: Topic, sees: Sees | None = None) -> AsyncIterator[bytes]:
        """Yield the changes of a run, or of all, as server-sent events; a heartbeat when nothing changes.

        `sees`: what somebody who came by a link may see.
        """
        if sum(len(some) for one, some in self._topics.items() if bool(one.links) == bool(sees)) >= _MOST_VIEWERS:
            raise Refusal(503, f"{_MOST_VIEWERS} viewers are connected already")
        viewer = Viewer()
        self._topics.setdefault(topic, set()).add(viewer)
        if sees is not None:
            self._sees[topic.links] = sees
        self._watch_topics()
        try:
            yield b"retry: 2000\n" + self._encode(News(), topic, "hello")
            while not self._closed:
                try:
                    message = await asyncio.wait_for(viewer.queue.get(), _HEARTBEAT_S)
                except TimeoutError:
                    message = _STILL_HERE
                if not message:
                    return
                yield message
        finally:
            viewers = self._topics.get(topic, set())
            viewers.discard(viewer)
            if not viewers:
                self._topics.pop(topic, None)
                self._pending.pop(topic, None)
            self._watch_topics()

    def _watch_topics(self) -> None:
        self._updater.watch({topic.run for topic in self._topics})
        links = {topic.links for topic in self._topics}
        self._sees = {one: sees for one, sees in self._sees.items() if one in links}

    def _send_later(self, change: Change) -> None:
        """Send a change to viewers soon; the thread of the updater calls this."""
        with contextlib.suppress(RuntimeError):  # the loop is over
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._take, change)

    def _take(self, change: Change) -> None:
        touched = {run_of(span) for span in (*change.spans, *change.events, *change.points)}
        for topic in self._topics:
            if not topic.run or topic.run in touched or change.missed:
                shown = change if not topic.run else _within(change, frozenset([topic.run]))
                self._pending[topic] = _joined(self._pending.get(topic, Change()), shown)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._pending and self._loop is not None:
            wait_s = max(0.0, self._sent_at + _LEAST_S - self._loop.time())
            self._timer = self._loop.call_later(wait_s, self._send)

    def _send(self) -> None:
        assert self._loop is not None
        self._timer = None
        self._sent_at = self._loop.time()
        pending, self._pending = self._pending, {}
        for topic, change in pending.items():
            if not topic.links:
                self._tell(topic, change)
            elif topic in self._sending:  # the store is slow: what comes meanwhile is told together
                self._pending[topic] = change
            elif (sees := self._sees.get(topic.links)) is not None:
                self._sending[topic] = self._loop.create_task(self._send_narrowed(topic, change, sees))
                self._sending[topic].add_done_callback(functools.partial(self._sent, topic))

    def _sent(self, topic: Topic, _: asyncio.Task[None]) -> None:
        del self._sending[topic]
        self._schedule()

    async def _send_narrowed(self, topic: Topic, change: Change, sees: Sees) -> None:
        """Tell those who came by a link what they may see of a change, if that is anything."""
        try:
            shown = _within(change, await sees())
        except Exception:  # the store cannot be read now: what they ask for next is judged anew
            shown = Change(missed=True)
        if shown != Change():
            self._tell(topic, shown)

    def _tell(self, topic: Topic, change: Change) -> None:
        message, missed = self._encode(_news(change), topic), b""
        for viewer in self._topics.get(topic, ()):
            if viewer.queue.full() and not missed:
                missed = self._encode(News(missed=True), topic)
            viewer.send(message, missed)

    def _encode(self, news: News, topic: Topic, event: str = "change") -> bytes:
        self.encoded += 1
        news.hub = self._updater.connected
        news.trouble = self._updater.trouble
        cursor = self._listing.cursor()
        if topic.links:  # what happens elsewhere in the home is not theirs to know
            cursor, news.trouble = "", "the newest values are missing" if news.trouble else ""
        data = msgspec.json.encode(news)
        return b"event: %s\nid: %s\ndata: %s\n\n" % (event.encode(), cursor.encode(), data)


def _within(change: Change, runs: frozenset[str]) -> Change:
    """Return what a change says of some runs."""

    def own(spans: list[str]) -> list[str]:
        return [span for span in spans if run_of(span) in runs]

    return Change(own(change.spans), own(change.events), own(change.points), change.missed)


def _joined(before: Change, then: Change) -> Change:
    """Return two changes as one; one of too many spans says only that something was missed."""
    spans, events, points = (
        sorted({*getattr(before, name), *getattr(then, name)}) for name in ("spans", "events", "points")
    )
    if before.missed or then.missed or max(map(len, (spans, events, points))) > _MOST_SPANS:
        return Change(missed=True)
    return Change(spans, events, points)


def _news(change: Change) -> News:
    """Return a change as viewers are told of it."""
    runs = sorted({run_of(span) for span in (*change.spans, *change.events, *change.points)})
    if len(runs) > _MOST_RUNS or len(change.points) > _MOST_RUNS:
        return News(missed=True, spans=bool(change.spans), events=bool(change.events))
    return News(runs, bool(change.spans), bool(change.events), change.points, change.missed)


async def live(live_one: Live, topic: Topic, sees: Sees | None, receive: Any, send: Any) -> None:
    """Serve one viewer until it is gone."""
    messages = live_one.watch(topic, sees)
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
