"""Those who have not shown a token: a crowd of them does not keep out who has one."""

import asyncio
import contextlib

from tests.rooms.hubs import PATIENCE_S, ask, serving, until
from vedette import address, gate, tokens, wire
from vedette.hub.sockets.connection import Connection
from vedette.settings import Hub, Limits, Settings

SETTINGS = Settings(hub=Hub(address="127.0.0.1:0", idle_s=PATIENCE_S, turn_s=0.01), limits=Limits(connections=64))


def test_who_has_the_token_gets_in_beside_a_crowd_that_says_nothing(home):
    """Each of thirty is greeted, while ten times as many hold the port than it admits."""

    async def act():
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            crowd = []
            for _ in range(100):
                crowd.append(await asyncio.open_connection(there.host, there.port))
                with contextlib.suppress(ConnectionError):
                    crowd[-1][1].write(b"\x10")
            greeted = 0
            for _ in range(30):
                link = Connection(*await asyncio.open_connection(there.host, there.port))
                hello = await ask(link, wire.Hello(name="test", token=tokens.hub_token(home)))
                greeted += isinstance(hello, wire.Hello)
                link.writer.close()
            for _, writer in crowd:
                writer.close()
            return greeted, service._server.refused["limits.connections"]

    greeted, refused = asyncio.run(act())
    assert greeted == 30
    assert refused >= 80


def test_a_stranger_has_ten_seconds_in_all(home, monkeypatch):
    """Who has sent nothing for as long as a port gives strangers is sent away, whatever he does meanwhile."""
    monkeypatch.setattr(gate, "HEADERS_S", 0.2)

    async def act():
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            reader, writer = await asyncio.open_connection(there.host, there.port)
            writer.write(b"\x10")
            try:
                async with asyncio.timeout(8):  # a Hello is waited for longer
                    return await reader.read()
            finally:
                writer.close()

    assert asyncio.run(act()) == b""
