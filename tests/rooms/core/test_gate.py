"""The connections of a port: strangers have an allowance of their own, and the oldest of them goes first."""

import contextlib
import resource
import socket

import pytest

from vedette import gate as gates
from vedette import http_port


@pytest.fixture
def gate():
    with http_port.take("127.0.0.1", 0, most=4) as made:
        yield made


@pytest.fixture
def connect(gate):
    """Connect; return both ends of the line."""
    with contextlib.ExitStack() as stack:

        def begin():
            client = stack.enter_context(socket.create_connection(gate.getsockname()[:2], timeout=60))
            return client, stack.enter_context(gate.accept()[0])

        yield begin


def ended(client):
    """Tell whether the other end has hung up."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_oldest_stranger_goes_first(connect):
    """When there are too many strangers the oldest ends, each time one more comes."""
    lines = [connect() for _ in range(6)]

    assert [ended(client) for client, _ in lines] == [True, True, False, False, False, False]


def test_who_was_let_in_is_no_stranger(gate, connect):
    """However many strangers come, they do not end a connection whose request was let in; nor do other kinds."""
    lines = [connect() for _ in range(3)]
    for (_, line), who in zip(lines, ("owner", "share", "share"), strict=True):
        gate.admit(line.fileno(), who)
    strangers = [connect() for _ in range(9)]

    assert not any(ended(client) for client, _ in lines)
    assert sum(ended(client) for client, _ in strangers) == 5
    for _ in range(4):
        gate.admit(connect()[1].fileno(), "share")
    assert [ended(client) for client, _ in lines] == [False, True, True]


def test_the_oldest_of_the_busiest_address_gives_way(gate, monkeypatch):
    """One machine that floods the port takes places from itself only; who was let in does not count there any more."""
    with contextlib.ExitStack() as stack:

        def come(host):
            client = stack.enter_context(socket.socket())
            client.bind((host, 0))
            client.connect(gate.getsockname()[:2])
            return client, stack.enter_context(gate.accept()[0])

        honest = [come("127.0.0.2") for _ in range(2)]
        flood = [come("127.0.0.3") for _ in range(10)]
        assert not any(ended(client) for client, _ in honest)
        assert [ended(client) for client, _ in flood] == [True] * 8 + [False] * 2
        gate.release(honest[0][1].fileno())
        gate.release(1 << 20)
        assert len(gate) == 3


def test_closed_connections_take_no_room(gate, connect):
    """Only those that are open count, also where a descriptor is used again."""
    for _ in range(20):
        client, line = connect()
        gate.admit(line.fileno(), "owner")
        line.close()
        client.close()
    lines = [connect() for _ in range(4)]
    first = connect()[0]

    assert len(gate) == 5 - 1
    assert [ended(client) for client, _ in lines] == [True, False, False, False]
    assert not ended(first)


def test_a_stranger_has_ten_seconds(gate, connect, monkeypatch):
    """One who has not asked in time ends, without a newer one; one who was let in stays, unless he has a limit too."""
    (early, _), (known, line), late = connect(), connect(), None
    gate.admit(line.fileno(), "owner")
    gate.sweep()
    assert not ended(early)
    monkeypatch.setattr(gates, "HEADERS_S", 0.0)
    gate.sweep()
    assert (ended(early), ended(known)) == (True, False)
    late, _ = connect()
    assert not ended(late)
    gate.sweep(known_s=0.0)
    assert ended(known)


@pytest.mark.parametrize(("soft", "most", "fits"), [(64, 16, False), (1024, 128, True), (20_000, 256, True)])
def test_there_is_room_for_all_kinds(soft, most, fits, monkeypatch):
    """Strangers, owner, and those with a link fit into half of what the system allows, unless that is very little."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))

    assert gates.room() == most
    assert (3 * most + 64 <= soft / 2) is fits
