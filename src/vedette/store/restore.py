"""Makes a home of a backup: the same home, with its tokens and keys, so that jobs on other machines go on.

All is unpacked and checked in `restoring/` in the home, then moved to its place file by file, the store last: without
it, this is no home yet. Programs may begin to log there meanwhile, so nothing that is there is replaced or removed.

A restore that is killed leaves `restoring/`. The next one begins anew; if some of it is in its place already, it goes
on with what is left, and only if it is of the same backup.
"""

import filecmp
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import msgspec

from vedette.errors import FormatError, HubError, SettingError, StoreError, VedetteError
from vedette.fileio import (
    is_unfinished,
    make_directory,
    make_private_directory,
    names,
    open_plain,
    open_private,
    read_private,
    sha256,
    unlink,
    write_private,
)
from vedette.gauges import FILE as GAUGES
from vedette.home import Home
from vedette.segment import EXIT_CODE, STACKS
from vedette.store.backup import SETTINGS, STORE, Shown, check_store
from vedette.store.backup_file import About, is_name, read, reason

_RESTORING = "restoring"  # a directory in the home: what is in it is not part of it yet
_CHECKED = "checked"  # a file in it, once all is unpacked: the digest of what the backup says of itself
_OF_JOBS = {"spool", "blobs", "hub.log", "hub.waking", "hub.pids"}  # what programs make where no hub is
_BESIDE = (GAUGES, STACKS, EXIT_CODE)  # what a process writes beside its segments: newer than in a backup


def restore(path: str, home: Home, *, shown: Shown = lambda _: None) -> About:
    """Make a home of a backup, where there is none; raise VedetteError, and leave nothing, when that fails.

    What others have put there meanwhile stays as it is, also when it fails.
    """
    try:
        with open(open_plain(path, follow=True), "rb") as file, _taken(home) as folder:
            checked = os.path.join(folder, _CHECKED)
            goes_on = os.path.exists(checked)
            if goes_on:
                about = read(file, path, lambda _name, _t: open(os.devnull, "wb"))  # noqa: SIM115 - it closes it
                if read_private(checked) != _digest(about):
                    raise VedetteError(
                        f"{home.root} has a part of another backup, whose restore was killed: restore that one again,"
                        " or give another directory as --home"
                    )
            else:
                about = _unpack(file, path, folder, shown)
                os.sync()  # before any of it is in its place
                write_private(checked, _digest(about))
            _publish(folder, home, path, shown, goes_on=goes_on)
            os.sync()
            shutil.rmtree(folder, ignore_errors=True)
    except VedetteError:  # some are an OSError, too
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be restored to {home.root}: {reason(error)}") from None
    return about


@contextmanager
def _taken(home: Home) -> Iterator[str]:
    """Hand out `restoring/` in a home that has nothing else in it; no hub and no other restore begins meanwhile."""
    if trouble := home.misplaced():
        raise SettingError(trouble)
    home.check_owner()
    _check_empty(home)
    missing = [*_missing(home.root), *_missing(home.asked)]
    had_lock = os.path.lexists(home.lock)
    folder = os.path.join(home.root, _RESTORING)
    lock, is_ours = None, False
    try:
        make_directory(home.root, 0o700)
        lock = home.take_lock(0.0)
        if lock is not None and not home.holds(lock):  # another restore has just failed, and removed it
            os.close(lock)
            lock = None
        if lock is None:
            raise HubError(
                f"a hub keeps {home.root} already, or another restore: `vedette hub --stop --home {home.asked}` ends"
                " a hub"
            )
        _check_empty(home)
        make_private_directory(folder)
        is_ours = True
        if not _is_moving(home):  # one was killed before anything of it was moved
            shutil.rmtree(folder)
            make_private_directory(folder)
        yield folder
    except BaseException:
        if lock is not None and not _is_moving(home):
            if is_ours:
                shutil.rmtree(folder, ignore_errors=True)
            if not had_lock:
                unlink(home.lock)
        for each in missing:
            with suppress(OSError):  # somebody has put something there
                os.rmdir(each)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _check_empty(home: Home) -> None:
    """Raise VedetteError when somebody else has made something there.

    Where a restore was killed, it was empty when that began: then programs may have begun to log.
    """
    found = set(names(home.root)) - {os.path.basename(home.lock)}
    if _RESTORING in found and _is_left(os.path.join(home.root, _RESTORING)):
        found -= found if _is_moving(home) else {_RESTORING, *_OF_JOBS}
    if found:
        raise VedetteError(
            f"{home.root} has something in it already ({min(found)}): give a directory that does not exist, or is"
            f" empty, as --home{_and_sync(home) if 'spool' in found else ''}"
        )


def _is_left(folder: str) -> bool:
    """Tell whether a directory is one that a restore has made: nothing else is in it."""
    return all(is_name(name) or name == _CHECKED or is_unfinished(name) for name in _below(folder))


def _is_moving(home: Home) -> bool:
    """Tell whether a part of a backup may be in its place, and the rest is still in `restoring/`."""
    return os.path.lexists(os.path.join(home.root, _RESTORING, _CHECKED))


def _below(folder: str) -> list[str]:
    """Return the names of all files below a directory."""
    return [os.path.relpath(os.path.join(at, name), folder) for at, _, here in os.walk(folder) for name in here]


def _and_sync(home: Home) -> str:
    return f"; `vedette sync {home.asked}` then brings there what was logged here"


def _missing(path: str) -> list[str]:
    """Return the directories that have to be made for one to be there, the innermost first."""
    found = []
    while not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return found


def _unpack(file: BinaryIO, path: str, folder: str, shown: Shown) -> About:
    """Unpack a backup into a directory, and check it."""
    needed, free = os.fstat(file.fileno()).st_size, shutil.disk_usage(folder).free
    if needed > free:  # a full disk would stop jobs that log to it
        raise StoreError(
            f"{path} cannot be restored to {os.path.dirname(folder)}: it needs {needed >> 20} MiB, and the disk has"
            f" {free >> 20} MiB free"
        )
    times: dict[str, int] = {}

    def keep(name: str, t: int) -> BinaryIO:
        shown(f"unpacking {name}")
        into = os.path.join(folder, name)
        times[into] = t
        _make_above(folder, name, [])
        return open(os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

    about = read(file, path, keep)
    store = os.path.join(folder, STORE)
    shown("checking the store")
    try:
        runs = check_store(store) if store in times else 0
    except StoreError:
        raise FormatError(f"{path} is damaged: the store in it cannot be read") from None
    if runs != about.runs:
        raise FormatError(f"{path} is damaged: it has {runs} runs, and should have {about.runs}")
    for into, t in times.items():
        os.utime(into, (t, t))
    return about


def _publish(folder: str, home: Home, path: str, shown: Shown, *, goes_on: bool) -> None:
    """Move all that was unpacked to its place, the store last; if something fails, move it back, and raise.

    A file that is there already stays. It may be the same one: of a restore that was killed, or saved by a job.
    """
    found = sorted({*_below(folder)} - {_CHECKED}, key=lambda name: (name == STORE, "/" not in name, name))
    begun: list[tuple[str, str, os.stat_result]] = []
    made: list[str] = []
    apart = home.asked != home.root  # on a network file system, settings are on another disk than the root
    staged = os.path.join(home.asked, f"{SETTINGS}.{_RESTORING}") if apart else ""
    try:
        for name in found:
            shown(f"moving {name} to its place")
            source, place = os.path.join(folder, name), os.path.join(home.root, name)
            if apart and name == SETTINGS:
                make_directory(home.asked, 0o700)
                _copy_settings(source, staged)
                source, place = staged, os.path.join(home.asked, name)
            _make_above(home.root, name, made)
            begun.append((source, place, os.lstat(source)))
            if not _move(source, place) and _is_other(source, place):
                _refuse(place, path, home)
    except BaseException:
        for source, place, status in reversed(begun):
            _take_back(source, place, status)
        for directory in reversed(made):
            with suppress(OSError):  # somebody has put something there
                os.rmdir(directory)
        if not goes_on:
            os.unlink(os.path.join(folder, _CHECKED))
        raise
    finally:
        unlink(staged)


def _refuse(place: str, path: str, home: Home) -> None:
    if place == os.path.join(home.asked, SETTINGS) and home.asked != home.root:
        raise VedetteError(f"{place} is there already, and differs from the one in {path}: move it away first")
    raise VedetteError(
        f"{place} was made while {path} was restored, and is another one than in there: give another directory as"
        f" --home{_and_sync(home)}"
    )


def _move(source: str, place: str) -> bool:
    """Move a file to where nothing is; return False if something is there."""
    try:
        os.link(source, place)
    except FileExistsError:
        return False
    except OSError:  # a file system without links, or a trouble that the next call meets, too
        if os.path.lexists(place):
            return False
        os.rename(source, place)
    else:
        os.unlink(source)
    return True


def _take_back(source: str, place: str, status: os.stat_result) -> None:
    """Undo `_move`, however far it has come; somebody else's file stays."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(place), status):
            if os.path.lexists(source):
                os.unlink(place)
            else:
                os.rename(place, source)


def _is_other(source: str, place: str) -> bool:
    """Tell whether what is in a file's place is something else, which the file does not belong beside."""
    if os.path.basename(place) in _BESIDE:
        return False
    return not stat.S_ISREG(os.lstat(place).st_mode) or not filecmp.cmp(source, place, shallow=False)


def _make_above(root: str, name: str, made: list[str]) -> None:
    """Make the directories between a root and a file below it; add those that were not there to `made`."""
    for end in (at for at, letter in enumerate(name) if letter == "/"):
        directory = os.path.join(root, name[:end])
        if not os.path.lexists(directory):
            made.append(directory)
        make_private_directory(directory)


def _copy_settings(source: str, staged: str) -> None:
    unlink(staged)  # of one that was killed: it may be a second name of the settings
    with open(source, "rb") as file, open(open_private(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as into:
        shutil.copyfileobj(file, into)
    shutil.copystat(source, staged)


def _digest(about: About) -> bytes:
    return sha256(msgspec.json.encode(about)).hexdigest().encode()
