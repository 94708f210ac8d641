"""Those who have not shown a token: a crowd of them does not keep out who has one."""

import asyncio
import contextlib

from tests.rooms.hubs import PATIENCE_S, ask, serving, until
from vedette import address, gate, tokens, wire
from vedette.hub.sockets import server
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


def test_a_holder_keeps_out_no_other(home, monkeypatch):
    """Who has a token and holds connections gets half of them, and each for no longer than a relay needs."""
    monkeypatch.setattr(server, "_HELLO_S", 0.5)

    async def act():
        home.prepare()
        mallory, alice = tokens.new_holder(home, "mallory"), tokens.new_holder(home, "alice")
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)

            async def greeted(token):
                link = Connection(*await asyncio.open_connection(there.host, there.port))
                return link, await ask(link, wire.Hello(name="test", token=token))

            crowd = [await greeted(mallory) for _ in range(40)]
            _, honest = await greeted(alice)
            _, own = await greeted(tokens.hub_token(home))
            for link, _ in crowd[:32]:
                async with asyncio.timeout(10):
                    assert await link.reader.read() == b""  # it has introduced nothing
            _, again = await greeted(mallory)
            for link, _ in crowd:
                link.writer.close()
            return [type(answer) for _, answer in crowd], honest, own, again

    crowd, honest, own, again = asyncio.run(act())
    assert crowd == [wire.Hello] * 32 + [wire.Refused] * 8
    assert isinstance(honest, wire.Hello)
    assert isinstance(own, wire.Hello)
    assert isinstance(again, wire.Hello)
