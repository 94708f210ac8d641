"""What every HTTP listener promises: nobody gets past the one guard. A new listener is a row of LISTENERS."""

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests import hostile_requests
from tests.hostile_requests import Good
from tests.moments import METRICS, moment
from tests.rooms import web
from vedette import guard
from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.hub.forms import Forms, FormServer
from vedette.hub.peers.address import Address
from vedette.sinks import prometheus
from vedette.store.sqlite import SqliteStore

TOKEN = "the-token-of-this-page"
FORM = (("Content-Type", "application/x-www-form-urlencoded"),)
JSON = (("Content-Type", "application/json"),)


class Listener(NamedTuple):
    """How to open one, and requests that it answers."""

    opened: Callable[[Home], contextlib.AbstractContextManager[int]]
    good: tuple[Good, ...]


@contextlib.contextmanager
def _page(home: Home, token: str = "") -> Iterator[int]:
    sink = prometheus.open(prometheus.Config(token=token), METRICS)
    try:
        sink.put(moment())
        yield sink.port
    finally:
        sink.close()


@contextlib.contextmanager
def _web(home: Home) -> Iterator[int]:
    home.prepare()
    SqliteStore(home.store).close()
    with web.site(HomeAccess(home)) as site:
        yield site.port


@contextlib.contextmanager
def _heflwr(home: Home) -> Iterator[int]:
    home.prepare()

    async def in_keeper(_act):
        return []

    server = FormServer(Address("", "127.0.0.1", 0), Forms(home, in_keeper, Counter()))
    port = int(server.open().rpartition(":")[2])
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(60)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


LISTENERS = {
    "web": Listener(_web, (
        Good("GET", "/api/about", token=web.TOKEN), Good("POST", "/api/share", JSON, b"{}", web.TOKEN),
    )),
    "prometheus": Listener(_page, (Good("GET", "/metrics"),)),
    "prometheus with a token": Listener(lambda home: _page(home, TOKEN), (Good("GET", "/metrics", token=TOKEN),)),
    "heflwr": Listener(_heflwr, (Good("POST", "/simple_log", FORM, b"identifier=a&message=b"),)),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTENERS)
def test_no_attack_is_answered(name, home):
    """Every attack of the corpus is refused by every listener, which answers good requests before and after."""
    listener = LISTENERS[name]
    with listener.opened(home) as port:
        assert [hostile_requests.send(port, good)[0] for good in listener.good] == [200] * len(listener.good)
        assert hostile_requests.answered(port, listener.good) == []
        assert [hostile_requests.send(port, good)[0] for good in listener.good] == [200] * len(listener.good)


@pytest.mark.parametrize("name", LISTENERS)
def test_the_corpus_finds_a_listener_without_a_guard(name, home, monkeypatch):
    """The corpus is not blind: where the guard lets everybody in, attacks of each of its kinds are answered."""
    monkeypatch.setattr(guard, "judge", lambda *_: guard.Verdict(who="owner"))
    listener = LISTENERS[name]
    with listener.opened(home) as port:
        found = {kind for kind, _, status in hostile_requests.answered(port, listener.good) if status < 400}
    assert found >= {"host", "origin", "site", *(["token"] if listener.good[0].token else [])}


def test_a_tunnel_and_names_of_this_machine_are_let_in(home):
    """Another port in Host, as behind an ssh tunnel, and every name of loopback are answered by all of them."""
    for listener in LISTENERS.values():
        with listener.opened(home) as port:
            for host in (
                "localhost:9",
                "LOCALHOST",
                "[::1]:{port}",
                "127.0.0.2",
                "x.localhost:9",
                "[::ffff:127.0.0.1]",
            ):
                attack = hostile_requests.Attack(host, "host", (), host)
                assert hostile_requests.send(port, listener.good[0], attack)[0] == 200, host


def test_a_port_that_is_open_says_nothing_first(home):
    """Nobody hears anything before he has asked."""
    for listener in LISTENERS.values():
        with listener.opened(home) as port, socket.create_connection(("127.0.0.1", port)) as peer:
            peer.settimeout(0.05)
            with pytest.raises(TimeoutError):
                peer.recv(1)
