"""The page itself: the built files in the package, served from a list of names, never by a path from a request."""

import functools
import gzip
import hashlib
import mimetypes
import os
import re
from typing import Final

from starlette.responses import HTMLResponse, Response

from vedette.asgi import Refusal

_ROOT: Final = os.path.join(os.path.dirname(__file__), "page")
PAGES: Final = ("/", "/compare", "/explain", "/run/{run}", "/run/{run}/{tab}")
_NAMES = {"{run}": "[^/]+", "{tab}": "[a-z]+"}  # what may stand there
_PAGE = re.compile("|".join(re.sub(r"{\w+}", lambda name: _NAMES[name[0]], page) for page in PAGES))
_HASHED = re.compile(r"[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+$")
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
_TEXTS = (".js", ".css", ".html", ".svg")
_UNBUILT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>vedette</title><h1>The page is not built</h1>"
    "<p>In this checkout the page was never built: run <code>scripts/install</code>, then reload."
    " The API is here: <a href=/api/openapi.json>/api/openapi.json</a></p></html>"
)


def is_page(path: str) -> bool:
    """Tell whether a path belongs to the page."""
    return _PAGE.fullmatch(path) is not None


class Pages:
    """Serves the files of a directory by name."""

    def __init__(self, root: str = _ROOT) -> None:
        self._root = root
        self._files: dict[str, str] = {}

    def answer(self, path: str, seen: str, takes: str = "") -> Response:
        """Return a file; `seen`: the ETag that the browser has; `takes`: the encodings that it accepts."""
        index = is_page(path)
        name = "/index.html" if index else path
        file = self._find(name)
        if file is None:
            if index:
                return HTMLResponse(_UNBUILT, headers={"Cache-Control": "no-store"})
            raise Refusal(404, "there is nothing at this path: see /api/openapi.json")
        with open(file, "rb") as opened:
            body = opened.read()
        lasting = not index and _HASHED.search(name) is not None
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        keep = "private, max-age=31536000, immutable" if lasting else "no-cache"
        headers = {"Cache-Control": keep, "ETag": tag, "Vary": "Accept-Encoding"}
        if seen == tag:
            return Response(b"", 304, headers)
        end = os.path.splitext(name)[1]
        kind = _KINDS.get(end) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        if end in _TEXTS and "gzip" in takes:  # over a tunnel, the first visit is mostly this
            body = _small(body)
            headers["Content-Encoding"] = "gzip"
        return Response(body, 200, headers, kind)

    def _find(self, name: str) -> str | None:
        if name not in self._files or not os.path.exists(self._files[name]):
            self._files = _files(self._root)  # it may have been built again since
        return self._files.get(name)


@functools.lru_cache(maxsize=32)
def _small(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _files(root: str) -> dict[str, str]:
    found = {}
    for directory, _, names in os.walk(root):
        inside = os.path.relpath(directory, root).replace(os.sep, "/")
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                found[f"/{name}" if inside == "." else f"/{inside}/{name}"] = path
    return found
