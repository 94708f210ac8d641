"""The manifest of a code package: a list of files as bytes; no file may be outside of the package.

And the names under which the capture of a run saves files.
"""

import posixpath
from collections.abc import Container

import msgspec
from msgspec import Struct

from vedette.errors import FormatError

NAME = "code.manifest"  # its name among the files of a run; blobs that it lists stay, and are sent, with it
DIFF = "git.diff"  # what was changed since the last commit
CELL = "cell"  # the kind of an event that says which cell of a notebook was run
CELLS = "notebook.py"  # the cells of a notebook: a file of its code that is made from the run's events
PACKAGES = "packages.json"  # all that is installed, with versions
DIRECT_PACKAGES = "packages.direct.json"  # those of them that were asked for by name
_HEX = frozenset("0123456789abcdef")
_MOST_PATH = 4096


class Entry(Struct, frozen=True):
    """One file of the package; its bytes are a blob."""

    path: str
    digest: str
    size: int
    mode: int = 0o644


def permissions(mode: int) -> int:
    """Return the mode to record a file with, and to write it with: only whether its owner may run it counts.

    So the umask under which a tree was made does not change its digest, and nobody's manifest opens a file to others.
    """
    return 0o755 if mode & 0o100 else 0o644


def write(entries: list[Entry]) -> bytes:
    """Return a manifest; the order of the entries does not matter."""
    return msgspec.json.encode(sorted(entries, key=lambda entry: entry.path))


def free_name(path: str, known: Container[str]) -> str:
    """Return a path, with underscores before its last part while it is among the known ones."""
    while path in known:
        folder, name = posixpath.split(path)
        path = posixpath.join(folder, "_" + name)
    return path


def read(data: bytes) -> list[Entry]:
    """Parse a manifest; raise FormatError when it is malformed, or names a file outside of the package."""
    try:
        entries = msgspec.json.decode(data, type=list[Entry])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FormatError(f"the manifest of the code cannot be read: {error}") from None
    known = set()
    for entry in entries:
        if why := _wrong(entry):
            raise FormatError(f"the manifest of the code names {entry.path[:200]!r}, {why}")
        known.add(entry.path)
    folders = {path[:at] for path in known for at in range(len(path)) if path[at] == "/"}
    if len(known) < len(entries) or known & folders:
        raise FormatError("the manifest of the code names one path twice")
    return entries


def path_fault(path: str) -> str:
    """Return why this is not the path of a file of a package, as the end of a sentence; empty if it is one."""
    parts = path.split("/")
    if not 0 < len(path) <= _MOST_PATH or "\0" in path:
        return "which is not a path"
    if any(part in ("", ".", "..") for part in parts):
        return "which leads out of the package"
    if any(part.lower() == ".git" for part in parts):
        return "which belongs to git"
    return ""


def _wrong(entry: Entry) -> str:
    if fault := path_fault(entry.path):
        return fault
    if len(entry.digest) != 64 or not _HEX.issuperset(entry.digest):
        return "without a valid digest"
    return ""
