"""The hub's side of its listeners: started by name, begun when all is read, started again, and asked how they are."""

import asyncio
import contextlib
import os
import signal
import socket

import pytest

from tests import hostile_requests
from tests.hostile_requests import Good
from tests.ports import reserve_port
from vedette.errors import HubError, SettingError
from vedette.hub import listeners
from vedette.hub.listeners import Listeners
from vedette.hub.log import Log
from vedette.store.sqlite import SqliteStore

GOOD = Good("POST", "/simple_log", body=b"identifier=a&message=b")
BAD = Good("POST", "/simple_log", body=b"x")


@pytest.fixture
def opened(home):
    """Do something with the listeners of a home, in an event loop in which they are tended."""
    home.prepare()
    SqliteStore(home.store).close()

    def run(act, wanted=None, caught_up=None):
        async def read():
            pass

        async def main():
            found = Listeners(home, wanted or {"heflwr": ":0"}, caught_up or read, Log(home.log))
            try:
                [(_, where)] = await found.open()
                tending = asyncio.ensure_future(found.tend())
                await act(found, int(where.rpartition(":")[2]), tending)
                tending.cancel()
            finally:
                found.close()
            assert all(one.helper.pid is None for one in found._all)

        asyncio.run(asyncio.wait_for(main(), 120))

    return run


async def sent(port, good):
    return (await asyncio.to_thread(hostile_requests.send, port, good))[0]


async def until(check):
    while not check():  # noqa: ASYNC110 - a process is waited for
        await asyncio.sleep(0.02)


def test_it_answers_once_the_hub_has_read_all(opened):
    """A client waits until the hub says that it has caught up."""
    may, asked = asyncio.Event(), []

    async def caught_up():
        asked.append(True)
        await may.wait()

    async def act(found, port, tending):
        early = asyncio.ensure_future(sent(port, GOOD))
        await until(lambda: asked)
        await asyncio.sleep(0.2)
        assert not early.done()
        may.set()
        assert await early == 200
        assert found
        assert found.trouble == ""

    opened(act, caught_up=caught_up)


def test_what_was_refused_is_counted_over_restarts(opened):
    """What a process had refused before it was killed still counts; meanwhile its end is the trouble."""

    async def act(found, port, tending):
        for _ in range(2):
            assert await sent(port, BAD) == 400
        await until(lambda: found.refused == {"malformed": 2})
        os.kill(found._all[0].helper.pid, signal.SIGKILL)
        await until(lambda: found.trouble)
        assert found.trouble == "the listener heflwr was killed by signal 9; it is started again"
        found._all[0].helper._again_at = 0.0
        while True:
            with contextlib.suppress(OSError):
                if await sent(port, BAD) == 400:
                    break
            await asyncio.sleep(0.05)
        await until(lambda: found.refused == {"malformed": 3})

    port = reserve_port()
    opened(act, {"heflwr": f":{port}"})


def test_one_that_hangs_is_replaced(opened, monkeypatch):
    """A listener that reports nothing any more is killed, named as the trouble, and started again."""
    monkeypatch.setattr(listeners, "_SILENT_S", 3.0)

    async def act(found, port, tending):
        first = found._all[0].helper.pid
        await asyncio.sleep(3.5)  # one that lives reports by itself
        assert found._all[0].helper.pid == first
        os.kill(first, signal.SIGSTOP)
        await until(lambda: found.trouble)
        assert found.trouble == "the listener heflwr did not report any more, and was killed; it is started again"
        await until(lambda: found._all[0].helper.pid not in (None, first))

    opened(act)


def test_a_user_hears_why_it_does_not_listen(home, opened):
    """Where a user waits, a port that is taken is an error."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(HubError, match="another program listens"):
        opened(None, {"heflwr": f":{taken.getsockname()[1]}"})


def test_a_hub_that_leaves_begins_nothing(opened):
    """When the hub is leaving before it has read all, tending ends without a word."""

    async def leaving():
        raise HubError("the hub is leaving")

    async def act(found, port, tending):
        await asyncio.wait_for(tending, 60)

    opened(act, caught_up=leaving)


def test_the_check_is_asked_of_another_process():
    """A wrong name or address is a SettingError with the listener's own sentence; a good one is nothing."""
    listeners.check({"heflwr": ":0"})
    with pytest.raises(SettingError, match="did you mean 'heflwr'"):
        listeners.check({"heflwr": ":0", "hefler": ":0"})
    with pytest.raises(SettingError, match="ssh -L"):
        listeners.check({"heflwr": "0.0.0.0:0"})


def test_no_listener_at_all(home):
    """A hub without listeners has none to tend."""
    none = Listeners(home, {}, None, Log(home.log))
    asyncio.run(none.tend())
    assert not none
    assert none.refused == {}
