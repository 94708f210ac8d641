"""Makes a home of a backup: the same home, with its tokens and keys, so that jobs on other machines go on."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from vedette.errors import FormatError, HubError, SettingError, StoreError, VedetteError
from vedette.fileio import make_directory, names, open_plain
from vedette.home import Home
from vedette.store.backup import SETTINGS, STORE, check_store
from vedette.store.backup_file import About, read, reason

_RESTORING = "restoring"  # a directory in the home: what is in it is not part of it yet


def restore(path: str, home: Home) -> About:
    """Make a home of a backup, where there is none; raise VedetteError, and leave nothing, when that fails."""
    try:
        with open(open_plain(path, follow=True), "rb") as file, _empty(home) as folder:
            times: dict[str, int] = {}

            def keep(name: str, t: int) -> BinaryIO:
                into = os.path.join(folder, name)
                times[into] = t
                make_private(os.path.dirname(into))
                return open(os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

            about = read(file, path, keep)
            store = os.path.join(folder, STORE)
            try:
                runs = check_store(store) if store in times else 0
            except StoreError:
                raise FormatError(f"{path} is damaged: the store in it cannot be read") from None
            if runs != about.runs:
                raise FormatError(f"{path} is damaged: it has {runs} runs, and should have {about.runs}")
            for into, t in times.items():
                os.utime(into, (t, t))
            os.sync()  # before the store is in its place
            _move(folder, home)
            os.sync()
    except OSError as error:
        raise StoreError(f"{path} cannot be restored to {home.root}: {reason(error)}") from None
    return about


@contextmanager
def _empty(home: Home) -> Iterator[str]:
    """Hand out a directory in a home that has nothing else in it; no hub starts there meanwhile."""
    if trouble := home.misplaced():
        raise SettingError(trouble)
    new = not os.path.isdir(home.root)
    if found := set(names(home.root)) - {_RESTORING, os.path.basename(home.lock)}:
        raise VedetteError(
            f"{home.root} has something in it already ({min(found)}): give a directory that does not exist, or is"
            " empty, as --home"
        )
    make_directory(home.root, 0o700)
    lock = home.take_lock(0.0)
    if lock is None:
        raise HubError(f"a hub keeps {home.root} already: `vedette hub --stop --home {home.asked}` ends it")
    folder = os.path.join(home.root, _RESTORING)
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
        os.mkdir(folder, 0o700)
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if new:
            shutil.rmtree(home.root, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def make_private(folder: str) -> None:
    """Make a directory and those above it, for their owner alone."""
    if not os.path.isdir(folder):
        make_private(os.path.dirname(folder))
        os.mkdir(folder, 0o700)


def _move(folder: str, home: Home) -> None:
    """Move all that was unpacked to its place, the store last: without it, this is no home yet."""
    for name in sorted(os.listdir(folder), key=lambda name: name == STORE):
        place = home.asked if name == SETTINGS else home.root
        if place != home.root:  # on a network file system
            make_directory(place)
            shutil.move(os.path.join(folder, name), os.path.join(place, name))
        else:
            os.rename(os.path.join(folder, name), os.path.join(place, name))
    os.rmdir(folder)
