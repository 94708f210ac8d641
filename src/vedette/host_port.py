"""HOST:PORT as people write it, and the hosts that are this machine: so that every part reads and writes them alike.

Settings are read inside the user's process, so the module socket is imported only by what asks for this machine.
"""

import errno
import os

from vedette import kernel


def split(text: str) -> tuple[str, int] | None:
    """Read `HOST:PORT`, `[HOST]:PORT`, `:PORT` or `PORT`; None if the port is no number from 0 to 65535."""
    host, _, digits = text.rpartition(":")
    if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > 5:  # int() refuses thousands of digits
        return None
    port = int(digits[-5:])
    return (host.removeprefix("[").removesuffix("]"), port) if port < 1 << 16 else None


def join(host: str, port: int) -> str:
    """Write HOST:PORT; the address of IPv6 has colons of its own, and stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cannot_listen(where: str, error: Exception, advice: str = "") -> str:
    """Return the sentence that says why an address cannot be listened on; `advice`: what to do if it is taken."""
    number = getattr(error, "errno", None) or 0
    if number == errno.EADDRINUSE:
        why = "another program listens there already" + (f": {advice}" if advice else "")
    elif number > 0:
        why = os.strerror(number)
    else:  # a name that is not known, whose number is not one of the system's errors
        why = getattr(error, "strerror", None) or str(error)
    return f"{where} cannot be listened on: {why}"


def guess_host() -> str:
    """Return the address under which others are most likely to reach this machine."""
    import socket  # noqa: PLC0415 - only who listens needs it

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: it only asks which way packets would go
            return str(probe.getsockname()[0])
    except OSError:  # there is no route to other networks: use an address of an interface
        return next(iter(kernel.addresses()), kernel.host())


def own_names() -> list[str]:
    """Return the names and addresses by which others know this machine, the likeliest first."""
    return list(dict.fromkeys([guess_host(), kernel.host(), *kernel.addresses()]))
