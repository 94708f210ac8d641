"""A hub inside this process: the service around its keeper's thread, and connections to it."""

import asyncio
import contextlib
import os

from vedette import wire
from vedette.hub.log import Log
from vedette.hub.peers.identity import identify
from vedette.hub.service import Service
from vedette.hub.sockets.connection import Connection
from vedette.hub.sockets.port import endpoint_of
from vedette.hub.turn.sweeper import Sweeper
from vedette.settings import Hub, Settings
from vedette.store.sqlite import SqliteStore

PATIENCE_S = 60.0


@contextlib.asynccontextmanager
async def serving(home, settings=None, *, quiet=True):
    """Run the hub of a home; end it as a signal would. Not quiet: as if a user waited for it."""
    settings = settings or Settings(hub=Hub(idle_s=PATIENCE_S, turn_s=0.01, sync_s=0.1))
    home.prepare()
    lock = home.take_lock()
    store = SqliteStore(home.store)
    log = Log(home.log)
    sweeper = Sweeper(home, store, log, settings.keep)
    service = Service(home, store, settings, lock, sweeper, log, endpoint_of(home, settings))
    task = asyncio.ensure_future(service.serve(quiet=quiet))
    try:
        await until(lambda: os.path.exists(home.socket) or task.done())
        yield service
    finally:
        service._thread.stop()
        await asyncio.wait_for(task, PATIENCE_S)
        for downstream in list(service._server.downstreams.open.values()):
            downstream.writer.close()  # as the end of its process would
        os.close(lock)


async def until(check):
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not check():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


async def connect(home):
    """Connect as a command of this machine does."""
    connection = Connection(*await asyncio.open_unix_connection(home.socket))
    connection.send(wire.Hello(name="test"))
    assert isinstance(await connection.receive(wire.MAX_HELLO), wire.Hello)
    return connection


async def relaying(home, key):
    """Connect as a relay does, with the key of a home of its own."""
    connection = Connection(*await asyncio.open_unix_connection(home.socket))
    connection.send(wire.Hello(name="test"))
    hello = await connection.receive(wire.MAX_HELLO)
    connection.send(identify(key, hello.challenge, "", ""))
    return connection


async def ask(connection, message):
    connection.send(message)
    return await asyncio.wait_for(connection.receive(wire.MAX_PAYLOAD), PATIENCE_S)
