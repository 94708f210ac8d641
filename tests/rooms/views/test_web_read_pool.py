"""Questions to the store: a few at a time, and none for ever."""

import asyncio
import json
import threading

import pytest

from tests.rooms import web
from vedette.views.web.narrow import Sight
from vedette.views.web.read_pool import BusyError, ReadPool, SlowError
from vedette.views.web.replies import refuse
from vedette.views.web.state import AppState


@pytest.fixture
def access(make, store):
    make.run("r1", "first")
    return web.access(store)


def _endless(begun: threading.Event | None = None):
    def act(reader):
        if begun is not None:
            begun.set()
        words = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
        return reader.connection.execute(words).fetchone()

    return act


def test_a_question_that_never_ends_is_broken_off(access):
    """What takes too long is broken off and said in a sentence; the thread then answers others."""

    async def ask():
        pool = ReadPool(access, timeout_s=0.2)
        try:
            for _ in range(6):  # more than there are threads
                with pytest.raises(SlowError):
                    await pool.ask(_endless())
            return await pool.ask(lambda reader: reader.connection.execute("SELECT 7").fetchone())
        finally:
            pool.close()

    assert asyncio.run(ask()) == (7,)
    answer = refuse(SlowError())
    assert answer.status_code == 503
    assert "too long" in json.loads(answer.body)["error"]


def test_links_keep_the_owner_from_nothing(access, monkeypatch):
    """However much somebody with a link asks for, the owner's questions are answered meanwhile."""
    monkeypatch.setattr("vedette.views.web.read_pool._MOST_WAITING", 20)

    async def ask():
        state = AppState(access, web.KEY)
        sight, begun = Sight(state, ()), threading.Event()
        asking = [asyncio.ensure_future(sight.ask(lambda _, store: _endless(begun)(store._store))) for _ in range(20)]
        try:
            await asyncio.to_thread(begun.wait)
            with pytest.raises(BusyError):
                await sight.ask(lambda _, store: store)
            return await state.pool.ask(lambda reader: reader.connection.execute("SELECT 7").fetchone())
        finally:
            state.pool.close()
            state.link_pool.close()
            await asyncio.gather(*asking, return_exceptions=True)

    assert asyncio.run(asyncio.wait_for(ask(), 120)) == (7,)


def test_closing_breaks_off_what_is_being_read(access):
    """Nobody who ends the server waits for a question: its threads end."""

    async def ask():
        pool, begun = ReadPool(access, timeout_s=3600), threading.Event()
        asking = asyncio.ensure_future(pool.ask(_endless(begun)))
        await asyncio.to_thread(begun.wait)
        pool.close()
        with pytest.raises(SlowError):
            await asking

    asyncio.run(asyncio.wait_for(ask(), 120))
