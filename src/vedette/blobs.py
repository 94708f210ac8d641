"""Files by the digest of their bytes, under a home: what is here is whole, and two of the same are one.

`blobs/ab/REST` is the blob whose sha256 begins with ab. One is written beside, in `blobs/new`, and renamed when it is
whole; whoever dies before that leaves a file there that the hub sweeps away. A blob that is kept once more is
touched, so that nobody removes what is being saved at this moment: see `remove`.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from vedette.errors import BlobError, FormatError, NotFoundError, VedetteError
from vedette.home import Home
from vedette.settings import Limits

if TYPE_CHECKING:
    import hashlib

Source = bytes | bytearray | memoryview | str | os.PathLike[str]

NO_LIMITS = Limits(blob_bytes=0, blobs_bytes=0)
YOUNG_S = 600.0  # so long after it was last saved nobody removes a blob, though nothing names it yet
_SMALL = 1 << 20  # is read at once, so that of what is here already nothing is written
_PIECE = 1 << 20
_HEX = frozenset("0123456789abcdef")
_NEW, _GOING, _PARTS, _TOTAL = "new", "going", "parts", "total"


class Found(NamedTuple):
    """A blob that is here."""

    digest: str
    size: int
    saved: float  # when it was last, in seconds


MANIFEST = "code.manifest"  # the blob of this name lists others by their digests, which are kept and shipped with it
_MOST_MANIFEST = 64 << 20


class _Listed(msgspec.Struct):
    digest: str


def is_digest(text: object) -> bool:
    """Tell whether a text is a digest as we write them: 64 small hexadecimal digits, and nothing else."""
    return isinstance(text, str) and len(text) == 64 and _HEX.issuperset(text)


class Blobs:
    """The blobs of one home."""

    def __init__(self, home: Home | str, limits: Limits | None = None) -> None:
        """Work out where they lie; touch nothing. `home` may be the root of one."""
        self.root = os.path.join(home if isinstance(home, str) else home.root, "blobs")
        self.limits = Limits() if limits is None else limits
        self._added = 0  # bytes that this one has kept since the hub has last counted
        self._counted = (0, 0)  # which file has the hub's count: another one is a newer count

    def keep(self, source: Source, *, follow: bool = True) -> tuple[str, int]:
        """Keep bytes, or the file at a path as it is now; return their digest and size when they are safe from a kill.

        `follow`: the path may be a symbolic link. Raise BlobError when it is no file or over a limit, OSError when it
        cannot be read or written.
        """
        if isinstance(source, bytes | bytearray | memoryview):
            return self._keep_bytes(bytes(source))
        fd = open_file(source, follow=follow)
        try:
            if os.fstat(fd).st_size > _SMALL:
                return self._keep_file(fd, os.fstat(fd).st_size)
            return self._keep_bytes(_read(fd, _SMALL))
        finally:
            os.close(fd)

    def path(self, digest: str) -> str:
        """Return where a blob lies, or would; raise BlobError for what is no digest: no other path is ever made."""
        if not is_digest(digest):
            raise BlobError(f"{str(digest)[:80]!r} is no digest: that is 64 hexadecimal digits")
        return os.path.join(self.root, digest[:2], digest[2:])

    def open(self, digest: str) -> BinaryIO:
        """Open a blob to be read; raise NotFoundError when it is not here."""
        try:
            fd = open_file(self.path(digest), follow=False)
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
        """Make a blob young: something is about to name it."""
        with contextlib.suppress(OSError):
            os.utime(self.path(digest), follow_symlinks=False)

    def verify(self, digest: str) -> bool:
        """Tell whether a blob is here, and its bytes are those that its digest says."""
        try:
            with self.open(digest) as file:
                return digest_of(file.fileno()) == digest
        except (OSError, NotFoundError):
            return False

    def listed(self, manifest: str, *, surely: bool = False) -> list[str]:
        """Return the digests that a manifest names; none where it is not here, or is something else.

        `surely`: raise OSError when it is here and cannot be read now, for want of descriptors, say.
        """
        try:
            with self.open(manifest) as file:
                rows = msgspec.json.decode(file.read(_MOST_MANIFEST), type=list[_Listed])
        except (VedetteError, msgspec.MsgspecError, ValueError, RecursionError):
            return []
        except OSError as error:
            if surely and error.errno != errno.ELOOP:  # a link in its place is no blob
                raise
            return []
        return [row.digest for row in rows if is_digest(row.digest)]

    def flush(self, digest: str) -> None:
        """Make a blob safe from a power cut, if it is here."""
        with contextlib.suppress(OSError, NotFoundError), self.open(digest) as file:
            os.fsync(file.fileno())

    def part(self, digest: str, sender: str) -> str:
        """Return the path of a blob that comes in pieces from one sender; `adopt` makes it a blob."""
        self.path(digest)
        os.makedirs(os.path.join(self.root, _PARTS), mode=0o700, exist_ok=True)
        name = _sha256(sender.encode("utf-8", "replace")).hexdigest()[:16]
        return os.path.join(self.root, _PARTS, f"{digest}.{name}")

    def parts_bytes(self) -> int:
        """Return how many bytes have come of blobs that are not whole yet."""
        folder = os.path.join(self.root, _PARTS)
        total = 0
        for name in _names(folder):
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
        return total

    def adopt(self, path: str, digest: str) -> bool:
        """Make the file at a path of ours a blob, if its bytes are those of the digest; else remove it."""
        fd = open_file(path, follow=False)
        try:
            right = digest_of(fd) == digest
            size = os.fstat(fd).st_size
            if right:
                os.fsync(fd)
        finally:
            os.close(fd)
        if right:
            self._place(path, digest, size)
        else:
            os.unlink(path)
        return right

    def take(self, source: BinaryIO, size: int, digest: str) -> Iterator[int]:
        """Copy a blob out of an open file, some of it in a step; raise FormatError when it is not what it should be."""
        self.path(digest)
        fd, path = self._new()
        try:
            total, done = _sha256(), 0
            with open(fd, "wb", buffering=0) as file:
                while done < size and (data := source.read(min(_PIECE, size - done))):
                    total.update(data)
                    _write(file.fileno(), data)
                    done += len(data)
                    yield done
            if total.hexdigest() != digest or done != size:
                raise FormatError(f"the bytes of {digest[:12]} are not what they should be")
            self._place(path, digest, size)
        except BaseException:
            _unlink(path)
            raise

    def check_room(self, size: int, more: int | None = None) -> None:
        """Raise BlobError, with the name of the limit, when a blob is too large, or so many bytes more are too many."""
        limits = self.limits
        if limits.blob_bytes and size > limits.blob_bytes:
            raise BlobError(f"{size} bytes are over the limit of {limits.blob_bytes}", "limits.blob_bytes")
        if limits.blobs_bytes and self.total() + (size if more is None else more) > limits.blobs_bytes:
            raise BlobError(f"the home has its {limits.blobs_bytes} bytes of files already", "limits.blobs_bytes")

    def total(self) -> int:
        """Return about how many bytes all blobs have: as the hub has last counted, and what was added here since."""
        try:
            with open(os.path.join(self.root, _TOTAL), "rb") as file:
                self._note_count(os.fstat(file.fileno()))
                text = file.read(20)
        except OSError:
            text = b""
        return (int(text) if text.isdigit() else 0) + self._added

    def _note_count(self, status: os.stat_result) -> None:
        """Forget what was added here once the hub has counted anew: its count has that."""
        counted = status.st_mtime_ns, status.st_ino
        if counted != self._counted:
            self._counted, self._added = counted, 0

    # What the hub does.

    def all(self) -> Iterator[Found]:
        """Yield all that are here."""
        for name in _names(self.root):
            if len(name) == 2 and _HEX.issuperset(name):
                with contextlib.suppress(OSError), os.scandir(os.path.join(self.root, name)) as entries:
                    for entry in entries:
                        if is_digest(name + entry.name) and entry.is_file(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            yield Found(name + entry.name, status.st_size, status.st_mtime)

    def count(self, total: int) -> None:
        """Leave word of how many bytes all blobs have."""
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        path = os.path.join(self.root, _NEW, f"{_TOTAL}.{os.getpid()}")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(b"%d" % total)
            file.flush()
            status = os.fstat(file.fileno())
        os.rename(path, os.path.join(self.root, _TOTAL))
        self._note_count(status)

    def remove(self, digest: str, young_s: float = YOUNG_S) -> bool:
        """Remove a blob, unless it was saved of late; tell whether it is gone.

        It is put away first and looked at then: who saves the same bytes at this moment either finds them gone, and
        writes them anew, or has touched them before, and then they are put back.
        """
        path, away = self.path(digest), os.path.join(self.root, _GOING, digest)
        try:
            os.makedirs(os.path.dirname(away), mode=0o700, exist_ok=True)
            os.rename(path, away)
            if os.lstat(away).st_mtime > time.time() - young_s:
                _put_back(away, path)
                return False
            os.unlink(away)
        except OSError:
            return False
        return True

    def tidy(self, young_s: float = YOUNG_S) -> None:
        """Put back what a hub that died was about to remove; remove what nobody has gone on writing for a while."""
        going = os.path.join(self.root, _GOING)
        for digest in filter(is_digest, _names(going)):
            with contextlib.suppress(OSError):
                _put_back(os.path.join(going, digest), self.path(digest))
        for folder, patience in ((_NEW, 6), (_PARTS, 144)):  # a cut link may take a day to be mended
            for name in _names(os.path.join(self.root, folder)):
                path = os.path.join(self.root, folder, name)
                with contextlib.suppress(OSError):
                    if os.lstat(path).st_mtime <= time.time() - patience * young_s:
                        os.unlink(path)

    def _keep_bytes(self, data: bytes) -> tuple[str, int]:
        digest = _sha256(data).hexdigest()
        if not self._refresh(digest, len(data)):
            self.check_room(len(data))
            fd, path = self._new()
            try:
                with open(fd, "wb", buffering=0) as file:
                    _write(file.fileno(), data)
                self._place(path, digest, len(data))
            except BaseException:
                _unlink(path)
                raise
        return digest, len(data)

    def _keep_file(self, source: int, size: int) -> tuple[str, int]:
        """Copy first, then take the digest of the copy: the file may change meanwhile, the copy does not."""
        self.check_room(size)
        fd, path = self._new()
        try:
            try:
                _copy(source, fd, size)
                digest, size = digest_of(fd), os.fstat(fd).st_size
            finally:
                os.close(fd)
            self._place(path, digest, size)
        except BaseException:
            _unlink(path)
            raise
        return digest, size

    def _new(self) -> tuple[int, str]:
        folder = os.path.join(self.root, _NEW)
        path = os.path.join(folder, f"{os.getpid()}.{os.urandom(8).hex()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600), path
        except FileNotFoundError:
            for made in (os.path.dirname(self.root), self.root, folder):
                os.makedirs(made, mode=0o700, exist_ok=True)  # the mode is the last one's alone: hence one by one
            return os.open(path, flags, 0o600), path

    def _refresh(self, digest: str, size: int) -> bool:
        """Tell whether a blob is here, all of it; then it is as new."""
        path = self.path(digest)
        try:
            os.utime(path, follow_symlinks=False)
            status = os.lstat(path)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == size

    def _place(self, path: str, digest: str, size: int) -> None:
        if self._refresh(digest, size):
            _unlink(path)
            return
        os.makedirs(os.path.join(self.root, digest[:2]), mode=0o700, exist_ok=True)
        with contextlib.suppress(OSError):
            self._note_count(os.stat(os.path.join(self.root, _TOTAL)))
        os.utime(path)
        os.rename(path, self.path(digest))
        self._added += size


def open_file(path: str | os.PathLike[str], *, follow: bool) -> int:
    """Open what must be a plain file, never waiting for one that is none; raise BlobError or OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BlobError(f"{os.fspath(path)} is not a file")
    return fd


def _sha256(data: bytes = b"") -> "hashlib._Hash":
    import hashlib  # noqa: PLC0415 - OpenSSL, which `init` need not wait for

    return hashlib.sha256(data)


def digest_of(fd: int) -> str:
    """Return the digest of a file's bytes, read from its beginning."""
    total, piece, at = _sha256(), memoryview(bytearray(_PIECE)), 0
    while count := os.preadv(fd, [piece], at):
        total.update(piece[:count])
        at += count
    return total.hexdigest()


def _read(fd: int, most: int) -> bytes:
    data = b""
    while len(data) < most and (more := os.read(fd, most - len(data))):
        data += more
    return data


def _write(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy(source: int, target: int, size: int) -> None:
    """Copy as much as there was at the beginning; where the file system can share the bytes, it does."""
    done = 0
    with contextlib.suppress(OSError, AttributeError):  # another file system, or one that cannot: by hand, then
        while done < size and (count := os.copy_file_range(source, target, size - done, done, done)):
            done += count
    if done < size:
        os.lseek(target, done, os.SEEK_SET)
    while done < size and (data := os.pread(source, min(_PIECE, size - done), done)):
        _write(target, data)
        done += len(data)


def _put_back(away: str, path: str) -> None:
    """Move a file back, unless somebody has put another there meanwhile: that one is the younger."""
    try:
        os.link(away, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.rename(away, path)
        return
    os.unlink(away)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
