"""Ports that a test names before anybody listens there."""

import socket

_held: list[socket.socket] = []


def reserve_port(host: str = "127.0.0.1") -> int:
    """Return a port at which nobody answers, and which the system gives to nobody else until the tests end.

    A server that allows addresses to be used again, as all of ours do, can listen there.
    """
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((host, 0))
    _held.append(one)
    port: int = one.getsockname()[1]
    return port
