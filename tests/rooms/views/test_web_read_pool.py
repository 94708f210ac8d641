"""Questions to the store: a few at a time, and none for ever."""

import asyncio
import contextlib
import json
import os
import threading

import pytest

from tests.rooms import web
from tests.rooms.conftest import Maker
from vedette.errors import NotFoundError
from vedette.query.runs import select
from vedette.store.sqlite import SqliteStore
from vedette.views.web.guard import LINKS
from vedette.views.web.narrow import Sight
from vedette.views.web.pages import Pages
from vedette.views.web.read_pool import BusyError, ReadPool, SlowError
from vedette.views.web.replies import refuse
from vedette.views.web.server import Router
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


class _Held:
    """A reader of one run, which stops when it comes to what is below that."""

    def __init__(self, reader, begun, go_on):
        self._reader, self._begun, self._go_on = reader, begun, go_on

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def spans(self, query):
        if query.kind != "run":
            self._begun.set()
            self._go_on.wait(120)
        return self._reader.spans(query)


def test_a_list_that_a_link_reads_does_not_hold_up_the_owners(access):
    """The owner's list is read while that of somebody with a link takes long."""

    async def ask():
        state, begun, go_on = AppState(access, web.KEY), threading.Event(), threading.Event()
        act = lambda narrow, store: narrow.listing.look_at(_Held(store._store, begun, go_on), ["r1"])  # noqa: E731
        asking = asyncio.ensure_future(Sight(state, ()).ask(act))
        try:
            await asyncio.to_thread(begun.wait)
            owners = state.pool.ask(lambda reader: state.listing.look_at(reader, ["r1"]))
            [view], _ = await asyncio.wait_for(owners, 10)
        finally:
            go_on.set()
            [same], _ = await asking
            state.pool.close()
            state.link_pool.close()
        return view.name, same.name

    assert asyncio.run(asyncio.wait_for(ask(), 120)) == ("first", "first")


def test_pages_that_links_ask_for_take_none_of_the_owners_threads(access, monkeypatch):
    """While links keep all of their own threads busy, files of the page are served to the owner alone."""
    monkeypatch.setattr("vedette.views.web.read_pool._MOST_WAITING", 4)

    async def status(router, links):
        said = []
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], LINKS: links}
        await router(scope, None, lambda message: _note(said, message))
        return said[0]["status"]

    async def ask():
        state = AppState(access, web.KEY)
        router, begun = Router(state, Pages()), threading.Event()
        asking = [asyncio.ensure_future(state.link_pool.ask(_endless(begun))) for _ in range(4)]
        try:
            await asyncio.to_thread(begun.wait)
            return await status(router, ()), await status(router, None)
        finally:
            state.pool.close()
            state.link_pool.close()
            await asyncio.gather(*asking, return_exceptions=True)

    assert asyncio.run(asyncio.wait_for(ask(), 120)) == (503, 200)


async def _note(said, message):
    said.append(message)


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


def test_a_store_in_the_place_of_another_is_read_from_then_on(access, store, tmp_path):
    """Where a home was moved away, and a backup is restored in its place, an open page shows what is there now."""

    async def ask():
        pool = ReadPool(access, threads=1)
        try:
            names = [[run.name for run in await pool.ask(select)]]
            for beside in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(access.home.store + beside, str(tmp_path / f"moved{beside}"))
            with pytest.raises(NotFoundError):
                await pool.ask(select)
            with contextlib.closing(SqliteStore(access.home.store)) as restored:
                Maker(restored).run("r2", "restored")
            names.append([run.name for run in await pool.ask(select)])
            return names
        finally:
            pool.close()

    assert asyncio.run(ask()) == [["first"], ["restored"]]
