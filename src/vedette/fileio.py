"""Plain operations on files that several rooms need: open, read, write and copy all of it, digest, list, remove.

All that is written in a home is opened by `open_private`, and its directories are made by `make_private_directory`:
somebody else may have put a link there, to have us write to what is behind it (decisions/038).
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vedette.errors import BlobError
from vedette.interrupts import let_through

if TYPE_CHECKING:
    import hashlib

BLOCK_BYTES = 1 << 20
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}", re.DOTALL)


def open_plain(path: str | os.PathLike[str], *, follow: bool) -> int:
    """Open a regular file; raise BlobError when it is a directory, a pipe or a device, which could block.

    `follow`: the path may be a symbolic link. Raise OSError when it cannot be opened.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BlobError(f"{os.fspath(path)} is not a file")
    return fd


def read_all(fd: int, most: int) -> bytes:
    """Read to the end, or so many bytes."""
    data = b""
    while len(data) < most and (more := os.read(fd, most - len(data))):
        data += more
    return data


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all bytes; raise OSError when the disk is full."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def open_private(path: str, flags: int) -> int:
    """Open a file of a home, which may be made by that for its owner alone; return its descriptor.

    Raise PermissionError when it is a link, or something else that another user may have put there; raise OSError when
    it cannot be opened.
    """
    cut = flags & os.O_TRUNC  # only when we know what it is
    try:
        fd = os.open(path, (flags ^ cut) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        let_through(error)
        if error.errno == errno.ELOOP:
            raise PermissionError(f"{path} is a symbolic link, and vedette writes through none: remove it") from None
        raise
    try:
        _refuse_planted(path, os.fstat(fd), stat.S_ISREG)
        if cut:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_private(path: str) -> None:
    """Raise PermissionError when `open_private` would; for a file that another library opens. It need not exist."""
    with contextlib.suppress(FileNotFoundError):
        _refuse_planted(path, os.lstat(path), stat.S_ISREG)


def _refuse_planted(path: str, status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Raise PermissionError when this is of another kind, or another user may have put it into its directory.

    It is ours, or, where we are told to work in the home of another user, that user's. A file may have a second name,
    as in a backup, but not where others could have made a link to it.
    """
    ours = os.geteuid()
    named_twice = status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)
    if is_kind(status.st_mode) and status.st_uid == ours and not named_twice:
        return
    folder = os.stat(os.path.dirname(path) or ".")
    open_to_others = folder.st_uid != ours or folder.st_mode & 0o022
    if not is_kind(status.st_mode) or status.st_uid not in (ours, folder.st_uid) or (named_twice and open_to_others):
        raise PermissionError(
            f"{path} is not what it should be, and somebody else may have put it there (it belongs to user"
            f" {status.st_uid}): look at it, and remove it"
        )


def read_private(path: str) -> bytes:
    """Return the bytes of a small file of a home; raise as `open_private` does."""
    fd = open_private(path, os.O_RDONLY)
    try:
        return read_all(fd, BLOCK_BYTES)
    finally:
        os.close(fd)


def write_private(path: str, data: bytes, *, flush: bool = True) -> None:
    """Write a file that its owner alone can read, or replace it: all of it, or nothing and an OSError.

    Without `flush` a power cut may leave it empty: for what is worth nothing after one.
    """
    with _beside(path, data, flush=flush) as new:
        os.rename(new, path)
    if flush:
        sync_directory(os.path.dirname(path))


def make_once(path: str, data: bytes) -> bool:
    """Make a file that its owner alone can read, unless there is one; tell whether it was made. Raise OSError if not.

    Of all who do this at once, one makes it. Whoever then reads it sees what that one has written, and all of it, also
    after a power cut.
    """
    try:
        _link_nameless(path, data)
        made = True
    except FileExistsError as error:
        let_through(error)
        made = False
    except OSError as error:  # this file system can make no file without a name
        let_through(error)
        made = _link_named(path, data)
    sync_directory(os.path.dirname(path))  # also of who came late: the other one may not have done it yet
    return made


def _link_nameless(path: str, data: bytes) -> None:
    """Write a file that has no name yet, and give it this one; raise OSError where that cannot be done.

    A file that had another name first would have two of them for a moment, or for good if we are killed then, and
    `_refuse_planted` takes no such file in a directory where others may write.
    """
    fd = open_private(os.path.join(os.path.dirname(path), "."), os.O_WRONLY | os.O_TMPFILE)
    try:
        write_all(fd, data)
        os.fsync(fd)
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)  # without src_dir_fd none is followed
    finally:
        os.close(fd)


def _link_named(path: str, data: bytes) -> bool:
    with _beside(path, data, flush=True) as new:
        try:
            os.link(new, path)
        except FileExistsError as error:
            let_through(error)
            return False
    return True


@contextlib.contextmanager
def _beside(path: str, data: bytes, *, flush: bool) -> Iterator[str]:
    """Write a file beside a path, by a name that nobody else has and no file of a home can have; remove it at the end.

    A name of its own, because several processes may write the same file at once.
    """
    folder, name = os.path.split(path)
    new = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    fd = open_private(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            write_all(fd, data)
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
        yield new
    finally:
        unlink(new)


def is_unfinished(name: str) -> bool:
    """Tell whether a file has a name as `write_private` gives it for a moment: its writer may have been killed then."""
    return _UNFINISHED.fullmatch(name) is not None


def sync_directory(path: str) -> None:
    """Make the names in a directory safe from a power cut."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        let_through(error)
        if error.errno != errno.EINVAL:  # there are file systems that cannot
            raise
    finally:
        os.close(fd)


def copy(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes. Where the file system can share them between the two files, it does."""
    done = 0
    try:
        while done < size and (count := os.copy_file_range(source, target, size - done, done, done)):
            done += count
    except (OSError, AttributeError) as error:  # two file systems, or one that cannot do it
        let_through(error)
    if done < size:
        os.lseek(target, done, os.SEEK_SET)
    while done < size and (data := os.pread(source, min(BLOCK_BYTES, size - done), done)):
        write_all(target, data)
        done += len(data)


def sha256(data: bytes = b"") -> "hashlib._Hash":
    """Return a running sha256."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, which `init` need not wait for

    return hashlib.sha256(data)


def digest_of(fd: int) -> str:
    """Return the sha256 of a file's bytes, read from its beginning."""
    total, block, at = sha256(), memoryview(bytearray(BLOCK_BYTES)), 0
    while count := os.preadv(fd, [block], at):
        total.update(block[:count])
        at += count
    return total.hexdigest()


def identity(path: str) -> tuple[int, int] | None:
    """Return which file is at a path now; None if there is none. A file that was moved away is not there any more."""
    try:
        found = os.stat(path)
    except OSError as error:
        let_through(error)
        return None
    return found.st_dev, found.st_ino


def file_size(path: str) -> int:
    """Return a file's size, 0 when there is none."""
    try:
        return os.stat(path).st_size
    except OSError as error:
        let_through(error)
        return 0


def exists(path: str) -> bool:
    """Tell whether there is a file. `os.path.exists` would swallow an error of the user's signal handler."""
    try:
        os.stat(path)
    except OSError as error:
        let_through(error)
        return False
    return True


def make_directory(path: str, mode: int = 0o755) -> None:
    """Make a directory if it is not there, and those above it. `mode` is of the last one, less the umask.

    The others are 0755 at most: whoever could write to one could put another directory in place of what lies below.

    `os.makedirs` would swallow an error of the user's signal handler.
    """
    try:
        _make_one_directory(path, mode)
    except FileNotFoundError as error:
        let_through(error)
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_directory(parent)
        _make_one_directory(path, mode)


def _make_one_directory(path: str, mode: int) -> None:
    try:
        os.mkdir(path, mode)
    except FileExistsError as error:
        let_through(error)
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise


def make_private_directory(path: str) -> None:
    """Make a directory of a home, for its owner alone, if it is not there; its parent must be there.

    It may be a link that we have made ourselves, to another disk. Raise PermissionError when somebody else has made it.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError as error:
        let_through(error)
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid():
            status = os.stat(path)
        _refuse_planted(path, status, stat.S_ISDIR)


def names(folder: str) -> list[str]:
    """Return the names in a directory, sorted; none when it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        let_through(error)
        return []


def unlink(path: str) -> None:
    """Remove a file, if it is there and can be removed."""
    try:
        os.unlink(path)
    except OSError as error:
        let_through(error)
