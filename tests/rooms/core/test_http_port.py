"""The port of an HTTP server: which addresses it can have, and what is said if it cannot be had."""

import socket

import pytest

from vedette import http_port


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")


def reached(host, bound):
    """Tell whether a client reaches a port, which nobody serves yet."""
    try:
        socket.create_connection((host, bound.getsockname()[1]), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "written"), [("127.0.0.1", "127.0.0.1"), pytest.param("::1", "[::1]", marks=needs_ipv6)]
)
def test_a_port(host, written):
    """A client can connect before anybody serves, and no byte of an answer waits for more."""
    with http_port.take(host, 0) as bound:
        port = bound.getsockname()[1]
        assert http_port.where(bound) == f"{written}:{port}"
        with socket.create_connection((host, port), timeout=60), bound.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_port_is_free_at_once():
    """After connections that the server has ended itself, the port can be taken again without a pause."""
    with http_port.take("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            bound.accept()[0].close()
            assert client.recv(1) == b""

    http_port.take("127.0.0.1", port).close()


@needs_ipv6
@pytest.mark.parametrize("dual_stack", [True, False])
def test_every_address(dual_stack):
    """`::` takes connections over IPv4 only where that is asked for."""
    with http_port.take("::", 0, dual_stack=dual_stack) as bound:
        assert reached("::1", bound)
        assert reached("127.0.0.1", bound) is dual_stack


def why(host, port, advice=""):
    with pytest.raises(OSError) as caught:
        http_port.take(host, port, dual_stack=True).close()
    return str(http_port.explain(caught.value, host, port, advice))


def test_a_port_that_is_taken():
    """The sentence says that it is taken, and what the caller advises."""
    with http_port.take("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        said = f"127.0.0.1:{port} cannot be listened on: another program listens there already"
        assert why("127.0.0.1", port) == said
        assert why("127.0.0.1", port, "give another") == f"{said}: give another"


@pytest.mark.parametrize(
    ("host", "said"),
    [("192.0.2.1", "192.0.2.1:1 cannot be listened on: Cannot assign requested address"),
     ("2001:db8::1", "[2001:db8::1]:1 cannot be listened on: "),
     ("no such host", "no such host:1 cannot be listened on: Name or service not known")],
)  # fmt: skip
def test_an_address_of_another_machine(host, said):
    """What cannot be listened on is said in one sentence."""
    assert why(host, 1).startswith(said)
