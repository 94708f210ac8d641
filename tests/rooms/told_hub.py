"""A hub as far as its socket goes: it holds the lock, notes what it is asked, and says what a test tells it."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

from vedette import wire
from vedette.home import Home


class ToldHub:
    """Answers on the socket of a home until it is closed; `answers` has, by type of message, what is answered."""

    def __init__(
        self, home: Home, *, greets: bool = True, version: int = wire.VERSION, takes: Iterable[str] = ()
    ) -> None:
        """`greets`: else it is as deaf as one that is stopped; `version` and `takes` are said in its Hello."""
        home.prepare()
        self.home = home
        self.asked: list[Any] = []
        self.followed: list[str] = []  # runs, "" for all
        self.answers: dict[type, Callable[[Any], wire.Message]] = {
            wire.AskLatest: lambda _: wire.Latest(),
            wire.AskHealth: lambda _: wire.Health(os.getpid(), "0", 0.0, 0, 0),
            wire.AskUnsealed: lambda _: wire.Unsealed(),
            wire.Order: lambda _: wire.Done(1),
        }
        self._greets, self._hello = greets, wire.Hello(version=version, name="told", takes=list(takes))
        self._lock = home.take_lock()
        assert self._lock is not None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.socket)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(home.socket)
        self._listener.listen(64)
        self._open: list[socket.socket] = []
        self._followers: list[socket.socket] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, *changes: wire.Change) -> None:
        """Tell those who follow, once somebody does."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._followers, 60)
            for peer in self._followers:
                peer.sendall(b"".join(wire.pack_message(change) for change in changes))

    def close(self) -> None:
        """Leave, as a hub does."""
        os.unlink(self.home.socket)
        self._listener.close()
        for peer in self._open:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()
        if self._lock is not None:
            os.close(self._lock)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._open.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        unframer = wire.Unframer()
        with contextlib.suppress(OSError):
            if self._greets:
                peer.sendall(wire.pack_message(self._hello))
            while data := peer.recv(1 << 16):
                for payload in unframer.feed(data):
                    self._take(peer, wire.unpack_message(payload))

    def _take(self, peer: socket.socket, message: Any) -> None:
        if isinstance(message, wire.Hello) or not self._greets:
            return
        if isinstance(message, wire.Follow):
            with self._changed:
                peer.sendall(wire.pack_message(wire.Done()))
                self.followed.append(message.run)
                self._followers.append(peer)
                self._changed.notify_all()
            return
        self.asked.append(message)
        answer = self.answers.get(type(message), lambda _: wire.Done())(message)
        peer.sendall(wire.pack_message(answer))
