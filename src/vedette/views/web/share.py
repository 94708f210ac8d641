"""Makes links that read what a page shows: a run, some runs, or the runs that match a filter."""

import time
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct

from vedette.asgi import Refusal
from vedette.query.finding import find
from vedette.query.overview import condition
from vedette.query.where import check_length
from vedette.store import Reader
from vedette.views.web.links import MOST_CHARS, Scope, sign
from vedette.views.web.routes import MOST_QUERY, Request
from vedette.views.web.state import AppState

_MOST_HOURS = 24.0 * 366
_PAGE = "path must be that of a page: /, /run/ID, /compare?runs=ID,ID or /explain?a=ID&b=ID"
_OF_LIST = ("where", "project", "sort", "group", "columns", "token")  # the query of the list of runs


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """For how long a link is valid, and which page it shows; `zone`: that of dates in a filter."""

    hours: float = 24.0 * 7
    path: str = "/"
    zone: str = ""


class Shared(Struct, frozen=True):
    """A link that can only read, what it shows, and when it expires."""

    url: str
    what: str
    end_t: float


def share(state: AppState, store: Reader, request: Request) -> Shared:
    """Make a link to what a page shows."""
    wanted: Share = request.body
    if not 0 < wanted.hours <= _MOST_HOURS:
        raise Refusal(400, f"hours is {wanted.hours:g}: it takes a number above 0, up to {_MOST_HOURS:g}")
    if not wanted.path.startswith("/") or wanted.path.startswith(("//", "/\\")) or len(wanted.path) > MOST_QUERY:
        raise Refusal(400, _PAGE)
    scope = scope_of(store, wanted.path, wanted.zone)
    end_s = int(time.time() + wanted.hours * 3600)
    link = sign(state.key.now, end_s, scope)
    if len(link) > MOST_CHARS:
        raise Refusal(400, "this is too much for one link: share fewer runs, or a shorter filter that they match")
    page, _, _ = wanted.path.partition("#")
    joint = "&" if "?" in page else "?"
    return Shared(f"{request.base}{page}{joint}token={link}", describe(store, scope), end_s * 1e3)


def scope_of(store: Reader, path: str, zone: str = "") -> Scope:
    """Return what a page shows; raise a Refusal when it is not a page, NotFoundError when a run does not exist."""
    url = urlsplit(path)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    words = [unquote(word) for word in url.path.split("/") if word]
    if not words:
        if other := query.keys() - _OF_LIST:
            raise Refusal(400, f"the list of runs has no {min(other)!r}: it takes {', '.join(_OF_LIST)}")
        check_length(query.get("where", ""), by_link=True)
        condition(query.get("where", ""), zone)  # raises when it cannot be read
        return Scope(None, query.get("where", ""), query.get("project", ""), zone)
    if words[0] == "run" and len(words) in (2, 3):
        names = [words[1]]
    elif words == ["compare"]:
        names = [unquote(name) for name in query.get("runs", "").split(",") if name]
    elif words == ["explain"]:
        names = [query[side] for side in ("a", "b") if query.get(side)]
    else:
        raise Refusal(400, _PAGE)
    if not names:
        raise Refusal(400, "this page shows no run yet, so there is nothing to share")
    return Scope(tuple(dict.fromkeys(find(store, name).id for name in names)))


def describe(store: Reader, scope: Scope) -> str:
    """Return what a link shows, in some words."""
    if scope.runs is not None and len(scope.runs) == 1:
        run = find(store, scope.runs[0])
        return f"the run {run.name or run.id}"
    if scope.runs is not None:
        return f"{len(scope.runs)} runs"
    of = f" of the project {scope.project}" if scope.project else ""
    return f"all runs{of}" + (f" that match {scope.where}" if scope.where.strip() else "")


def path_of(scope: Scope) -> str:
    """Return the page of what a link shows."""
    if scope.runs is not None:
        if len(scope.runs) == 1:
            return f"/run/{quote(scope.runs[0], safe='')}"
        escaped = (run.replace("%", "%25").replace(",", "%2C") for run in scope.runs)
        return f"/compare?{urlencode({'runs': ','.join(escaped)}, safe=',/')}"
    asked = {name: text for name, text in (("where", scope.where), ("project", scope.project)) if text}
    return f"/?{urlencode(asked)}" if asked else "/"
