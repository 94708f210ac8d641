"""The file of a SQLite store: its version and its schema, and how it is opened to read."""

import errno
import os
import sqlite3
import stat
from collections.abc import Sequence

from vedette.errors import DamagedError, FormatError, LockedError, NotFoundError, StoreError, VersionError
from vedette.fileio import check_private, file_size, identity
from vedette.store.sqlite_connection import connect, unopened
from vedette.store.sqlite_read import SqliteReader

# Each brings a store from one version to the next; add a new one at the end.
STEPS = ("schema.sql", "awaited.sql", "relays.sql")
VERSION = len(STEPS)
_APPLICATION = 0x76656474  # "vedt"
_NOT_YET = "there is no store at {} yet: nothing has been logged to this home"


def open_reader(path: str, timeout_s: float = 10.0, *, untouched: bool = False) -> SqliteReader:
    """Open a store to read; raise NotFoundError when there is none, StoreError when it cannot be opened or read.

    `untouched`: it is another user's, and no file is made beside it.
    """
    check_file(path)
    file = identity(path)
    uri = f"file:{quoted(path)}?{_untouched(path) if untouched else 'mode=ro'}"
    connection = connect(uri, uri=True, timeout=timeout_s)
    ask_version = "SELECT user_version, tables FROM pragma_user_version, (SELECT count(*) AS tables FROM sqlite_schema)"
    try:
        version, tables = connection.execute(ask_version).fetchone()
    except (DamagedError, LockedError):  # while it is being written, it must not be read as immutable
        raise
    except StoreError:  # a read-only directory without the -shm file of a living hub
        connection.close()
        connection = connect(f"file:{quoted(path)}?mode=ro&immutable=1", uri=True)
        version, tables = connection.execute(ask_version).fetchone()
    if version == 0 and tables == 0:  # a hub is about to make it
        connection.close()
        raise NotFoundError(_NOT_YET.format(path))
    check_version(version)
    reader = SqliteReader(connection)
    reader.file = file
    return reader


def _untouched(path: str) -> str:
    """Return how to open a store without a trace: if its log is not there, SQLite makes one even to read.

    Where it is not there, or is empty, all is in the store itself.
    """
    try:
        for beside in ("", "-wal", "-shm", "-journal"):
            check_private(path + beside)
    except OSError as error:
        raise FormatError(f"{path} is not read: {error}") from None
    return "mode=ro" if file_size(path + "-wal") else "mode=ro&immutable=1"


def check_file(path: str) -> None:
    """Raise NotFoundError when there is no store at a path, StoreError when what is there cannot be one.

    It does not open the file: when it closed it, the locks of this process on it would be gone.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) and os.access(path, os.R_OK):
            return
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EACCES if stat.S_ISREG(mode) else errno.EINVAL, "")
    except FileNotFoundError:
        raise NotFoundError(_NOT_YET.format(path)) from None
    except OSError as error:
        raise unopened(error) from error


def quoted(path: str) -> str:
    """Return a path, escaped for a URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def check_version(version: int, known: int = VERSION) -> None:
    """Raise VersionError when a store is newer than this vedette."""
    if version > known:
        raise VersionError(
            f"the store has version {version}, and this vedette reads up to {known}: upgrade vedette; nothing is wrong"
            " with the store"
        )


def add_schema(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> None:
    """Bring the schema forward, one version at a time; each step is one transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, step in enumerate(steps[version:], version + 1):
        with open(os.path.join(os.path.dirname(__file__), step), encoding="utf-8") as file:
            script = file.read()
        connection.executescript(
            f"BEGIN IMMEDIATE; {script}\n; PRAGMA application_id = {_APPLICATION};"
            f" PRAGMA user_version = {number}; COMMIT;"
        )
