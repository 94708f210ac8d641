"""The secrets and the id of a home: each is made once, and lies in a file of the home that only its owner can read."""

import fcntl
import os
import re
import secrets
from collections.abc import Callable

from msgspec import Struct

from vedette.errors import NotFoundError, SettingError
from vedette.fileio import make_once, make_private_directory, open_private, read_private, write_private
from vedette.guard import same_token
from vedette.home import Home
from vedette.ids import new_id

OWNER = ""  # the holder of the token that a home is born with
OWNER_NAME = "owner"  # what people call him
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,59}")


def hub_token(home: Home) -> str:
    """Return the owner's token of the home's hub, which other hubs send."""
    return _made_once(_path_of(home, OWNER), lambda: secrets.token_urlsafe(24))


class Holder(Struct, frozen=True):
    """Somebody who was given a token of the hub."""

    name: str
    since_t: int  # when


def holders(home: Home) -> list[Holder]:
    """Return all who were given a token of their own, by name."""
    try:
        with os.scandir(_directory(home)) as entries:
            found = [Holder(entry.name, entry.stat().st_mtime_ns) for entry in entries if _NAME.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda holder: holder.name)


def new_holder(home: Home, name: str) -> str:
    """Make a token for somebody; return it. Raise SettingError when the name is taken, or is not a name."""
    if not _NAME.fullmatch(name) or name == OWNER_NAME:
        raise SettingError(
            f"{name!r} cannot be the name of a holder: give up to 60 letters, digits, '.', '_', '@' and '-'"
            + (f"; {OWNER_NAME} is you" if name == OWNER_NAME else "")
        )
    make_private_directory(_directory(home))
    path = os.path.join(_directory(home), name)
    token = secrets.token_urlsafe(24)
    if not make_once(path, token.encode() + b"\n"):
        raise SettingError(
            f"{name} has a token already: `vedette token {name}` shows it, `vedette token --revoke {name}` ends it"
        )
    return token


def token_of(home: Home, name: str) -> str:
    """Return somebody's token; raise NotFoundError when there is none."""
    token = _read(_path_of(home, name)) if _NAME.fullmatch(name) else None
    if token is None:
        raise NotFoundError(f"nobody called {name!r} has a token: `vedette token` lists all who have")
    return token


def revoke(home: Home, name: str) -> None:
    """End somebody's token; raise NotFoundError when there is none."""
    token_of(home, name)
    os.unlink(_path_of(home, name))


def renew(home: Home) -> str:
    """Replace the owner's tokens, of the hub and of the page; return the hub's. Who uses the old ones is sent away."""
    token, page = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    write_private(_path_of(home, OWNER), token.encode() + b"\n")
    write_private(page_path(home), page.encode() + b"\n")
    return token


def holder_of(home: Home, token: str) -> str | None:
    """Return who holds a token of the hub; "" is the owner of the home, None if it is nobody's."""
    names = [OWNER, *(holder.name for holder in holders(home))]
    found = [name for name in names if is_current(home, name, token)]  # all of them, so that the time tells nothing
    return found[0] if found else None


def is_current(home: Home, holder: str, token: str) -> bool:
    """Tell whether this is the token of a holder now: it was not revoked or replaced."""
    known = _read(_path_of(home, holder))
    return bool(known) and same_token(token, known or "")


def page_path(home: Home) -> str:
    """Return where the token of the page lies; `renew` replaces that file."""
    return os.path.join(home.root, "ui.token")


def _path_of(home: Home, holder: str) -> str:
    return os.path.join(_directory(home), holder) if holder else os.path.join(home.root, "hub.token")


def _directory(home: Home) -> str:
    return os.path.join(home.root, "tokens")


def page_token(home: Home) -> str:
    """Return the token of the home's page in the browser. It is not the hub's: that one may write."""
    return _made_once(page_path(home), lambda: secrets.token_urlsafe(24))


def home_id(home: Home) -> str:
    """Return the lasting id of a home, by which other hubs know it."""
    return _made_once(_id_path(home), lambda: new_id(16))


def was_kept(home: Home) -> bool:
    """Tell whether a hub has ever kept this home."""
    return os.path.exists(_id_path(home))


def _id_path(home: Home) -> str:
    return os.path.join(home.root, "hub.id")


def _made_once(path: str, make: Callable[[], str]) -> str:
    """Return the content of a file; if there is none, make it. All who ask at once get the same."""
    while not (known := _read(path)):
        if known is not None:
            _remove_empty(path)
        make_once(path, make().encode() + b"\n")
    return known


def _remove_empty(path: str) -> None:
    """Remove a file that is empty, as an older vedette may have left it at a power cut."""
    fd = open_private(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # of all who have found it empty: the others then see that it is another file
        if os.path.samestat(os.fstat(fd), os.stat(path)) and not _read(path):
            os.unlink(path)
    except FileNotFoundError:
        pass
    finally:
        os.close(fd)


def _read(path: str) -> str | None:
    try:
        return read_private(path).decode().strip()
    except FileNotFoundError:
        return None
