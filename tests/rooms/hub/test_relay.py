"""The talking half of a relay, inside this process: it connects, ships, and ends when it is told to."""

import asyncio
import os
import socket

import pytest

from tests.rooms.users import AS_ROOT
from vedette import address, wire
from vedette.home import Home
from vedette.hub.peers.relay import Connected, Relay, Session
from vedette.model import LANE_FACTS, Origin
from vedette.store import Batch


async def _other_hub(reader, writer):
    """Greet, and read what comes."""
    writer.write(wire.pack_message(wire.Hello(name="other", home="elsewhere")))
    while await reader.read(1 << 16):
        pass
    writer.close()


@pytest.mark.parametrize("turns", range(8))
def test_it_ends_although_something_was_sent_just_then(tmp_path, turns):
    """A cancellation that comes at the same moment as the end of a write is not forgotten: the hub would not end."""

    async def act():
        path = str(tmp_path / "sock")
        server = await asyncio.start_unix_server(_other_hub, path)
        relay = Relay(address.parse(path), Home(str(tmp_path)), "host")
        task = asyncio.ensure_future(relay.run(lambda: None))
        session = None
        async with asyncio.timeout(60):
            while session is None:
                await asyncio.sleep(0.005)
                session = next((news.session for news in relay.news() if isinstance(news, Connected)), None)
        session.send(wire.Alive(1, {}, None, {}, []))
        for _ in range(turns):  # of the loop, until the write is under way
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=2)
        server.close()
        return bool(done)

    assert asyncio.run(act())


def test_a_hub_that_is_not_there_is_tried_again(tmp_path):
    """Why there is no connection is said, and it is made once the hub is there."""

    async def act():
        path = str(tmp_path / "sock")
        relay = Relay(address.parse(path), Home(str(tmp_path)), "host")
        task = asyncio.ensure_future(relay.run(lambda: None))
        async with asyncio.timeout(60):
            while relay.trouble == "not connected yet":  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
            why = relay.trouble
            server = await asyncio.start_unix_server(_other_hub, path)
            while relay.trouble:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        server.close()
        return why

    assert "No such file" in asyncio.run(act())


@AS_ROOT
@pytest.mark.parametrize("trusted", [False, True])
def test_a_port_that_another_user_has_taken(tmp_path, trusted):
    """While the hub is not there, anybody may listen at its port of this machine: he gets no token."""
    read_end, write_end = os.pipe()
    if not (child := os.fork()):
        try:
            os.setresuid(65534, 65534, 65534)
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                os.write(write_end, f"{taken.getsockname()[1]}".encode())
                os.write(write_end, taken.accept()[0].recv(1 << 12) or b"nothing")
        finally:
            os._exit(0)
    os.close(write_end)

    async def act():
        relay = Relay(address.parse(f"vedette://a-token@{there}"), Home(str(tmp_path)), "host", trusted=trusted)
        task = asyncio.ensure_future(relay.run(lambda: None))
        heard = await asyncio.to_thread(os.read, read_end, 1 << 12)
        task.cancel()
        await asyncio.wait([task])
        return heard, relay.trouble

    there = f"127.0.0.1:{int(os.read(read_end, 5))}"
    heard, trouble = asyncio.run(act())
    os.waitpid(child, 0)
    os.close(read_end)
    assert (b"a-token" in heard) == trusted
    assert trusted or "another user of this machine listens there" in trouble


def test_many_small_batches_go_in_several_shipments(tmp_path):
    """No shipment has so many parcels that the other hub would take long for it; each batch is acknowledged once."""

    async def act():
        relay = Relay(address.parse(str(tmp_path / "sock")), Home(str(tmp_path)), "host")
        relay.session = session = Session(asyncio.get_running_loop())
        relay.ship([(f"o{number}", Batch(Origin(f"o{number}"), LANE_FACTS, 1)) for number in range(4100)])
        unframer = wire.Unframer(wire.MAX_SHIPMENT)
        sent = [wire.unpack_message(payload) for data in session.outgoing for payload in unframer.feed(data)]
        return [len(each.parcels) for each in sent], [len(relay.acknowledged(session, seq)) for seq in (1, 2, 3)]

    assert asyncio.run(act()) == ([2000, 2000, 100], [2000, 2000, 100])
