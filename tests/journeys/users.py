"""Processes of other users: forks of the tests that give up being root, before they do anything.

An interpreter that only root can reach would not start as another user. A fork has imported everything already.
Beside them a build that was opened on purpose, to show that what others try would succeed there.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from vedette import fileio, home, hub_lock, own_directory, tokens, unix_socket, wire
from vedette.home import Home

socket.getaddrinfo("127.0.0.1", 1)  # it imports a codec
ALICE, MALLORY = 12345, 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOBODY WAS ATTACKED: only root can become other users")


def do_as(uid: int, act: Callable[..., Any], *args: Any) -> Any:
    """Do something as another user, in a process of its own; return its result, which JSON must be able to hold."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        _become(uid, lambda: os.write(write, json.dumps(act(*args)).encode()))
    os.close(write)
    with open(read, "rb") as file:
        said = file.read()
    assert os.waitpid(pid, 0)[1] == 0, "it failed; stderr says why"
    return json.loads(said)


@contextlib.contextmanager
def process_as(uid: int, act: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """Run something as another user, which calls what it is given once it is ready; hand out what it said then."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:

        def ready(said: Any) -> None:
            os.write(write, json.dumps([os.getpid(), said]).encode() + b"\n")

        _become(uid, lambda: act(ready))
    os.close(write)
    try:
        with open(read, "rb") as file:
            line = file.readline()
            assert line, "it ended before it was ready; stderr says why"
            yield json.loads(line)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(uid: int, act: Callable[[], Any]) -> NoReturn:
    code = 1
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.umask(0o022)
        act()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def open_the_build() -> None:
    """Make this process wrong on purpose: it looks neither at who connects, nor at what it opens."""
    unix_socket.check_peer = lambda _peer: None
    tokens.holder_of = lambda _home, _token: ""
    for module in (fileio, hub_lock, home):
        module.open_private = lambda path, flags: os.open(path, flags | os.O_CLOEXEC, 0o666)  # type: ignore[attr-defined]
    fileio._refuse_planted = lambda *_: None
    Home._stranger = lambda _self: ""  # type: ignore[method-assign]
    own_directory.is_own = lambda path, _uid=None: os.path.isdir(path)


def answers(peer: socket.socket, count: int) -> list[wire.Message]:
    """Return so many messages that come over a connection, or fewer if it ends."""
    unframer = wire.Unframer()
    said: list[wire.Message] = []
    while len(said) < count and (data := peer.recv(1 << 16)):
        said += [wire.unpack_message(payload) for payload in unframer.feed(data)]
    return said


def write(path: str, text: str) -> None:
    """Write a file, as anybody would."""
    with open(path, "w") as file:
        file.write(text)
