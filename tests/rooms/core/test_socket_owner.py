"""Whose program is at the other end of a TCP connection within this machine."""

import contextlib
import os
import signal
import socket

import pytest

from tests.rooms.users import AS_ROOT, as_nobody
from vedette.socket_owner import is_strangers, listener_is_strangers

HERE = [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1"), ("127.0.0.1", "::ffff:127.0.0.1")]


@contextlib.contextmanager
def listening(host):
    """Listen at a port of this machine; `::` takes connections of IPv4, too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as server:
        if host == "::":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((host, 0))
        server.listen()
        yield server


def connect(port, host):
    peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    peer.connect((host, port))
    return peer


def ends(peer):
    """Return both ends of a connection, the other one first."""
    return peer.getpeername(), peer.getsockname()


@pytest.mark.parametrize(("at", "to"), HERE)
def test_ones_own_program_is_no_stranger(at, to):
    """Neither is who connects to us, nor who listens, accepted or not; one that has closed its end is not believed."""
    with listening(at) as server:
        port = server.getsockname()[1]
        with connect(port, to) as peer:
            assert not listener_is_strangers(*ends(peer))
            taken, _ = server.accept()
            assert not is_strangers(*ends(taken))
            assert not listener_is_strangers(*ends(peer))
            seen = ends(taken)
        assert is_strangers(*seen)
        taken.close()
        assert is_strangers(*seen)


@contextlib.contextmanager
def stranger(act):
    """Have another user do something, in a process of his own, which stays; `act` gets what writes to the pipe here."""
    read_end, write_end = os.pipe()
    if not (child := os.fork()):
        try:
            os.close(read_end)
            os.setresuid(65534, 65534, 65534)
            act(lambda text: os.write(write_end, text.encode()))
        finally:
            os._exit(1)
    os.close(write_end)
    try:
        with open(read_end) as told:
            yield told
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@AS_ROOT
@pytest.mark.parametrize(("at", "to"), HERE)
def test_another_users_program_is_a_stranger(at, to):
    """For another user the same is his own program."""

    def come(tell):
        with connect(port, to):
            tell("here\n")
            signal.pause()

    def look():
        with listening(at) as own, connect(own.getsockname()[1], to) as theirs, own.accept()[0] as taken:
            return f"{is_strangers(*ends(taken))} {listener_is_strangers(*ends(theirs))}"

    assert as_nobody(look) == "False False"
    with listening(at) as server:
        port = server.getsockname()[1]
        with stranger(come) as told:
            assert told.readline() == "here\n"
            with server.accept()[0] as taken:
                assert is_strangers(*ends(taken))


@AS_ROOT
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("accepts", [False, True])
def test_a_port_that_another_user_has_taken(accepts, bound):
    """Who listens there is seen before he accepts, and when he has accepted and no longer listens.

    Also if he has bound his socket to the interface, as any user may.
    """

    def take(tell):
        with listening("127.0.0.1") as server:
            if bound:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
            tell(f"{server.getsockname()[1]}\n")
            if not accepts:
                signal.pause()
            held = server.accept()
        tell("accepted\n")
        signal.pause()
        del held

    with stranger(take) as told, connect(int(told.readline()), "127.0.0.1") as peer:
        assert not accepts or told.readline() == "accepted\n"
        assert listener_is_strangers(*ends(peer))


def test_what_comes_from_elsewhere():
    """Of other machines, and of what is no address, nothing is known."""
    assert not is_strangers(("192.0.2.7", 1234), ("192.0.2.1", 7878))
    assert not is_strangers(("a-path", 0), ("127.0.0.1", 7878))
    assert not listener_is_strangers(("192.0.2.7", 7878), ("192.0.2.1", 1234))


def test_where_the_kernel_does_not_tell(monkeypatch):
    """A kernel that knows of no socket, not even of ours, tells nothing of anybody."""
    monkeypatch.setattr(socket, "IPPROTO_TCP", socket.IPPROTO_EGP)  # of which it keeps no sockets: it says so as well
    with listening("127.0.0.1") as server, connect(server.getsockname()[1], "127.0.0.1"):
        taken, _ = server.accept()
        seen = ends(taken)
        assert not is_strangers(*seen)
        monkeypatch.undo()
        assert not is_strangers(*seen)
    assert is_strangers(*seen)
    taken.close()
