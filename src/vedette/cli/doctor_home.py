"""What `vedette doctor` says of the directory of a home: where it is, whose, and who else could write to it.

Not a command itself.
"""

import os
import stat

from vedette import kernel, own_directory
from vedette.home import Home

Check = tuple[str, str, str]  # what, what was found, and what to do about it or ""

_ADVICE = "it cannot be written to, so nothing is kept: set VEDETTE_HOME to a directory that you can write to"


def examine(home: Home) -> list[Check]:
    """Return what there is to say of the directory."""
    if trouble := home.misplaced():
        return [("home", trouble.partition(";")[0], _ADVICE)]
    if not os.path.isdir(home.root):
        return [("home", f"{home.root} does not exist yet", "" if _can_make(home.root) else _ADVICE)]
    found = f"{home.root} ({kernel.file_system(home.root) or 'unknown file system'})"
    if home.moved:
        found += f"; {home.asked} is on {home.file_system}, a network file system, so a local directory is used"
    return [("home", found, _advice(home)), *_names(home), *_above(home.root), *_cleaned(home.root)]


def _advice(home: Home) -> str:
    if home.is_foreign:
        return (
            f"it belongs to user {os.stat(home.root).st_uid}, so it is only read: set VEDETTE_HOME to a directory of"
            " your own, or VEDETTE_FOREIGN_HOME=1 if you mean to work in this one"
        )
    if not _writable(home.root):
        return _ADVICE
    return f"others may write to it: chmod 700 {home.root}" if _is_open(os.stat(home.root)) else ""


def _names(home: Home) -> list[Check]:
    """Report that other users have taken names in /var/tmp, where a home on a network file system has its directory."""
    if not home.moved:
        return []
    folder, name = os.path.split(home.root)
    first = name.partition(".")[0]
    known = own_directory.names(folder, first)
    taken = [path for path in known[: known.index(home.root)] if os.path.lexists(path)]
    ours = [path for path in known if path != home.root and own_directory.is_own(path)]
    checks = [
        ("home", f"another user has {path}, so the next free name is used; nothing is lost", "") for path in taken
    ]
    return checks + [
        ("home", f"{path} is yours, too: two processes have begun at once", f"vedette sync {path}") for path in ours
    ]


def _above(root: str) -> list[Check]:
    """Report a directory above the home in which others could put something else in its place."""
    path = os.path.realpath(root)
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        status = os.stat(path)
        if status.st_uid not in (0, os.geteuid()):
            found = f"{path}, above it, belongs to user {status.st_uid}, who could put another directory in its place"
            return [("home", found, "set VEDETTE_HOME to a directory below your own")]
        if _is_open(status) and not status.st_mode & stat.S_ISVTX:
            found = f"others may write to {path}, above it, and could put another directory in its place"
            return [("home", found, f"chmod go-w {path}, or set VEDETTE_HOME to a directory below your own")]
    return []


def _cleaned(root: str) -> list[Check]:
    """Say where the system may remove a home by and by: a hint, since on many systems nothing does."""
    real = os.path.realpath(root)
    folder = next((folder for folder in ("/tmp", "/var/tmp") if real.startswith(f"{folder}/")), "")  # noqa: S108
    if not folder:
        return []
    found = (
        f"systemd-tmpfiles may remove what is old from {folder}, and with it runs of this home: a line `x {real}` in a"
        " file /etc/tmpfiles.d/vedette.conf prevents it, or set VEDETTE_HOME to a directory elsewhere"
    )
    return [("home", found, "")]


def _is_open(status: os.stat_result) -> bool:
    """Tell whether others may write to a directory; a group that has no other member does not count."""
    return bool(status.st_mode & 0o002) or bool(status.st_mode & 0o020 and not _is_of_us_alone(status.st_gid))


def _is_of_us_alone(gid: int) -> bool:
    import grp
    import pwd

    try:
        own, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == own.pw_gid and group.gr_name == own.pw_name and not {*group.gr_mem} - {own.pw_name}


def _can_make(path: str) -> bool:
    parent = os.path.dirname(path)
    return _writable(parent) if os.path.isdir(parent) else parent != path and _can_make(parent)


def _writable(path: str) -> bool:
    probe = os.path.join(path, f".doctor-{os.getpid()}")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.unlink(probe)
    except OSError:
        return False
    return True
