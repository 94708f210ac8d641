"""Where a hub can be reached: a Unix socket, or host and port with a token and, beyond this machine, a certificate.

A connect string carries all of it, `vedette://TOKEN@HOST:PORT/FINGERPRINT`, so that one copy and paste connects safely.
"""

import os
import re
import socket
import stat

from msgspec import Struct

from vedette import host_port, own_directory, unix_socket
from vedette.errors import SettingError, StrangerError
from vedette.guard import is_loopback
from vedette.home import Home
from vedette.settings import is_token, without_token

_SCHEME = "vedette://"
_CONNECT = re.compile(r"(?:([A-Za-z0-9_.~-]{1,200})@)?(.+?)(?:/([0-9a-f]{64}))?/?")
_NO_HOST = re.compile(r"[\s/@='\"]")  # what no name of a host has
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")


class Address(Struct, frozen=True):
    """One hub's address; `path` is a Unix socket's, else host and port."""

    path: str = ""
    host: str = ""
    port: int = 0
    token: str = ""
    fingerprint: str = ""  # sha256 of the certificate

    @property
    def is_local(self) -> bool:
        """Whether the connection stays on this machine."""
        return bool(self.path) or is_loopback(self.host)

    def __str__(self) -> str:
        """Return it without the token, as it may be shown."""
        return self.path or host_port.join(self.host, self.port)

    def connect_string(self) -> str:
        """Return what to put into VEDETTE_HUB."""
        if self.path:
            return self.path
        token = f"{self.token}@" if self.token else ""
        fingerprint = f"/{self.fingerprint}" if self.fingerprint else ""
        return f"{_SCHEME}{token}{host_port.join(self.host, self.port)}{fingerprint}"


def parse(text: str, *, listening: bool = False) -> Address:
    """Read an address: HOST:PORT, the path or name of a Unix socket, or a connect string; raise SettingError if not.

    A name is that of a Unix socket in a directory of the user's own.
    """
    text = text.strip()
    quoted = repr(without_token(text))
    if text.startswith(_SCHEME):
        match = _CONNECT.fullmatch(text.removeprefix(_SCHEME))
        if match is None or ":" not in match[2]:
            raise SettingError("the connect string of a hub is vedette://TOKEN@HOST:PORT/FINGERPRINT: copy it whole")
        place, slash, rest = match[2].partition("/")
        if slash:
            raise SettingError(
                "the connect string of a hub ends with the 64 characters of its certificate's fingerprint, and this"
                f" one with {without_token(rest)!r}: copy it whole"
            )
        host, port = _split(place)
        return Address("", host, port, match[1] or "", match[3] or "")
    if text.startswith(("/", ".", "~", "unix:")):
        path = os.path.abspath(os.path.expanduser(text.removeprefix("unix:")))
        return Address(Home(path).socket if os.path.isdir(path) else path)
    if is_token(text):
        raise SettingError(
            "this is a token alone, and not the address of a hub: `vedette token` shows both together while that hub"
            " listens"
        )
    if text.isdigit():
        meant = f":{text}" if listening else f"localhost:{text}"
        raise SettingError(
            f"{text!r} is not the address of a hub: a port is written {meant}, a name has a letter in it"
        )
    if _NAME.fullmatch(text) and not text.replace(".", "").isdigit():
        return Address(os.path.join(names_directory(), text))
    if ":" not in text:
        raise SettingError(
            f"{quoted} is not the address of a hub: give HOST:PORT, the path of a socket, or a name for one"
        )
    host, port = _split(text)
    if not host and not listening:
        raise SettingError(f"{quoted} does not say which host: HOST:PORT")
    return Address("", host, port)


def shown(text: str) -> str:
    """Return an address without its token, as it may be shown; also one that is none."""
    try:
        return str(parse(text))
    except SettingError:
        return without_token(text)


def _names() -> tuple[str, str]:
    return "/tmp", f"vedette-{os.geteuid()}"  # noqa: S108 - `own_directory` takes one there that is ours


def names_directory() -> str:
    """Return the directory of the sockets that are known by a name."""
    return own_directory.find(*_names())


def name_socket(path: str, socket_path: str) -> None:
    """Give the socket of a hub another path; raise SettingError when something else is there."""
    directory = os.path.dirname(path)
    if directory in own_directory.names(*_names()):
        try:
            made = own_directory.make(*_names())
        except StrangerError as error:
            raise SettingError(f"{error}: give the path of a socket, with a /") from None
        if made != directory:
            raise SettingError(f"another user has just taken {directory}: give the command again")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if (os.path.lexists(path) and not os.path.islink(path)) or (os.path.exists(path) and not _is_socket(path)):
        raise SettingError(f"{path} exists, and is not the name of a hub's socket: give another")
    if os.path.realpath(path) != os.path.realpath(socket_path) and _is_answered(path):
        raise SettingError(f"{path} is the name of another hub that is running: give another")
    if path != socket_path:
        os.symlink(socket_path, f"{path}.{os.getpid()}")
        os.replace(f"{path}.{os.getpid()}", path)


def _is_socket(path: str) -> bool:
    return stat.S_ISSOCK(os.stat(path).st_mode)


def _is_answered(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            unix_socket.connect(peer, path)
        except StrangerError:  # we do not take its name away
            return True
        except OSError:
            return False
        return True


def _split(text: str) -> tuple[str, int]:
    found = host_port.split(text)
    if found is None:
        raise SettingError(f"{without_token(text)!r} has no port: HOST:PORT, with a port from 0 to 65535")
    if _NO_HOST.search(found[0]):
        raise SettingError(f"{without_token(text)!r} is not the address of a hub: copy its connect string whole")
    return found
