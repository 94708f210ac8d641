"""Copies a home into one file while it is in use (decisions/037); `restore` makes a home of it again.

Spools and inboxes are copied first, then the store, then the files that its runs have saved. What the hub moves from a
spool into the store meanwhile is then in the store; what is in both is known by its offset.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

from vedette.errors import BlobError, DamagedError, NotFoundError, StoreError, VedetteError
from vedette.fileio import file_size, open_plain, sync_directory, unlink
from vedette.home import Home
from vedette.own_directory import is_own
from vedette.store.backup_file import About, Writer, is_name, read, reason, unreadable
from vedette.store.sqlite_connection import connect, damaged
from vedette.store.sqlite_file import check_version, open_reader, quoted

STORE, SETTINGS = "store.db", "vedette.toml"
_NEW, _COPY = "backup.new", "backup.store"  # a backup that is being written, and a copy of the store; no home has these
_RANDOM = 16  # digits of the name of the directory that they are in
_PAGES = 2048  # of the store that are copied at once: 8 MiB
_SPARE_BYTES = 16 << 20
_DEEPEST = 3  # of the directories of a home; blobs/outward/DIGEST is one

Shown = Callable[[str], None]  # called with what is copied now


def back_up(home: Home, path: str, *, force: bool, settle: Callable[[], None], shown: Shown) -> tuple[About, list[str]]:
    """Write a backup of a home; raise VedetteError, and leave nothing, when that fails.

    `settle` has the hub store all that was logged until now; it is called when the spools are copied. Also return the
    names of files that runs have saved, and that are damaged here: they are left out.
    """
    _check_free(home, path, force=force)
    _check_room(home, path, ("spool", "inbox"))
    with _written(path) as (file, folder):
        store = os.path.join(folder, _COPY)
        writer = Writer(file, time.time_ns())
        _add(writer, home, ("spool", "inbox"), shown)
        settle()
        _check_room(home, path, ())  # the store may have grown by what waited in the spools
        writer.about.runs = _copy_store(home, store, shown)
        if os.path.exists(store):
            with open(store, "rb") as copy:
                writer.add(STORE, copy, store)
            os.unlink(store)
        left_out = _add(writer, home, ("", "tokens", "blobs"), shown)
        writer.close()
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        shown("checking what was written")
        about = read(file, path, lambda _name, _t: open(os.devnull, "wb"))  # noqa: SIM115 - it closes it
        _check_free(home, path, force=force)
        os.rename(os.path.join(folder, _NEW), path)
        sync_directory(os.path.dirname(path))
    return about, left_out


def _check_free(home: Home, path: str, *, force: bool) -> None:
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise VedetteError(f"there is no directory {os.path.dirname(path)}")
    if os.path.isdir(path):
        raise VedetteError(f"{path} is a directory: give the name of a file")
    if _is_of(home, path):
        raise VedetteError(f"{path} is in the home that is to be saved: give the name of a file elsewhere")
    if os.path.lexists(path) and not force:
        raise VedetteError(f"{path} exists already: give another name, or --force")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise VedetteError(f"{path} is not a file: give another name")


def _is_of(home: Home, path: str) -> bool:
    """Tell whether a path leads into a home, by whatever links, or is a second name of its store."""
    folders = [
        home.asked,
        home.root,
        *(os.path.join(home.root, name) for name in ("spool", "inbox", "tokens", "blobs")),
    ]
    real = os.path.realpath(path)
    if any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders):
        return True
    return os.path.exists(path) and os.path.exists(home.store) and os.path.samefile(path, home.store)


def _check_room(home: Home, path: str, folders: tuple[str, ...]) -> None:
    """Raise StoreError when the disk cannot hold the backup: a full disk would stop jobs that log to it.

    `folders`: what is yet to be copied before the store. The store is there twice, until its copy is in the backup.
    """
    first, blobs = (
        sum(file_size(where) for folder in each for _, where in _files(home, folder)) for each in (folders, ["blobs"])
    )
    store = file_size(home.store) + file_size(f"{home.store}-wal")
    needed = first + store + max(store, blobs) + _SPARE_BYTES
    free = shutil.disk_usage(os.path.dirname(path) or ".").free
    if needed > free:
        raise StoreError(
            f"{path} cannot be written: it needs {needed >> 20} MiB at most, and its disk has {free >> 20} MiB free"
        )


@contextmanager
def _written(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """Hand out a new file, and the directory beside the path that it is in; remove both at the end.

    The directory is ours alone and has a name that nobody knew: nothing of others is in it, and none of theirs is lost.
    Raise VedetteError when something fails.
    """
    where, name = os.path.split(os.path.abspath(path))
    folder = os.path.join(where, f".{name}.{os.urandom(_RANDOM // 2).hex()}")
    new = os.path.join(folder, _NEW)
    try:
        os.mkdir(folder, 0o700)
        try:
            with open(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not all(_is_over(other) for other in _others(folder)) or not os.path.exists(new):
                    raise BlockingIOError
                yield file, folder
        finally:
            _remove(folder)
    except BlockingIOError:
        raise VedetteError(f"another backup is being written to {path}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {reason(error)}") from None


def _others(folder: str) -> Iterator[str]:
    """Yield the directories of ours that other backups to the same path have made."""
    where, name = os.path.split(folder)
    form = re.compile(re.escape(name[:-_RANDOM]) + f"[0-9a-f]{{{_RANDOM}}}")
    for other in os.listdir(where):
        path = os.path.join(where, other)
        if other != name and form.fullmatch(other) and is_own(path):
            yield path


def _is_over(folder: str) -> bool:
    """Remove what a backup that was killed has left; return False, and leave it, if it is still being written."""
    try:
        with open(os.open(os.path.join(folder, _NEW), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
    except BlockingIOError:
        return False
    except OSError:  # it was killed, or has ended, when it had no file in there
        _remove(folder)
    return True


def _remove(folder: str) -> None:
    """Remove a directory that `_written` has made, with its files; what anybody else has put there stays."""
    for name in (_NEW, *(_COPY + end for end in ("", "-journal", "-wal", "-shm"))):
        unlink(os.path.join(folder, name))
    with suppress(OSError):
        os.rmdir(folder)


def _files(home: Home, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name in the backup and the path of each file below a folder of a home that is part of a backup."""
    if not folder:
        yield SETTINGS, os.path.join(home.asked, SETTINGS)  # on a network file system that is not in the root
    for name in _names(os.path.join(home.root, folder)):
        below = f"{folder}/{name}" if folder else name
        path = os.path.join(home.root, below)
        if is_name(below) and below not in (STORE, SETTINGS):
            yield below, path
        elif folder and below.count("/") < _DEEPEST and _is_directory(path):
            yield from _files(home, below)


def _is_directory(path: str) -> bool:
    """Tell whether this is a directory of a home; it may be a link that we have made ourselves, to another disk."""
    return os.path.isdir(path) and (not os.path.islink(path) or os.lstat(path).st_uid == os.geteuid())


def _names(folder: str) -> list[str]:
    """Return the names in a directory; raise StoreError when they cannot be read: the backup would lack them."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):  # the hub has just removed it
        return []
    except OSError as error:
        raise unreadable(folder, error) from None


def _add(writer: Writer, home: Home, folders: tuple[str, ...], shown: Shown) -> list[str]:
    """Add all files of some folders; return the names of those that are damaged."""
    damaged_files = []
    origins = set()
    for folder in folders:
        for count, (name, path) in enumerate(_files(home, folder), 1):
            shown(f"{folder or 'keys'}: {count} files")
            try:
                fd = open_plain(path, follow=name == SETTINGS)  # a user may keep these elsewhere
            except (FileNotFoundError, BlobError):
                continue  # the hub has just stored it, or removed it
            except OSError as error:
                raise unreadable(path, error) from None
            with open(fd, "rb") as source:
                if not writer.add(name, source, path):
                    damaged_files.append(name)
            if folder == "spool":
                origins.add(os.path.dirname(name))
    writer.about.spools += len(origins)
    return damaged_files


def _copy_store(home: Home, into: str, shown: Shown) -> int:
    """Copy the store as it is at one moment, and check the copy; return how many runs it has."""
    try:
        reader = open_reader(home.store)
    except NotFoundError:
        return 0
    os.close(os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(reader), closing(connect(into, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = OFF")
        # In a transaction it is one snapshot; else each commit of the hub would make it begin again, for ever.
        reader.connection.execute("BEGIN")
        reader.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        reader.connection.backup(
            target, pages=_PAGES, progress=lambda _, left, total: shown(f"store: {100 * (total - left) // total} %")
        )
    shown("store: checking the copy")
    return check_store(into)


def check_store(path: str) -> int:
    """Return how many runs are in a store that nobody uses; raise VedetteError when something is wrong with it."""
    with closing(connect(f"file:{quoted(path)}?mode=ro&immutable=1", uri=True)) as store:
        check_version(store.execute("PRAGMA user_version").fetchone()[0])
        wrong = store.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if wrong != "ok":
            raise DamagedError(damaged(wrong.splitlines()[-1]))
        return int(store.execute("SELECT count(*) FROM runs").fetchone()[0])
