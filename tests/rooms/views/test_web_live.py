"""Live changes: told once, encoded once, few a second, and never waited for."""

import asyncio
import contextlib
import json
import random
import socket
import time

import numpy as np
import pytest

from tests.rooms import web
from tests.rooms.conftest import BORN, SECOND
from tests.rooms.streaming import RUN, SERIES, Stream
from tests.rooms.told_hub import ToldHub
from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.query import unsealed
from vedette.query.listing import Listing
from vedette.query.unsealed import UnsealedPoints
from vedette.views.web import live, updater
from vedette.views.web.live import Live, Topic
from vedette.views.web.server import around
from vedette.views.web.state import AppState
from vedette.wire import UNSEALED, AskUnsealed, Change, Newest, Seal

_ASK_S = 0.1


@pytest.fixture(autouse=True)
def _brisk(monkeypatch):
    """Let a page be told, and a hub be asked, ten times as often as usual."""
    monkeypatch.setattr(live, "_LEAST_S", 0.02)
    monkeypatch.setattr(updater, "_ASK_S", _ASK_S)


class Listener:
    """A browser's ear."""

    def __init__(self, site: web.Site, run: str = "") -> None:
        self._peer = socket.create_connection(("127.0.0.1", site.port), timeout=60)
        head = f"GET /api/live?run={run} HTTP/1.1\r\nHost: {site.host}\r\nAuthorization: Bearer {site.token}\r\n\r\n"
        self._peer.sendall(head.encode())
        self._file = self._peer.makefile("rb")
        self.headers = b""
        self.heard = b""
        while (line := self._file.readline()) != b"\r\n":
            self.headers += line

    def word(self) -> tuple[str, dict]:
        """Wait for the next event."""
        event = ""
        while True:
            line = self._file.readline()
            assert line, "it ended"
            self.heard += line
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            if line.startswith(b"data: "):
                return event, json.loads(line[6:])

    def until(self, holds) -> dict:
        """Wait for an event of which something holds."""
        while True:
            _, told = self.word()
            if holds(told):
                return told

    def rest(self) -> bytes:
        """Wait until it ends; return what came before that."""
        found = b""
        with contextlib.suppress(OSError):
            while (line := self._file.readline()) not in (b"", b"0\r\n"):  # the last chunk is empty
                found += line
        return found

    def close(self) -> None:
        self._file.close()
        self._peer.close()


@contextlib.contextmanager
def _site(store, takes=(UNSEALED,), *, greets=True):
    access = web.access(store)
    room = AppState(access, web.KEY)
    with ToldHub(access.home, takes=takes, greets=greets) as hub, web.served(around(room)) as port:
        yield web.Site(port), hub, room


def test_a_change_is_told_to_those_it_concerns(store, make):
    """A viewer of all runs hears of each; a viewer of one hears of that one alone."""
    make.run("a")
    with _site(store) as (site, hub, _):
        everything, one = Listener(site), Listener(site, "a")
        assert b"text/event-stream" in one.headers
        assert everything.word()[0] == one.word()[0] == "hello"
        hub.tell(Change(spans=["b/1"], events=["b"]))
        assert everything.until(lambda told: "b" in told["runs"])["events"] is True
        hub.tell(Change(points=["a"]))
        told = one.until(lambda told: told["runs"])
        assert (told["runs"], told["points"], told["spans"]) == (["a"], ["a"], False)
        everything.close()
        one.close()


def test_a_hub_that_does_not_answer_is_said(store, monkeypatch):
    """Viewers are told why nothing new comes, also those who come later."""
    monkeypatch.setattr("vedette.access.follower.HELLO_TIMEOUT_S", 0.1)
    with _site(store, greets=False) as (site, _, _):
        early = Listener(site)
        assert "is it stopped?" in early.until(lambda told: told["trouble"])["trouble"]
        late = Listener(site)
        assert "is it stopped?" in late.word()[1]["trouble"]
        early.close()
        late.close()


def test_a_viewer_that_is_gone_is_forgotten(store, make):
    """When a browser goes away its place is free at once, though nothing changes."""
    make.run("a")
    with _site(store) as (site, _, room):
        listeners = [Listener(site) for _ in range(5)]
        assert [one.word()[0] for one in listeners] == ["hello"] * 5
        assert room.live.viewers == 5
        for one in listeners:
            one.close()
        deadline = time.monotonic() + 60
        while room.live.viewers:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_one_encoding_for_all_few_a_second_and_none_waited_for():
    """What a hundred viewers are told is encoded once; many changes are one word; who does not read has missed some."""

    async def scene():
        live = Live(HomeAccess(Home("/nowhere")), Listing(), UnsealedPoints())
        live._loop = asyncio.get_running_loop()
        reading = [live.watch(Topic("")) for _ in range(100)]
        idle = live.watch(Topic(""))
        for one in (*reading, idle):
            await anext(one)
        before = live.encoded
        words = 0
        for number in range(12):  # more than an idle one may leave unread
            for span in range(50):
                live._take(Change(spans=[f"r{number}-{span}"]))
            told = {await anext(one) for one in reading}
            assert len(told) == 1
            news = json.loads(next(iter(told)).split(b"data: ")[1])
            words += 1
            if len(news["runs"]) < 50:  # the first comes at once, the others together
                told = {await anext(one) for one in reading}
                words += len(told)
        assert live.encoded - before <= words + 2  # and "missed", for the idle one
        first = await anext(idle)
        assert b'"missed":true' in first
        for one in (*reading, idle):
            await one.aclose()
        assert live.viewers == 0

    asyncio.run(scene())


def test_the_store_is_read_once_at_a_time_for_who_came_by_a_link():
    """However slow the store is, one read is under way for a link; what changes meanwhile is told together."""

    async def scene():
        live = Live(HomeAccess(Home("/nowhere")), Listing(), UnsealedPoints())
        live._loop = asyncio.get_running_loop()
        reads, go = [], asyncio.Event()

        async def sees():
            reads.append(1)
            await go.wait()
            return frozenset(["r0", "r9"])

        watching = live.watch(Topic("", "link"), sees)
        await anext(watching)
        for number in range(10):
            live._take(Change(spans=[f"r{number}"]))
            await asyncio.sleep(2 * 0.02)
        assert len(reads) == 1
        go.set()
        told = [json.loads((await anext(watching)).split(b"data: ")[1])["runs"] for _ in range(2)]
        assert (told, len(reads)) == ([["r0"], ["r9"]], 2)
        await watching.aclose()

    asyncio.run(scene())


def test_a_viewer_hears_that_the_server_is_still_here(monkeypatch):
    """While nothing changes a viewer gets events that a page can see: it tells a dead tunnel by their absence."""
    monkeypatch.setattr(live, "_HEARTBEAT_S", 0.01)

    async def scene():
        live = Live(HomeAccess(Home("/nowhere")), Listing(), UnsealedPoints())
        watching = live.watch(Topic(""))
        await anext(watching)
        assert (await anext(watching)).startswith(b"event: still-here\ndata: ")
        await watching.aclose()

    asyncio.run(scene())


def test_a_run_that_is_watched_is_asked_for_and_not_sealed(store, make):
    """While somebody watches a run, the hub is asked for what waits of it, and seals nothing; an old hub is told to."""
    make.run("a")
    for takes, wanted, unwanted in (([UNSEALED], AskUnsealed, Seal), ([], Seal, AskUnsealed)):
        with _site(store, takes) as (site, hub, _):
            one = Listener(site, "a")
            _eventually(lambda: [asked for asked in hub.asked if isinstance(asked, wanted)])  # noqa: B023
            time.sleep(3 * _ASK_S)  # and once more
            assert not [asked for asked in hub.asked if isinstance(asked, unwanted)]
            assert all(asked.prefixes == ["a", "host-"] for asked in hub.asked if isinstance(asked, AskUnsealed))
            one.close()


class Chart:
    """A series as the page draws it: what is new is put behind what was there, and all is replaced when it must be."""

    def __init__(self, site: web.Site, name: str, tags: dict[str, str]) -> None:
        self._site, self._of, self._cursor = site, {"run": RUN, "name": name, "tags": tags}, None
        self.x = self.y = np.empty(0)
        self.appended = 0

    def fetch(self) -> int:
        """Ask for what is new; return how many points there are, as the server says."""
        head, drawn = self._site.draw(of=[self._of], width=4096, since=self._cursor)
        self._cursor = head["cursor"]
        for one, (x, y) in zip(head["series"], drawn, strict=True):
            self.appended += one["since"]
            self.x = np.concatenate((self.x, x)) if one["since"] else x
            self.y = np.concatenate((self.y, y)) if one["since"] else y
            assert one["count"] == len(self.x)
        return len(self.x)

    def check(self, stream: Stream, name: str, tags: dict[str, str]) -> None:
        """Compare with plain numpy over all that was logged."""
        step, _, value = stream.columns(name, tags)
        count = len(self.x)
        np.testing.assert_array_equal(self.x, step[:count])
        np.testing.assert_array_equal(self.y, value[:count])


def _watch_stream(home, chance, *, rounds=25):
    """Have a page watch a run that logs, and whose points are sealed, merged, and read by another hub meanwhile."""
    stream = Stream(home)
    state = AppState(HomeAccess(home), web.KEY)
    with ToldHub(home, takes=[UNSEALED]) as hub, web.served(around(state)) as port:
        hub.answers[AskUnsealed] = stream.answer
        site = web.Site(port)
        charts = [(Chart(site, name, tags), name, tags) for name, tags in SERIES]
        one = Listener(site, RUN)
        for _ in range(rounds):
            stream.log(chance.randint(1, 60))
            change = stream.turn(seal=chance.random() < 0.3)
            if chance.random() < 0.15:
                stream.tidy()
            if chance.random() < 0.1:
                stream.restart()
                stream.turn()
            hub.tell(change)
            for chart, name, tags in charts:
                chart.fetch()
                chart.check(stream, name, tags)
            time.sleep(chance.random() * 0.3 * _ASK_S)
        for chart, name, tags in charts:
            wanted = len(stream.columns(name, tags)[0])
            _eventually(lambda: chart.fetch() == wanted)  # noqa: B023
            chart.check(stream, name, tags)
            assert chart.appended
        for row in site.get(f"/api/runs/{RUN}")["series"]:
            _, _, value = stream.columns(row["name"], row["tags"])
            told = row["count"], row["min"], row["max"]
            assert told == (len(value), np.nanmin(value), np.nanmax(value))
        assert not [asked for asked in hub.asked if isinstance(asked, Seal)]
        one.close()
        _eventually(lambda: not state.unsealed.now())  # nobody watches: nothing is held
    stream.close()


def test_what_the_page_is_told_while_points_stream_in_is_true(home):
    """A chart of a living run is always a beginning of what was logged, each point once, and in the end all of it."""
    _watch_stream(home, random.Random(7))


def test_the_check_of_the_page_finds_points_that_are_told_twice(home, monkeypatch):
    """The check above is not blind: a server that does not leave out what is sealed is caught."""
    monkeypatch.setattr(unsealed, "_after", lambda groups, _sealed: groups)

    def watch():
        for seed in range(7, 12):  # on a busy machine a stream may be sealed before anybody asks for it
            _watch_stream(home, random.Random(seed), rounds=12)

    with pytest.raises(AssertionError):
        watch()


def _eventually(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_columns_of_living_runs_are_fresh(store, make):
    """A column of a metric has what waits in the hub, where that is newer than what is in the store."""
    make.run("a", state="running")
    for name in ("acc", "loss", "lr"):
        make.points("a", name, [1.0, 2.0])
    waiting = [
        Newest("a", "acc", {}, BORN + 9 * SECOND, 9.0),
        Newest("a", "lr", {}, BORN, 7.0),  # sealed meanwhile, and one more
        Newest("a", "new", {}, BORN, 5.0),
        Newest("a", "acc", {"split": "b"}, BORN + 9 * SECOND, 8.0),
    ]
    with _site(store) as (site, _, room):
        room.listing.fresh = waiting
        [row] = site.get("/api/runs?columns=metric.acc,metric.loss,metric.lr,metric.new,metric.none")["rows"]
    assert row["values"] == {"metric.acc": 9, "metric.loss": 2, "metric.lr": 2, "metric.new": 5, "metric.none": None}
