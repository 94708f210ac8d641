"""What a route is, and how a request finds its own; the table of all is in `server.py`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import Struct, field

from vedette.views.web.replies import Refusal

MOST_QUERY = 16 << 10  # bytes
MOST_T = 9e12  # milliseconds: in the year 2255, and as nanoseconds they still are 64 bits
Kind = Literal["text", "count", "number"]


class Takes(Struct, frozen=True):
    """One parameter of a query."""

    about: str
    kind: Kind = "text"
    default: Any = None
    least: float = 0
    most: float = 1 << 53


class Asked(Struct, frozen=True):
    """A request, read and checked."""

    base: str  # scheme://host, as the browser sees us
    path: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: Any = None
    shared: bool = False  # by a link that may only read


class Route(Struct, frozen=True):
    """One thing that can be asked for: the table of these makes the routes and what describes them."""

    method: Literal["GET", "POST"]
    path: str  # /api/runs/{run}
    act: Callable[..., Any]
    about: str
    takes: dict[str, Takes] = {}
    body: type[Struct] | None = None
    gives: Any = None  # a type, or the name of a media type
    carries: type[Struct] | None = None  # the JSON inside an answer of that media type: a head, the data of an event
    changes: bool = False  # something in the home: not for those who may only read
    owner: bool = False  # changes nothing, but is not for those who came by a link
    most_body: int = 64 << 10
    how: Literal["reads", "calls", "serves"] = "reads"  # with a reader; in a thread; by itself, in the event loop

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path."""
        return tuple(self.path.split("/")[1:])


class Found(Struct, frozen=True):
    """A route, and what stands in the place of its names."""

    route: Route
    path: dict[str, str] = field(default_factory=dict)


def find(routes: Sequence[Route], method: str, raw_path: bytes) -> Found:
    """Return the route of a path; raise a Refusal when there is none, or none for this method."""
    words = _words(raw_path)
    fits = [(route, named) for route in routes if (named := _fit(route.parts, words)) is not None]
    if not fits:
        raise Refusal(404, "there is nothing here: /api/openapi.json says what there is")
    for route, named in fits:
        if method == route.method or (method == "HEAD" and route.method == "GET" and route.how != "serves"):
            return Found(route, named)
    allowed = ", ".join(sorted({route.method for route, _ in fits}))
    raise Refusal(405, f"{fits[0][0].path} takes {allowed} alone", {"Allow": allowed})


def _words(raw_path: bytes) -> list[str]:
    """Cut a path as it came, and only then read its escapes, once: what is written %2F is no cut."""
    try:
        words = [unquote_to_bytes(word).decode() for word in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8 text") from None
    if any(word in (".", "..") or "\0" in word for word in words):
        raise Refusal(404, "there is nothing here")
    return words


def _fit(parts: Sequence[str], words: Sequence[str]) -> dict[str, str] | None:
    if len(parts) != len(words):
        return None
    named = {}
    for part, word in zip(parts, words, strict=True):
        if part.startswith("{"):
            if not word:
                return None
            named[part[1:-1]] = word
        elif part != word:
            return None
    return named


def read_query(takes: dict[str, Takes], raw: bytes) -> dict[str, Any]:
    """Read what a route takes from a query; what it does not know is passed over."""
    if len(raw) > MOST_QUERY:
        raise Refusal(414, f"a query has {MOST_QUERY} bytes at most")
    try:
        said = dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except (UnicodeDecodeError, ValueError):
        raise Refusal(400, "the query cannot be read") from None
    return {name: _read(name, one, said.get(name, "")) for name, one in takes.items()}


def _read(name: str, takes: Takes, text: str) -> Any:
    if "\0" in text:
        raise Refusal(400, f"{name} has a NUL in it")
    if not text:
        return takes.default if takes.default is not None or takes.kind != "text" else ""
    if takes.kind == "text":
        return text
    try:
        value = float(text) if takes.kind == "number" else int(text[:20])
    except ValueError:
        value = float("nan")
    if not takes.least <= value <= takes.most:
        raise Refusal(400, f"{name} is {text[:40]!r}: it takes a number from {takes.least:g} to {takes.most:g}")
    return value


def read_body(route: Route, body: bytes) -> Any:
    """Read the JSON of a body as what its route takes."""
    if route.body is None:
        return None
    try:
        return msgspec.json.decode(body or b"{}", type=route.body)
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body is not what {route.path} takes: {error}") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
