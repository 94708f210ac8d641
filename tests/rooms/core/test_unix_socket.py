"""Unix sockets: reached by paths of any length, and believed only if the same user is at the other end."""

import os
import socket
import threading

import pytest

from tests.rooms.users import AS_ROOT, as_nobody
from vedette import pidfds, unix_socket
from vedette.errors import StrangerError

NOBODY = 65534


@pytest.fixture(params=["short", "x" * 120 + "/" + "ä" * 60])
def path(tmp_path, request):
    """The path of a socket that is to be made: a short one, and one that the kernel would not take."""
    folder = tmp_path / request.param
    folder.mkdir(parents=True)
    return str(folder / "hub.sock")


def listening(path):
    server = socket.socket(socket.AF_UNIX)
    with unix_socket.reach(path) as reached:
        server.bind(reached)
    server.listen()
    return server


def test_a_socket_is_reached_however_long_its_path_is(path):
    """It is bound and connected to, by its own name, and nothing is left open."""
    before = len(os.listdir("/proc/self/fd"))
    with listening(path), socket.socket(socket.AF_UNIX) as peer:
        assert os.listdir(os.path.dirname(path)) == ["hub.sock"]
        unix_socket.connect(peer, path)
        assert unix_socket.pid_of_peer(peer) == os.getpid()
    assert len(os.listdir("/proc/self/fd")) == before


def test_nobody_listens(path):
    """A socket that is not there, or is dead, is an OSError, and no stranger."""
    with socket.socket(socket.AF_UNIX) as peer, pytest.raises(FileNotFoundError):
        unix_socket.connect(peer, path)
    listening(path).close()
    with socket.socket(socket.AF_UNIX) as peer, pytest.raises(ConnectionRefusedError):
        unix_socket.connect(peer, path)
    with socket.socket(socket.AF_UNIX) as peer, pytest.raises(FileNotFoundError):
        unix_socket.connect(peer, os.path.join(os.path.dirname(path), "y" * 120, "nowhere"))


@AS_ROOT
def test_a_socket_of_another_user_is_not_believed(path):
    """Who connects to a socket of another user is told so, and has sent nothing."""
    with listening(path) as server:
        os.chmod(path, 0o666)
        os.chmod(os.path.dirname(path), 0o755)
        folder = os.open(os.path.dirname(path), os.O_PATH)  # of directories that the other user could not search

        def connect():
            with socket.socket(socket.AF_UNIX) as peer, pytest.raises(StrangerError, match="the other end to user 0"):
                unix_socket.connect(peer, f"/proc/self/fd/{folder}/hub.sock")
            assert not pidfds.send(f"/proc/self/fd/{folder}/hub.sock", "origin")
            return "done"

        assert as_nobody(connect) == "done"
        for _ in range(2):
            with server.accept()[0] as met:
                assert met.recv(100) == b""
                with pytest.raises(StrangerError, match=f"the other end to user {NOBODY}"):
                    unix_socket.check_peer(met)


@AS_ROOT
def test_a_pidfd_of_another_user_is_not_taken(tmp_path):
    """What another user sends to the socket for pidfds, though its mode would allow that, is dropped and closed."""
    path = str(tmp_path / "hub.pids")
    server = pidfds.listen(path)
    os.chmod(path, 0o666)
    tmp_path.chmod(0o711)
    folder = os.open(tmp_path, os.O_PATH)
    before = len(os.listdir("/proc/self/fd"))

    def send():
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(f"/proc/self/fd/{folder}/hub.pids")
            socket.send_fds(peer, [b"origin"], [os.pidfd_open(os.getpid())])
        return "done"

    assert as_nobody(send) == "done"
    assert pidfds.receive(server, 9) == []
    assert len(os.listdir("/proc/self/fd")) == before
    assert pidfds.send(path, "ours")
    [(name, fd, pid)] = pidfds.receive(server, 9)
    assert (name, pid) == ("ours", os.getpid())
    os.close(fd)
    os.close(server)
    os.close(folder)


def test_a_hub_that_looks_before_the_pidfd_was_sent(tmp_path, monkeypatch):
    """A process has connected, and not sent yet, when the hub looks: its pidfd is not lost by that."""
    monkeypatch.setattr(pidfds, "_SEND_S", 60)
    path = str(tmp_path / "hub.pids")
    server = pidfds.listen(path)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        later = threading.Timer(0.05, socket.send_fds, (peer, [b"origin"], [os.pidfd_open(os.getpid())]))
        later.start()
        [(name, fd, pid)] = pidfds.receive(server, 9)
        later.join()

    assert (name, pid) == ("origin", os.getpid())
    os.close(fd)
    os.close(server)
