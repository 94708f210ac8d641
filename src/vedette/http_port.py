"""The port of an HTTP server of ours: opened in one way, and one sentence if that fails. `guard` says who may ask."""

import socket

from vedette import host_port
from vedette.errors import SettingError
from vedette.gate import Gate


def take(host: str, port: int, *, dual_stack: bool = False, most: int = 0) -> Gate:
    """Listen on a port; clients wait until it is served. Raise OSError if that fails.

    `dual_stack`: `::` takes connections over IPv4, too. `most`: connections of each kind, if not what fits.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = dual_stack and family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    gate = Gate(socket.create_server((host, port), family=family, dualstack_ipv6=both), most)
    gate.listen()
    # The connections inherit this: asyncio sets it only on sockets that name their protocol, and these do not.
    gate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return gate


def where(bound: socket.socket) -> str:
    """Return HOST:PORT of a listening socket."""
    return host_port.join(*bound.getsockname()[:2])


def explain(error: OSError, host: str, port: int, advice: str = "") -> SettingError:
    """Return the error that says why a port could not be taken; `advice`: what to do if another program has it."""
    return SettingError(host_port.cannot_listen(host_port.join(host, port), error, advice))
