"""The web server: the table of all routes, and the app that passes a request through guard and checks to its route."""

import contextlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from vedette import asgi
from vedette.access.home_access import HomeAccess
from vedette.asgi import App, Refusal, Scope
from vedette.views.web import about, compare, edits, explain, files, logs, openapi, run, runs, series, share, usage
from vedette.views.web.guard import Guard
from vedette.views.web.live import News, live
from vedette.views.web.pages import Pages, is_page
from vedette.views.web.replies import as_json, refuse
from vedette.views.web.routes import MOST_T, Match, Parameter, Request, Route, find, read_body, read_query
from vedette.views.web.shapes import About, OneRun, RunsPage
from vedette.views.web.state import AppState

_BODY_S = 30.0
_LIST = {
    "where": Parameter("only runs that match this filter, as `vedette ls --where`, or whose name has these words"),
    "zone": Parameter(
        "the time zone of dates in `where` that name none, such as Europe/Berlin (default: the server's)"
    ),
    "project": Parameter("only runs of this project"),
    "sort": Parameter("by this column; -COLUMN: descending", default="-start_t"),
    "group": Parameter("group runs with the same value in this column, sorted inside each group"),
    "offset": Parameter("how many to skip", "count", 0),
    "limit": Parameter("how many at most", "count", 200, 0, 1000),
    "columns": Parameter("also return these columns, separated by commas", example="config.lr,metric.loss"),
    "metric": Parameter("the series to draw, if a run has it"),
    "since": Parameter("the cursor of an earlier answer: only rows that may have changed since"),
}
_TIMES = {
    "from_t": Parameter("not before this", "number", most=MOST_T),
    "to_t": Parameter("not after this", "number", most=MOST_T),
}
_LINES = {
    "after": Parameter("only lines after this id; 0: from the first on", "count"),
    "before": Parameter("only lines before this id", "count"),
    "limit": Parameter("how many at most", "count", 500, 1, 5000),
    "grep": Parameter("only lines that contain this text, ignoring case"),
    "level": Parameter("only this level and above: debug, info, warning, error, critical, or a number"),
    "kind": Parameter("only these kinds, separated by commas: output,log"),
    "process": Parameter("only lines of this process, by its id"),
    **_TIMES,
}
ROUTES: tuple[Route, ...] = (
    Route("GET", "/api/about", about.about, "What is served, and how", gives=About, how="serves"),
    Route("GET", "/api/runs", runs.runs, "Runs, a page at a time", _LIST, gives=RunsPage),
    Route("GET", "/api/runs/{run}", run.run, "One run, by id, the beginning of one, or name", gives=OneRun),
    Route(
        "POST", "/api/series", series.series,
        "Points of series: u32 length of a JSON header, the header, float64 columns",
        body=series.Wish, gives=series.MEDIA, carries=series.Head, most_body=1 << 20,
    ),
    Route("GET", "/api/runs/{run}/logs", logs.logs, "Lines of a run: the newest, those before an id, or after one",
          _LINES, gives=logs.Lines),
    Route(
        "GET", "/api/runs/{run}/density", logs.density, "How many lines there are over time, by level",
        {**_TIMES, "buckets": Parameter("how many parts of the time", "count", 200, 1, 2000)}, gives=logs.Density,
    ),
    Route(
        "GET", "/api/runs/{run}/usage", usage.usage, "What the processes and hosts of a run used",
        {"width": Parameter("pixels", "count", 800, 1, 8192), "since_t": Parameter("only what is newer", "number")},
        gives=usage.Usage,
    ),
    Route("GET", "/api/runs/{run}/files", files.files, "The files of a run", gives=files.Files),
    Route("GET", "/api/runs/{run}/code", files.code, "The code that was run", gives=files.Code),
    Route("GET", "/api/compare", compare.compare, "Runs side by side",
          {"runs": Parameter("ids, separated by commas", example="train-1,train-2")}, gives=compare.Comparison),
    Route("GET", "/api/explain", explain.explain, "Why one run differs from another",
          {"a": Parameter("the run to compare with", example="train-1"),
           "b": Parameter("the run to explain", example="train-2")}, gives=explain.Explanation),
    Route(
        "GET", "/api/blobs/{digest}", files.blob, "The bytes of a file, by their digest",
        {"name": Parameter("its file name"), "download": Parameter("1: download it instead of showing it")},
        gives=series.MEDIA, how="calls",
    ),
    Route("POST", "/api/runs/{run}/edit", edits.edit, "Change star, tags, description, notes or name", body=edits.Edit,
          example={"star": True}, gives=edits.Done, changes=True, most_body=1 << 20),
    Route("POST", "/api/runs/{run}/stop", edits.stop, "Stop a run", body=edits.Nothing, gives=edits.Done,
          changes=True),
    Route("POST", "/api/runs/{run}/remove", edits.remove, "Hide a run, or bring it back", body=edits.Remove,
          example={"force": True}, gives=edits.Done, changes=True),
    Route(
        "GET", "/api/live", live, "What changes, as server-sent events",
        {"run": Parameter("only changes of this run, by its id (default: of all)")},
        gives="text/event-stream", carries=News, how="serves",
    ),
    Route("POST", "/api/share", share.share, "Make a link that can only read", body=share.Share, gives=share.Shared,
          owner=True, how="calls"),
    Route("GET", "/api/openapi.json", openapi.openapi, "This document", how="calls"),
)  # fmt: skip


def build(
    home: HomeAccess, token: str, *, names: Iterable[str] = (), read_only: bool = False, project: str = "",
    page: str = "", frame: str = "", refused: Counter[str] | None = None,
) -> App:  # fmt: skip
    """Return the whole ASGI app; `page`: the directory of the built page, if not the one in the package.

    `frame`: the origin of a site that may show the page in a frame. `refused` counts the requests that the guard
    refuses, by kind.
    """
    return around(AppState(home, token, read_only=read_only, project=project), names, page, frame, refused)


def around(
    state: AppState, names: Iterable[str] = (), page: str = "", frame: str = "", refused: Counter[str] | None = None
) -> App:
    """Return the app of a state: the guard, with the router behind it."""
    state.described = openapi.describe(ROUTES)
    router, counts = Router(state, Pages(page) if page else Pages()), Counter[str]() if refused is None else refused
    guarded = Guard(router, state.token, names, counts, is_page=is_page, frame=frame)

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(state, receive, send)
        else:
            await guarded(scope, receive, send)

    return app


async def _live(state: AppState, receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            state.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            state.close()
            await send({"type": "lifespan.shutdown.complete"})
            return


class Router:
    """Passes a request that the guard has let in to its route, or to a file of the page."""

    def __init__(self, state: AppState, pages: Pages, routes: tuple[Route, ...] = ROUTES) -> None:
        self._state = state
        self._pages = pages
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request; every error becomes one sentence."""
        try:
            path: str = scope["path"]
            if path == "/api" or path.startswith("/api/"):
                answer = await self._ask(scope, receive, send)
            else:
                answer = await self._page(scope, path)
        except ClientDisconnect:
            return
        except Exception as error:
            answer = refuse(error)
        if answer is not None:
            await answer(scope, receive, send)

    async def _page(self, scope: Scope, path: str) -> Response:
        if scope["method"] == "POST":
            raise Refusal(405, "pages take only GET", {"Allow": "GET, HEAD"})
        seen, takes = _header(scope, b"if-none-match"), _header(scope, b"accept-encoding")
        return await self._state.pool.call(lambda: self._pages.answer(path, seen, takes))

    async def _ask(self, scope: Scope, receive: Any, send: Any) -> Response | None:
        found = find(self._routes, scope["method"], scope.get("raw_path") or scope["path"].encode())
        route, shared = found.route, bool(scope.get("vedette.shared"))
        if (route.changes and (shared or self._state.read_only)) or (route.owner and shared):
            raise Refusal(403, "this is read-only: nothing can be changed from here")
        request = await _read(scope, receive, found, shared=shared)
        state = self._state
        if route.act is live:
            await live(state.live, request.query["run"], receive, send)
            return None
        if route.how == "serves":
            value = await route.act(state, request)
        elif route.how == "calls":
            value = await state.pool.call(lambda: route.act(state, request))
        else:
            value = await state.pool.ask(lambda store: route.act(state, store, request))
        return value if isinstance(value, Response) else as_json(value)


async def _read(scope: Scope, receive: Any, found: Match, *, shared: bool) -> Request:
    route = found.route
    query = read_query(route.takes, scope["query_string"])
    body = None
    if route.method == "POST":
        raw = await asgi.read_body(scope, receive, route.most_body, _BODY_S)
        if raw and _header(scope, b"content-type").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "the body must be JSON, with Content-Type: application/json")
        body = read_body(route, raw)
    return Request(scope.get("vedette.base", ""), found.path, query, body, shared)


def _header(scope: Scope, name: bytes) -> str:
    with contextlib.suppress(StopIteration):
        return str(next(value for key, value in scope["headers"] if key == name).decode("latin-1"))
    return ""
