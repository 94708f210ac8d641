"""The form of a backup: a plain tar of files of a home, so that `tar` can read it, too; digests of all are at its end.

Only names that a home has are read, and only plain files: what a backup from elsewhere says cannot lead out of a home.
"""

import os
import re
import tarfile
from collections.abc import Callable
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Struct

from vedette.errors import FormatError, StoreError, VersionError
from vedette.fileio import BLOCK_BYTES, sha256
from vedette.gauges import FILE as GAUGES
from vedette.segment import EXIT_CODE, STACKS
from vedette.version import __version__

VERSION = 1
_ABOUT = "vedette-backup.json"  # the last file
_BLOB = re.compile(r"blobs/([0-9a-f]{2})/([0-9a-f]{62})")
_NAMES = re.compile(
    r"store\.db|vedette\.toml|hub\.id|hub\.token|ui\.token|relay\.key|hub\.pem"
    r"|tokens/[A-Za-z0-9_][A-Za-z0-9_.@-]{0,59}"
    rf"|(spool|inbox)/[A-Za-z0-9][A-Za-z0-9_-]{{0,127}}/([fs]\.[0-9]{{16}}|{GAUGES}|{STACKS}|{EXIT_CODE})"
    rf"|{_BLOB.pattern}|blobs/spared|blobs/outward/[0-9a-f]{{32}}/(address|[0-9a-f]{{64}})"
)
_HEAD = tarfile.BLOCKSIZE
_MOST_USTAR = 8 << 30  # bytes of a file that the older form can say
_MOST_ABOUT = 1 << 30
_LATEST_S = 8**11 - 1  # the latest time of a file that a tar says in the form that all programs read: in 2242


class About(Struct):
    """What a backup says of itself."""

    version: int
    vedette: str
    made_t: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    runs: int = 0
    files: int = 0  # blobs
    spools: int = 0
    digests: dict[str, str] = {}  # of all but blobs, whose names say them


def is_name(name: str) -> bool:
    """Tell whether a home has a file of this name that is part of a backup."""
    return _NAMES.fullmatch(name) is not None


class Writer:
    """Writes a backup, file by file."""

    def __init__(self, file: BinaryIO, made_t: int) -> None:
        self.about = About(VERSION, __version__, made_t)
        self._file = file

    def add(self, name: str, source: BinaryIO, shown_path: str) -> bool:
        """Add a file, as long as it is now; return False, and leave it out, if it is a blob and damaged.

        Raise StoreError when it cannot be read, OSError when the backup cannot be written.
        """
        status = os.fstat(source.fileno())
        begun = self._file.tell()
        self._begin(name, status.st_size, status.st_mtime)
        digest, left = _copy(source, shown_path, self._file, status.st_size)
        self._file.write(bytes(-status.st_size % _HEAD))
        if left or digest != (_blob_digest(name) or digest):
            self._file.seek(begun)
            self._file.truncate()
            return False
        if _blob_digest(name):
            self.about.files += 1
        else:
            self.about.digests[name] = digest
        return True

    def close(self) -> None:
        """Add what the backup says of itself, and the end."""
        data = msgspec.json.encode(self.about)
        self._begin(_ABOUT, len(data), self.about.made_t / 1e9)
        self._file.write(data + bytes(-len(data) % _HEAD) + bytes(2 * _HEAD))

    def _begin(self, name: str, size: int, t: float) -> None:
        head = tarfile.TarInfo(name)
        head.size, head.mtime, head.mode = size, min(max(0, int(t)), _LATEST_S), 0o600
        self._file.write(head.tobuf(tarfile.GNU_FORMAT if size >= _MOST_USTAR else tarfile.USTAR_FORMAT))


def read(file: BinaryIO, shown_path: str, keep: Callable[[str, int], BinaryIO]) -> About:
    """Read a backup to its end, and check all digests; raise FormatError when something is wrong with it.

    `keep` is called with the name and the time of each file, and opens where its bytes go. Raise StoreError when the
    backup cannot be read, OSError when what it has cannot be written.
    """
    end = os.fstat(file.fileno()).st_size
    seen: dict[str, str] = {}
    while True:
        head = _head(file, shown_path, end)
        if head.name == _ABOUT:
            about = _about(file, head, shown_path)
            break
        if not is_name(head.name) or head.name in seen:
            raise FormatError(f"{shown_path} is not a backup of a home: it has a file {head.name[:80]!r}")
        with keep(head.name, int(head.mtime)) as into:
            seen[head.name], _ = _copy(file, shown_path, into, head.size)
        file.seek(-head.size % _HEAD, os.SEEK_CUR)
    blobs = {name: digest for name in seen if (digest := _blob_digest(name))}
    wanted = {**about.digests, **blobs}
    for name in seen.keys() | wanted.keys():
        if seen.get(name) != wanted.get(name):
            raise FormatError(f"{shown_path} is damaged: the bytes of {name} do not match their digest")
    if len(blobs) != about.files:
        raise FormatError(f"{shown_path} is damaged: it has {len(blobs)} files of runs, and should have {about.files}")
    return about


def reason(error: OSError) -> str:
    """Return why something failed, as a part of a sentence."""
    return error.strerror.lower() if error.strerror else str(error)


def unreadable(path: str, error: OSError) -> StoreError:
    """Return an error that says which file it is that cannot be read."""
    return StoreError(f"{path} cannot be read: {reason(error)}")


def _copy(source: BinaryIO, shown_path: str, into: BinaryIO, size: int) -> tuple[str, int]:
    """Copy bytes; return their digest, and how many are lacking. Raise StoreError when they cannot be read."""
    total, left = sha256(), size
    while left:
        try:
            block = source.read(min(BLOCK_BYTES, left))
        except OSError as error:
            raise unreadable(shown_path, error) from None
        if not block:
            break
        total.update(block)
        into.write(block)
        left -= len(block)
    return total.hexdigest(), left


def _blob_digest(name: str) -> str:
    """Return the digest that the name of a blob says; empty for other files."""
    found = _BLOB.fullmatch(name)
    return found[1] + found[2] if found else ""


def _head(file: BinaryIO, path: str, end: int) -> tarfile.TarInfo:
    try:
        head = tarfile.TarInfo.frombuf(file.read(_HEAD), "utf-8", "strict")
    except OSError as error:
        raise unreadable(path, error) from None
    except (tarfile.HeaderError, UnicodeDecodeError):
        why = "it is cut short, or" if file.tell() > _HEAD else "it is not one of vedette, or"
        raise FormatError(f"{path} cannot be read as a backup: {why} damaged") from None
    if head.type != tarfile.REGTYPE or not 0 <= head.size <= end - file.tell():
        raise FormatError(f"{path} is cut short, or not a backup: {head.name[:80]!r} in it is not a whole file")
    if not 0 <= head.mtime <= _LATEST_S:
        raise FormatError(f"{path} is damaged, or not a backup: {head.name[:80]!r} in it has a time that no file has")
    return head


def _about(file: BinaryIO, head: tarfile.TarInfo, path: str) -> About:
    data = file.read(min(head.size, _MOST_ABOUT))
    try:
        version = msgspec.json.decode(data, type=dict[str, msgspec.Raw])["version"]
        if int(bytes(version)) > VERSION:
            raise VersionError(f"{path} is a backup by a newer vedette: upgrade vedette")
        return msgspec.json.decode(data, type=About)
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError):
        raise FormatError(f"{path} is damaged: what it says of itself cannot be read") from None
