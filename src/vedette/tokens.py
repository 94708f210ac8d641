"""The secrets and the id of a home: each is made once, and lies in a file of the home that only its owner can read."""

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Callable

from msgspec import Struct

from vedette.errors import NotFoundError, SettingError
from vedette.fileio import (
    is_unfinished,
    make_once,
    make_private_directory,
    names,
    open_private,
    read_private,
    sync_directory,
    write_private,
)
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
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(_directory(home)) as entries:
        for entry in entries:
            if _is_name(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # it has just been revoked
                    found.append(Holder(entry.name, entry.stat(follow_symlinks=False).st_mtime_ns))
    return sorted(found, key=lambda holder: holder.name)


def odd_entries(home: Home) -> list[str]:
    """Return the paths among the tokens that are nobody's token: damaged files, and whatever else lies there."""
    found = []
    for name in names(_directory(home)):
        path = os.path.join(_directory(home), name)
        try:
            is_odd = not _is_name(name) or _read(path) == ""
        except OSError:
            is_odd = True
        if is_odd and not is_unfinished(name):
            found.append(path)
    return found


def _is_name(name: str) -> bool:
    return name != OWNER_NAME and _NAME.fullmatch(name) is not None


def new_holder(home: Home, name: str) -> str:
    """Make a token for somebody; return it. Raise SettingError when the name is taken, or is not a name."""
    if not _is_name(name):
        raise SettingError(
            f"{name!r} cannot be the name of a holder: give up to 60 letters, digits, '.', '_', '@' and '-'"
            + (f"; {OWNER_NAME} is you" if name == OWNER_NAME else "")
        )
    make_private_directory(_directory(home))
    sync_directory(home.root)
    path = os.path.join(_directory(home), name)
    token = secrets.token_urlsafe(24)
    if not make_once(path, token.encode() + b"\n"):
        raise SettingError(
            f"{name} has a token already: `vedette token {name}` shows it, `vedette token --revoke {name}` ends it"
        )
    return token


def token_of(home: Home, name: str) -> str:
    """Return somebody's token; raise NotFoundError when there is none, SettingError when its file is damaged."""
    token = _read(_path_of(home, name)) if _is_name(name) else None
    if token is None:
        raise _nobody(name)
    if not token:
        raise SettingError(
            f"{_path_of(home, name)} is damaged, so that {name} cannot connect: `vedette token --revoke {name}` removes"
            f" it, and `vedette token --new {name}` then makes another"
        )
    return token


def revoke(home: Home, name: str) -> None:
    """End somebody's token; raise NotFoundError when there is none."""
    if not _is_name(name):
        raise _nobody(name)
    try:
        os.unlink(_path_of(home, name))
    except FileNotFoundError:
        raise _nobody(name) from None
    sync_directory(_directory(home))  # a power cut must not bring it back


def _nobody(name: str) -> NotFoundError:
    return NotFoundError(f"nobody called {name!r} has a token: `vedette token` lists all who have")


def renew(home: Home) -> str:
    """Replace the owner's tokens, of the hub and of the page; return the hub's. Who uses the old ones is sent away."""
    token, page = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    write_private(_path_of(home, OWNER), token.encode() + b"\n")
    write_private(page_path(home), page.encode() + b"\n")
    return token


def holder_of(home: Home, token: str) -> str | None:
    """Return who holds a token of the hub; "" is the owner of the home, None if it is nobody's.

    Raise OSError when that cannot be told now: something could not be read, and the token is nobody else's.
    """
    all_of_them, found, unread = [OWNER], [], None
    try:
        all_of_them += [holder.name for holder in holders(home)]
    except OSError as error:
        unread = error
    for name in all_of_them:  # also when it was found, so that the time tells nothing
        try:
            if is_current(home, name, token):
                found.append(name)
        except OSError as error:
            unread = error
    if unread is not None and not found:
        raise unread
    return found[0] if found else None


def is_current(home: Home, holder: str, token: str) -> bool:
    """Tell whether this is the token of a holder now: it was not revoked or replaced."""
    try:
        known = _read(_path_of(home, holder))
    except PermissionError:  # something else lies there
        return False
    return same_token(token, known or "")


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
            _remove_damaged(path)
        make_once(path, make().encode() + b"\n")
    return known


def _remove_damaged(path: str) -> None:
    """Remove a file that has no token, as an older vedette may have left it at a power cut: it opens nothing."""
    with contextlib.suppress(FileNotFoundError), open(open_private(path, os.O_RDONLY), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of all who have found it damaged, the others then see another file
        if os.path.samestat(os.fstat(file.fileno()), os.stat(path)) and not _read(path):
            os.unlink(path)


def _read(path: str) -> str | None:
    """Return the token or id in a file: None if there is no file, "" if it has none, but zeros or other bytes."""
    try:
        text = read_private(path).decode(errors="surrogateescape").strip("\0 \t\r\n")
    except FileNotFoundError:
        return None
    return text if text.isprintable() else ""
