"""The code of a run as a package: each file is a blob without its secrets, and a manifest lists them all."""

import os
import stat
from collections.abc import Mapping

from msgspec import Struct

from vedette import manifest
from vedette.blobs import Blobs
from vedette.capture.cleaning import clean, is_connection_file, is_secret_file
from vedette.capture.tree import CODE, Files
from vedette.errors import BlobError
from vedette.manifest import Entry
from vedette.settings import Capture

_SOURCES = tuple(
    ".py .pyi .pyx .ipynb .sh .bash .toml .cfg .ini .yaml .yml .json .txt .md .rst .c .h .cc .cpp .hpp .cu .cuh .rs .go"
    " .jl .r .lua .java .js .ts .sql .html .css".split()
)


class Package(Struct, frozen=True):
    """The package of one run: its files, and what was masked or changed."""

    entries: list[Entry]
    manifest: bytes
    bytes: int
    masked: dict[str, int]  # number of masked secrets, by path
    changed: list[str]  # paths of files that were changed after the run began


def pack(files: Files, script: str, blobs: Blobs, caps: Capture, secrets: list[str], since_ns: int) -> Package:
    """Save the files within the limits, the script and sources first; `files` counts what is left out."""
    first = os.path.relpath(script, files.root) if script else ""
    entries: list[Entry] = []
    masked: dict[str, int] = {}
    changed: list[str] = []
    total = 0
    root, runtime = os.path.realpath(files.root), _runtime_directories(os.environ)
    for path in sorted(files.paths, key=lambda path: (path != first, not path.lower().endswith(_SOURCES), path)):
        if len(entries) >= caps.max_files:
            files.leave("many", path)
            continue
        try:
            path.encode()
        except UnicodeEncodeError:
            files.leave("name", path)
            continue
        if is_secret_file(os.path.join(files.root, path)) or os.path.join(root, path).startswith(runtime):
            files.leave("secret", path)
            continue
        read = _read(files, path, min(caps.max_file_bytes, caps.max_bytes), caps.max_bytes - total)
        if read is None:
            continue
        data, status = read
        if is_connection_file(data):
            files.leave("secret", path)
            continue
        young = status.st_mtime_ns > since_ns
        if young and path != first and path not in files.tracked and not path.lower().endswith(CODE):
            continue  # the run has written this file itself
        data, count = _clean(data, path, secrets)
        try:
            digest, size = blobs.keep(data)
        except BlobError:
            files.leave("limit", path)
            continue
        total += size
        masked |= {path: count} if count else {}
        changed += [path] if young else []
        entries.append(Entry(path, digest, size, manifest.permissions(status.st_mode)))
    return Package(entries, manifest.write(entries), total, masked, changed)


def _runtime_directories(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where Jupyter keeps the keys and tokens of what runs now; nothing of that is part of any code."""
    data = [environ.get("JUPYTER_DATA_DIR", ""), os.path.join(environ.get("XDG_DATA_HOME", ""), "jupyter")]
    data += [os.path.expanduser("~/.local/share/jupyter"), os.path.expanduser("~/Library/Jupyter")]
    found = [os.path.join(one, "runtime") for one in data]
    found += [environ.get("JUPYTER_RUNTIME_DIR", ""), os.path.join(environ.get("XDG_RUNTIME_DIR", ""), "jupyter")]
    return tuple(os.path.join(os.path.realpath(one), "") for one in found if os.path.isabs(one))


def _read(files: Files, path: str, most: int, left: int) -> tuple[bytes, os.stat_result] | None:
    whole = os.path.join(files.root, path)
    try:
        fd = os.open(whole, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    except OSError:
        if not os.path.lexists(whole):
            return None  # git tracks it, but it was deleted
        files.leave("link" if os.path.islink(whole) else "unreadable", path)
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            files.leave("special", path)
        elif status.st_size > most:
            files.leave("large", path)
        elif status.st_size > left:
            files.leave("total", path)
        else:
            try:
                return file.read(most), status
            except OSError:
                files.leave("unreadable", path)
    return None


def _clean(data: bytes, path: str, secrets: list[str]) -> tuple[bytes, int]:
    if b"\0" in data[:8192]:
        return data, 0
    source = data.decode("utf-8", "surrogateescape")
    cleaned, count = clean(source, path, secrets)
    return (cleaned.encode("utf-8", "surrogateescape"), count) if count else (data, 0)
