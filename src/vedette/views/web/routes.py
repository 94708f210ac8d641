"""What a route is, and how a request is matched to one; the table of all routes is in `server.py`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import Struct, field

from vedette.asgi import Refusal
from vedette.views.web.links import Link

MOST_QUERY = 16 << 10  # bytes of a query string
MOST_T = 9e12  # milliseconds: the year 2255, which still fits 64 bits in nanoseconds
Kind = Literal["text", "count", "number"]
# What those who came by a link get of a route. "": nothing, it is refused to them, as is a route that does not say.
# "runs": an answer made from the runs that were shared alone. "hosts": and from the machines that these ran on.
# "public": what tells nothing of a home.
Shares = Literal["", "runs", "hosts", "public"]


class Parameter(Struct, frozen=True):
    """One parameter of a query."""

    about: str
    kind: Kind = "text"
    default: Any = None
    least: float = 0
    most: float = 1 << 53
    example: str = ""  # needed where a request without it is refused; train-1 and train-2 are runs


class Request(Struct, frozen=True):
    """A request, read and checked."""

    base: str  # scheme://host, as the browser sees us
    path: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: Any = None
    links: tuple[Link, ...] | None = None  # by which it came; None: it is the owner's


class Route(Struct, frozen=True):
    """One route of the API; the table of routes also makes the OpenAPI document."""

    method: Literal["GET", "POST"]
    path: str  # /api/runs/{run}
    act: Callable[..., Any]
    about: str
    takes: dict[str, Parameter] = {}
    body: type[Struct] | None = None
    example: dict[str, Any] = {}  # of a body, where an empty one is refused
    gives: Any = None  # a type, or the name of a media type
    carries: type[Struct] | None = None  # the JSON inside an answer of that media type: a header, the data of an event
    changes: bool = False  # it changes the home: refused to those who can only read
    shared: Shares = ""
    most_body: int = 64 << 10
    how: Literal["reads", "calls", "serves"] = "reads"  # in a thread with a reader, in a thread, in the event loop

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path."""
        return tuple(self.path.split("/")[1:])


class Match(Struct, frozen=True):
    """A route, and the values of the names in its path."""

    route: Route
    path: dict[str, str] = field(default_factory=dict)


def find(routes: Sequence[Route], method: str, raw_path: bytes) -> Match:
    """Return the route of a path; raise a Refusal when there is none, or none for this method."""
    words = _words(raw_path)
    matches = [(route, named) for route in routes if (named := _match(route.parts, words)) is not None]
    if not matches:
        raise Refusal(404, "there is nothing at this path: see /api/openapi.json")
    for route, named in matches:
        if method == route.method or (method == "HEAD" and route.method == "GET" and route.how != "serves"):
            return Match(route, named)
    allowed = ", ".join(sorted({route.method for route, _ in matches}))
    raise Refusal(405, f"{matches[0][0].path} takes only {allowed}", {"Allow": allowed})


def _words(raw_path: bytes) -> list[str]:
    """Split a raw path, and only then unescape its parts, once: %2F does not split."""
    try:
        words = [unquote_to_bytes(word).decode() for word in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8 text") from None
    if any(word in (".", "..") or "\0" in word for word in words):
        raise Refusal(404, "there is nothing at this path")
    return words


def _match(parts: Sequence[str], words: Sequence[str]) -> dict[str, str] | None:
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


def read_query(takes: dict[str, Parameter], raw: bytes) -> dict[str, Any]:
    """Read the parameters of a route from a query; unknown ones are ignored."""
    if len(raw) > MOST_QUERY:
        raise Refusal(414, f"a query has {MOST_QUERY} bytes at most")
    try:
        fields = dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except (UnicodeDecodeError, ValueError):
        raise Refusal(400, "the query cannot be read") from None
    return {name: _read(name, one, fields.get(name, "")) for name, one in takes.items()}


def _read(name: str, takes: Parameter, text: str) -> Any:
    if "\0" in text:
        raise Refusal(400, f"{name} contains a NUL")
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
    """Decode the JSON of a body into the struct that its route takes."""
    if route.body is None:
        return None
    try:
        return msgspec.json.decode(body or b"{}", type=route.body)
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body is not what {route.path} takes: {error}") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
