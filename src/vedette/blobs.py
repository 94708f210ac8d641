"""The store of blobs: files under a home, named by the sha256 of their bytes, so that equal files are kept once.

`blobs/ab/REST` is the blob whose digest begins with ab. A blob is written to `blobs/new`, and renamed when it is
complete; a process that dies before that leaves a file there, which the hub removes later. A blob that is saved again
is touched, so that nobody removes what is being saved at this moment: see `remove`.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from vedette import fileio
from vedette.errors import BlobError, FormatError, NotFoundError, VedetteError
from vedette.fileio import (
    BLOCK_BYTES,
    digest_of,
    make_directory,
    make_private_directory,
    open_plain,
    open_private,
    sha256,
    unlink,
    write_all,
)
from vedette.home import Home
from vedette.settings import Limits

Source = bytes | bytearray | memoryview | str | os.PathLike[str]

NO_LIMITS = Limits(blob_bytes=0, blobs_bytes=0)
YOUNG_S = 600.0  # a blob stays this long after it was last saved, even if no fact names it yet
_SMALL = 1 << 20  # a file up to this size is read into memory: nothing is written if its blob is here already
_HEX = frozenset("0123456789abcdef")
_NEW, _GOING, _PARTS, _TOTAL, _SPARED = "new", "going", "parts", "total", "spared"


class Part(NamedTuple):
    """What has come of a blob so far, from one sender."""

    changed_ns: int
    size: int
    path: str


class Found(NamedTuple):
    """A blob in the store."""

    digest: str
    size: int
    saved: float  # when it was last saved, in seconds


_MOST_MANIFEST = 64 << 20


class _Listed(msgspec.Struct):
    digest: str


def is_digest(text: object) -> bool:
    """Tell whether a text is a digest: 64 lowercase hexadecimal digits, and nothing else."""
    return isinstance(text, str) and len(text) == 64 and _HEX.issuperset(text)


class Blobs:
    """The blobs of one home."""

    def __init__(self, home: Home | str, limits: Limits | None = None) -> None:
        """Touch no file yet. `home` may also be the root directory of one."""
        self.root = os.path.join(home if isinstance(home, str) else home.root, "blobs")
        self.limits = Limits() if limits is None else limits
        self._added = 0  # bytes that this object has added since the hub last counted
        self._counted = (0, 0)  # identifies the hub's last count: if the file differs, the count is newer

    def keep(self, source: Source, *, follow: bool = True) -> tuple[str, int]:
        """Save bytes, or the file at a path as it is now; return digest and size. A kill after that loses nothing.

        `follow`: the path may be a symbolic link. Raise BlobError when it is not a regular file or over a limit,
        OSError when it cannot be read or written.
        """
        if isinstance(source, bytes | bytearray | memoryview):
            return self._keep_bytes(bytes(source))
        fd = open_plain(source, follow=follow)
        try:
            if os.fstat(fd).st_size > _SMALL:
                return self._keep_file(fd, os.fstat(fd).st_size)
            return self._keep_bytes(fileio.read_all(fd, _SMALL))
        finally:
            os.close(fd)

    def path(self, digest: str) -> str:
        """Return the path of a blob, whether it is here or not. Raise BlobError when the digest is malformed.

        Digests come from other hubs, too: nothing but a digest ever becomes a path.
        """
        if not is_digest(digest):
            raise BlobError(f"{str(digest)[:80]!r} is not a digest: that is 64 hexadecimal digits")
        return os.path.join(self.root, digest[:2], digest[2:])

    def open(self, digest: str) -> BinaryIO:
        """Open a blob for reading; raise NotFoundError when it is not here."""
        try:
            fd = open_plain(self.path(digest), follow=False)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"the bytes of {digest[:12]} are not in this home") from None
        return os.fdopen(fd, "rb")

    def size(self, digest: str) -> int | None:
        """Return how large a blob is, None when it is not here."""
        try:
            status = os.lstat(self.path(digest))
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def touch(self, digest: str) -> None:
        """Mark a blob as just saved: a fact is about to name it."""
        with contextlib.suppress(OSError):
            os.utime(self.path(digest), follow_symlinks=False)

    def verify(self, digest: str) -> bool:
        """Tell whether a blob is here, and its bytes match its digest."""
        try:
            with self.open(digest) as file:
                return digest_of(file.fileno()) == digest
        except (OSError, NotFoundError):
            return False

    def listed(self, manifest: str, *, surely: bool = False) -> list[str]:
        """Return the digests that a manifest lists; none when it is not here, or is not a manifest.

        `surely`: raise OSError when it is here but cannot be read now, because too many files are open, for example.
        """
        try:
            with self.open(manifest) as file:
                rows = msgspec.json.decode(file.read(_MOST_MANIFEST), type=list[_Listed])
        except (VedetteError, msgspec.MsgspecError, ValueError, RecursionError):
            return []
        except OSError as error:
            if surely and error.errno != errno.ELOOP:  # a symbolic link in its place is not a blob
                raise
            return []
        return [row.digest for row in rows if is_digest(row.digest)]

    def flush(self, digest: str) -> None:
        """Make a blob safe from a power cut, if it is here."""
        with contextlib.suppress(OSError, NotFoundError), self.open(digest) as file:
            os.fsync(file.fileno())

    def part(self, digest: str, *sender: str) -> str:
        """Return the path where a blob from one sender is put together; `adopt` makes it a blob.

        `sender`: whose it is, and then which of his senders it is.
        """
        self.path(digest)
        self._make(_PARTS)
        return os.path.join(self.root, _PARTS, f"{digest}{_suffix(sender)}")

    def parts(self, *sender: str) -> list[Part]:
        """Return the incomplete blobs, of all senders or of those that begin so; those that rest longest first."""
        folder, suffix = os.path.join(self.root, _PARTS), _suffix(sender)
        found = []
        for name in fileio.names(folder):
            if f"{name[64:]}.".startswith(f"{suffix}."):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    found.append(Part(status.st_mtime_ns, status.st_size, path))
        return sorted(found)

    def adopt(self, path: str, digest: str) -> bool:
        """Turn a file of ours into a blob if its bytes match the digest, otherwise remove it; tell which."""
        fd = open_plain(path, follow=False)
        try:
            right = digest_of(fd) == digest
            size = os.fstat(fd).st_size
            if right:
                os.fsync(fd)
        finally:
            os.close(fd)
        if right:
            self._install(path, digest, size)
        else:
            os.unlink(path)
        return right

    def take(self, source: BinaryIO, size: int, digest: str) -> Iterator[int]:
        """Copy a blob from an open file, one block in each step; raise FormatError when it does not match."""
        self.path(digest)
        fd, path = self._new()
        try:
            total, done = sha256(), 0
            with open(fd, "wb", buffering=0) as file:
                while done < size and (data := source.read(min(BLOCK_BYTES, size - done))):
                    total.update(data)
                    write_all(file.fileno(), data)
                    done += len(data)
                    yield done
            if total.hexdigest() != digest or done != size:
                raise FormatError(f"the bytes of {digest[:12]} do not match their digest")
            self._install(path, digest, size)
        except BaseException:
            unlink(path)
            raise

    def check_room(self, size: int, more: int | None = None) -> None:
        """Raise BlobError, with the name of the limit, when a blob of this size would exceed one.

        `more`: how many bytes it would add to the home, if not all of them.
        """
        limits = self.limits
        if limits.blob_bytes and size > limits.blob_bytes:
            raise BlobError(f"{size} bytes are over the limit of {limits.blob_bytes}", "limits.blob_bytes")
        if limits.blobs_bytes and self.total() + (size if more is None else more) > limits.blobs_bytes:
            raise BlobError(f"the home has its {limits.blobs_bytes} bytes of files already", "limits.blobs_bytes")

    def total(self) -> int:
        """Return about how many bytes all blobs have: the hub's last count, and what was added here since."""
        try:
            with open(os.path.join(self.root, _TOTAL), "rb") as file:
                self._note_count(os.fstat(file.fileno()))
                text = file.read(20)
        except OSError:
            text = b""
        return (int(text) if text.isdigit() else 0) + self._added

    def _note_count(self, status: os.stat_result) -> None:
        """Forget what was added here once the hub has counted again: its count includes that."""
        counted = status.st_mtime_ns, status.st_ino
        if counted != self._counted:
            self._counted, self._added = counted, 0

    # What only the hub does.

    def all(self) -> Iterator[Found]:
        """Yield all blobs."""
        for name in fileio.names(self.root):
            if len(name) == 2 and _HEX.issuperset(name):
                with contextlib.suppress(OSError), os.scandir(os.path.join(self.root, name)) as entries:
                    for entry in entries:
                        if is_digest(name + entry.name) and entry.is_file(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            yield Found(name + entry.name, status.st_size, status.st_mtime)

    def count(self, total: int) -> None:
        """Write down how many bytes all blobs have, for every process of this home."""
        self._make(_NEW)
        path = os.path.join(self.root, _NEW, f"{_TOTAL}.{os.getpid()}")
        with open(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(b"%d" % total)
            file.flush()
            status = os.fstat(file.fileno())
        os.rename(path, os.path.join(self.root, _TOTAL))
        self._note_count(status)

    def remove(self, digest: str, young_s: float = YOUNG_S) -> bool:
        """Remove a blob, unless it was saved a short time ago; tell whether it is gone.

        It is first moved away, then its time is checked. Another process may save the same bytes at this moment. It
        either finds no blob and writes it again, or touched the blob before the move, and then it is moved back.
        """
        path, away = self.path(digest), os.path.join(self.root, _GOING, digest)
        try:
            self._make(_GOING)
            os.rename(path, away)
            if os.lstat(away).st_mtime > time.time() - young_s:
                _put_back(away, path)
                return False
            os.unlink(away)
        except OSError:
            return False
        return True

    def spare(self) -> None:
        """Keep all blobs that are here now, whatever names them: the store that did is gone, and may come back."""
        if next(self.all(), None) is not None:
            fileio.write_private(os.path.join(self.root, _SPARED), b"")

    def spared_until(self) -> float | None:
        """Return when blobs were last spared: what was saved before that is not removed. None if they never were."""
        try:
            return os.stat(os.path.join(self.root, _SPARED)).st_mtime
        except OSError:
            return None

    def tidy(self, young_s: float = YOUNG_S) -> None:
        """Clean up after processes that died: move back half-removed blobs, remove incomplete ones after a while."""
        going = os.path.join(self.root, _GOING)
        for digest in filter(is_digest, fileio.names(going)):
            with contextlib.suppress(OSError):
                _put_back(os.path.join(going, digest), self.path(digest))
        for folder, patience in ((_NEW, 6), (_PARTS, 144)):  # it may take a day to repair a network
            for name in fileio.names(os.path.join(self.root, folder)):
                path = os.path.join(self.root, folder, name)
                with contextlib.suppress(OSError):
                    if os.lstat(path).st_mtime <= time.time() - patience * young_s:
                        os.unlink(path)

    def _keep_bytes(self, data: bytes) -> tuple[str, int]:
        digest = sha256(data).hexdigest()
        if not self._refresh(digest, len(data)):
            self.check_room(len(data))
            fd, path = self._new()
            try:
                with open(fd, "wb", buffering=0) as file:
                    write_all(file.fileno(), data)
                self._install(path, digest, len(data))
            except BaseException:
                unlink(path)
                raise
        return digest, len(data)

    def _keep_file(self, source: int, size: int) -> tuple[str, int]:
        """Copy the file, then compute the digest of the copy: the file may change meanwhile, the copy does not."""
        self.check_room(size)
        fd, path = self._new()
        try:
            try:
                fileio.copy(source, fd, size)
                digest, size = digest_of(fd), os.fstat(fd).st_size
            finally:
                os.close(fd)
            self._install(path, digest, size)
        except BaseException:
            unlink(path)
            raise
        return digest, size

    def _new(self) -> tuple[int, str]:
        folder = os.path.join(self.root, _NEW)
        path = os.path.join(folder, f"{os.getpid()}.{os.urandom(8).hex()}")
        self._make(_NEW)
        return open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), path

    def _make(self, name: str) -> None:
        """Make a directory of this store, if it is not there."""
        try:
            make_private_directory(self.root)
        except FileNotFoundError:
            make_directory(os.path.dirname(self.root), 0o700)
            make_private_directory(self.root)
        make_private_directory(os.path.join(self.root, name))

    def _refresh(self, digest: str, size: int) -> bool:
        """Tell whether a blob is here and complete; if so, touch it."""
        path = self.path(digest)
        try:
            os.utime(path, follow_symlinks=False)
            status = os.lstat(path)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == size

    def _install(self, path: str, digest: str, size: int) -> None:
        if self._refresh(digest, size):
            unlink(path)
            return
        self._make(digest[:2])
        with contextlib.suppress(OSError):
            self._note_count(os.stat(os.path.join(self.root, _TOTAL)))
        os.utime(path)
        os.rename(path, self.path(digest))
        self._added += size


def _suffix(sender: tuple[str, ...]) -> str:
    return "".join("." + sha256(one.encode("utf-8", "replace")).hexdigest()[:16] for one in sender)


def _put_back(away: str, path: str) -> None:
    """Move a file back, unless another process has written it again meanwhile."""
    try:
        os.link(away, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.rename(away, path)
        return
    os.unlink(away)
