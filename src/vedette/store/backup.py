"""Copies a home into one file while it is in use (decisions/037); `restore` makes a home of it again.

Spools and inboxes are copied first, then the store, then the files that its runs have saved. What the hub moves from a
spool into the store meanwhile is then in the store; what is in both is known by its offset.
"""

import fcntl
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import BinaryIO

from vedette.errors import BlobError, DamagedError, NotFoundError, StoreError, VedetteError
from vedette.fileio import file_size, is_unfinished, open_plain, sync_directory
from vedette.home import Home
from vedette.store.backup_file import About, Writer, is_name, read, reason, unreadable
from vedette.store.sqlite_connection import Connection, connect, damaged
from vedette.store.sqlite_file import check_version, open_reader, quoted

STORE, SETTINGS = "store.db", "vedette.toml"
_NEW, _COPY = "backup.new", "backup.store"  # a backup that is being written, and a copy of the store; no home has these
_RANDOM = 16  # digits of the name of the directory that they are in
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TRIES, _PAUSE_S = 4, 0.2
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
        writer = Writer(file, time.time_ns())
        _add(writer, home, ("spool", "inbox"), shown)
        settle()
        _check_room(home, path, ())  # the store may have grown by what waited in the spools
        writer.about.runs = _add_store(writer, home, folder, shown)
        left_out = _add(writer, home, ("", "tokens", "blobs"), shown)
        writer.close()
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        shown("checking what was written")
        about = read(file, path, lambda _name, _t: open(os.devnull, "wb"))  # noqa: SIM115 - it closes it
        _check_free(home, path, force=force)
        if not os.path.samestat(os.stat(_NEW, dir_fd=folder, follow_symlinks=False), os.fstat(file.fileno())):
            raise _moved(path)
        os.rename(_NEW, path, src_dir_fd=folder)
        sync_directory(os.path.dirname(path))
    return about, left_out


def _check_free(home: Home, path: str, *, force: bool) -> None:
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise VedetteError(f"there is no directory {os.path.dirname(path)}")
    if os.path.isdir(path or "."):
        raise VedetteError(f"{path or '.'} is a directory: give the name of a file")
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
def _written(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """Hand out a new file, and a descriptor of the directory beside the path that it is in; remove both at the end.

    Raise VedetteError when something fails.
    """
    where, name = os.path.split(path)
    try:
        with _opened(where or ".") as beside, ExitStack() as held:
            for tries_left in reversed(range(_TRIES)):
                try:
                    new = held.enter_context(_begun(beside, name))
                    break
                except (BlockingIOError, FileNotFoundError):  # of two that begin at the same moment both may see this
                    if not tries_left:
                        raise
                    time.sleep(random.uniform(0, _PAUSE_S))
            yield new
    except BlockingIOError:
        raise VedetteError(f"another backup is being written to {path}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {reason(error)}") from None


@contextmanager
def _begun(beside: int, name: str) -> Iterator[tuple[BinaryIO, int]]:
    """Make the directory and the file; raise BlockingIOError when another backup to the same path is being written.

    The directory is ours alone and has a name that nobody knew: nothing of others is in it, and none of theirs is lost.
    Who may write beside it can move it, and put another in its place: so only its descriptor is used, not its name.
    """
    mine = f".{name}.{os.urandom(_RANDOM // 2).hex()}"
    os.mkdir(mine, 0o700, dir_fd=beside)
    with _opened(mine, beside) as folder:
        try:
            new = os.open(_NEW, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
            with open(new, "r+b") as file:
                _check_own(folder, new)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_alone(beside, mine) or _NEW not in os.listdir(folder):
                    raise BlockingIOError
                yield file, folder
        finally:
            _remove(beside, mine, folder)


@contextmanager
def _opened(path: str, beside: int | None = None) -> Iterator[int]:
    """Open a directory; one that is named by where it lies may not be a link."""
    fd = os.open(path, _FOLDER | (0 if beside is None else os.O_NOFOLLOW), dir_fd=beside)
    try:
        yield fd
    finally:
        os.close(fd)


def _check_own(folder: int, new: int) -> None:
    """Raise PermissionError when a directory is not of the user who has just made a file in it, and close it to others.

    Another may have put one of his in place of ours, or one of ours that is open. There are disks on which all files
    are somebody else's, or open: so its user is not compared with us, and it need not be possible to close it.
    """
    status = os.fstat(folder)
    if status.st_uid != os.fstat(new).st_uid:
        raise PermissionError("somebody else has put a directory in place of ours")
    if status.st_mode & 0o077:
        with suppress(OSError):
            os.fchmod(folder, 0o700)


def _moved(path: str) -> StoreError:
    return StoreError(
        f"{path} cannot be written: somebody has put other files in place of ours. Choose a directory that only you can"
        " write to"
    )


def _is_alone(beside: int, mine: str) -> bool:
    """Remove what backups that were killed have left here; tell whether no other to the same path is being written."""
    alone = True
    for other in os.listdir(beside):
        if other != mine and is_unfinished(other):
            same = other[:-_RANDOM] == mine[:-_RANDOM]
            alone = (_is_over(beside, other, same=same) or not same) and alone
    return alone


def _is_over(beside: int, other: str, *, same: bool) -> bool:
    """Remove what a backup that was killed has left; return False, and leave it, if it is still being written.

    `same`: it is one to the same path; of another path it is only known by the file in it.
    """
    with suppress(OSError), _opened(other, beside) as folder:
        if os.fstat(folder).st_uid != os.geteuid():
            return True
        try:
            new = os.open(_NEW, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with open(new, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(beside, other, folder)
        except BlockingIOError:
            return False
        except OSError:  # it was killed, or has ended, when it had no file in there
            if same:
                _remove(beside, other, folder)
    return True


def _remove(beside: int, name: str, folder: int) -> None:
    """Remove a directory that `_begun` has made, with its files; what anybody else has put there stays."""
    for own in (_NEW, *(_COPY + end for end in ("", "-journal", "-wal", "-shm"))):
        with suppress(OSError):
            os.unlink(own, dir_fd=folder)
    with suppress(OSError):
        os.rmdir(name, dir_fd=beside)


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


def _add_store(writer: Writer, home: Home, folder: int, shown: Shown) -> int:
    """Add the store as it is at one moment, by a copy in the folder that is checked; return how many runs it has."""
    try:
        reader = open_reader(home.store)
    except NotFoundError:
        return 0
    with closing(reader):
        new = os.open(_COPY, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(new, "rb") as copy:
            _copy_store(reader.connection, folder, new, shown)
            reader.close()
            shown("store: checking the copy")
            with closing(_connected(folder, new, "?mode=ro&immutable=1")) as store:
                runs = _check(store)
            writer.add(STORE, copy, f"the copy of {home.store}")
    os.unlink(_COPY, dir_fd=folder)
    return runs


def _copy_store(store: sqlite3.Connection, folder: int, new: int, shown: Shown) -> None:
    with closing(_connected(folder, new)) as target:
        target.execute("PRAGMA synchronous = OFF")
        target.execute("PRAGMA journal_mode = OFF")  # its file would be another one that is known by its name only
        # In a transaction it is one snapshot; else each commit of the hub would make it begin again, for ever.
        store.execute("BEGIN")
        store.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        store.backup(
            target, pages=_PAGES, progress=lambda _, left, total: shown(f"store: {100 * (total - left) // total} %")
        )


def _connected(folder: int, copy: int, how: str = "") -> Connection:
    """Open the copy of the store; raise StoreError when that is another file.

    SQLite opens a file by the name that its directory has at that moment, whatever path it was given. What it has then
    opened is among our descriptors.
    """
    connection = connect(f"file:/proc/self/fd/{folder}/{_COPY}{how}", uri=True, isolation_level=None)
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the list itself
            if int(name) != copy and os.path.samestat(os.fstat(int(name)), os.fstat(copy)):
                return connection
    connection.close()
    raise _moved("the backup")


def check_store(path: str) -> int:
    """Return how many runs are in a store that nobody uses; raise VedetteError when something is wrong with it."""
    with closing(connect(f"file:{quoted(path)}?mode=ro&immutable=1", uri=True)) as store:
        return _check(store)


def _check(store: Connection) -> int:
    check_version(store.execute("PRAGMA user_version").fetchone()[0])
    wrong = store.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if wrong != "ok":
        raise DamagedError(damaged(wrong.splitlines()[-1]))
    return int(store.execute("SELECT count(*) FROM runs").fetchone()[0])
