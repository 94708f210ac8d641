"""Files of runs: their list, their bytes, and the code that was run.

Bytes are found by their digest, so a name from a run is never used as a path. The bytes themselves decide what a
browser shows; they are sandboxed, so that nothing in them runs. All other files are sent as downloads.
"""

import os
import re
from collections.abc import AsyncIterator
from typing import Any, BinaryIO
from urllib.parse import quote

from msgspec import Struct, structs
from starlette.responses import Response, StreamingResponse

from vedette import manifest
from vedette.access.home_access import HomeAccess
from vedette.asgi import Refusal
from vedette.errors import FormatError, VedetteError
from vedette.media import HEAD_BYTES, IMAGES, TEXTS, media_of
from vedette.query.cells import Cells
from vedette.query.files import files as files_of
from vedette.query.finding import find
from vedette.query.runs import view
from vedette.store import Reader
from vedette.views.text import for_json
from vedette.views.web import run as runs
from vedette.views.web.routes import Request
from vedette.views.web.shapes import FileShape
from vedette.views.web.state import AppState

_BLOCK_BYTES = 1 << 18
_SANDBOX = "sandbox; default-src 'none'"
_MOST_DIFF = 4 << 20


class Files(Struct, frozen=True):
    """The files of a run."""

    files: list[FileShape]


class CodeFile(Struct, frozen=True):
    """A file of the code that was run."""

    path: str
    digest: str
    size: int
    mode: int


class Code(Struct, frozen=True):
    """The code that was run: its files, where it comes from, and what was changed since the last commit."""

    manifest: list[CodeFile]
    git: dict[str, Any]
    diff: str
    notebook: str  # the path of the file that is made of a notebook's cells; empty if there is none
    cells: str  # the text of that file, which is no blob


def files(state: AppState, store: Reader, request: Request) -> Files:  # noqa: ARG001
    """Return the files of a run."""
    return Files(runs.files(store, find(store, request.path["run"]).id))


def code(state: AppState, store: Reader, request: Request) -> Code:
    """Return the code of a run."""
    seen = view(store, request.path["run"])
    digests = {one.name: one.digest for one in files_of(store, seen.id)}
    listed = state.home.read_blob(digests.get(manifest.NAME, ""))
    try:
        entries = manifest.read(listed) if listed else []
    except FormatError:
        entries = []
    cells = Cells(seen)
    rows = [CodeFile(*structs.astuple(entry)) for entry in cells.add_to(entries)]
    notebook = cells.entry.path if cells.entry is not None else ""
    diff = _beginning(state.home, digests.get(manifest.DIFF, ""), _MOST_DIFF)
    git = {key[4:]: value for key, value in seen.attrs.items() if key.startswith("git.")}
    return Code(rows, for_json(git), diff.decode("utf-8", "replace"), notebook, cells.data.decode("utf-8", "replace"))


def _beginning(home: HomeAccess, digest: str, most: int) -> bytes:
    """Return at most `most` bytes of a blob; b"" when it is not here."""
    try:
        with home.open_blob(digest) as file:
            return file.read(most)
    except (OSError, VedetteError):
        return b""


def blob(state: AppState, store: Reader, request: Request) -> Response:  # noqa: ARG001 - it says which may be read
    """Send the bytes of a file, by its digest."""
    digest, name = request.path["digest"], request.query["name"]
    try:
        file = state.home.open_blob(digest)
    except (OSError, VedetteError):
        raise Refusal(404, "there is no file with this digest here; a digest has 64 hexadecimal digits") from None
    size = os.fstat(file.fileno()).st_size
    media = media_of(os.pread(file.fileno(), HEAD_BYTES, 0), whole=size <= HEAD_BYTES)
    shown = media in (*IMAGES, *TEXTS) and not request.query["download"]
    kind = media if media in IMAGES and shown else "text/plain; charset=utf-8" if shown else "application/octet-stream"
    headers = {
        "Content-Disposition": f"{'inline' if shown else 'attachment'}; filename*=UTF-8''{_file_name(name, digest)}",
        "Content-Security-Policy": _SANDBOX,
        "Content-Length": str(size),
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    return StreamingResponse(_blocks(file, state, size), 200, headers, kind)


def _file_name(name: str, digest: str) -> str:
    last = re.split(r"[/\\]", name)[-1]
    clean = "".join(char for char in last if char.isprintable())[:200].strip(". ")
    return quote(clean or digest[:12], safe="")


async def _blocks(file: BinaryIO, state: AppState, size: int) -> AsyncIterator[bytes]:
    with file:
        at, fd = 0, file.fileno()
        while at < size:
            block = await state.pool.call(lambda at=at: os.pread(fd, min(_BLOCK_BYTES, size - at), at))  # type: ignore[misc]
            if not block:
                return
            at += len(block)
            yield block
