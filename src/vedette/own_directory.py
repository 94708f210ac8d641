"""Directories of the user's own where everybody may make files: in /tmp and /var/tmp.

Another user may have taken the name first. Then the next of a few names is used. All processes of a user find the same
directory without a word to each other, because each takes the first one that is theirs.
"""

import os
import stat

from vedette.errors import StrangerError
from vedette.interrupts import let_through

_MOST_NAMES = 10
_MOST_TRIES = 100


def find(parent: str, name: str, uid: int | None = None) -> str:
    """Return the directory of that name, or of one after it, that is ours; else the first name that is free.

    `uid`: whose it is to be, if not ours. Where others have all of the names, it is the first of them. Touch nothing.
    """
    known = names(parent, name)
    own = (path for path in known if is_own(path, uid))
    return next(own, None) or next((path for path in known if not os.path.lexists(path)), known[0])


def make(parent: str, name: str) -> str:
    """Return what `find` does, and make it, for us alone; raise StrangerError where others have all of the names."""
    for _ in range(_MOST_TRIES):
        path = find(parent, name)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError as error:
            let_through(error)
            if is_own(path):
                _close(path)
                return path
            continue  # another user was quicker
        others = [other for other in names(parent, name) if other != path and is_own(other)]
        if not others:
            return path
        try:  # another process of ours has made one at the same moment: only one of the two may stay
            os.rmdir(path)
        except OSError as error:  # somebody uses it already
            let_through(error)
            return path
    raise StrangerError(f"other users have taken {os.path.join(parent, name)}, and all of the names after it")


def is_own(path: str, uid: int | None = None) -> bool:
    """Tell whether a path is a directory of ours, or of another user, and not a link to one."""
    try:
        status = os.lstat(path)
    except OSError as error:
        let_through(error)
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == (os.geteuid() if uid is None else uid)


def names(parent: str, name: str) -> list[str]:
    """Return all names that such a directory may have, in the order in which they are tried."""
    return [os.path.join(parent, f"{name}.{number}" if number else name) for number in range(_MOST_NAMES)]


def _close(path: str) -> None:
    """Close a directory of ours to others; those around it cannot put another in its place, as its parent is sticky."""
    if os.lstat(path).st_mode & 0o077:
        os.chmod(path, 0o700)
