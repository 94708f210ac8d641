"""The web server: the table of all routes, and the app that passes a request through guard and checks to its route."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from vedette import asgi
from vedette.access.home_access import HomeAccess
from vedette.asgi import App, Refusal, Scope
from vedette.errors import NotFoundError
from vedette.views.web import about, compare, edits, explain, files, logs, openapi, run, runs, series, share, usage
from vedette.views.web.guard import BASE, LINKS, Guard
from vedette.views.web.key import Key
from vedette.views.web.links import Link
from vedette.views.web.live import News, Topic, live
from vedette.views.web.narrow import Sight
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
    "columns": Parameter(
        "also return these columns, separated by commas; 200 at most", example="config.lr,metric.loss"
    ),
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
    Route("GET", "/api/about", about.about, "What is served, and how", gives=About, how="serves",
          shared="runs"),
    Route("GET", "/api/runs", runs.runs, "Runs, a page at a time", _LIST, gives=RunsPage, shared="runs"),
    Route("GET", "/api/runs/{run}", run.run, "One run, by id, the beginning of one, or name", gives=OneRun,
          shared="runs"),
    Route(
        "POST", "/api/series", series.series,
        "Points of series: u32 length of a JSON header, the header, float64 columns",
        body=series.Wish, gives=series.MEDIA, carries=series.Head, most_body=1 << 20, shared="runs",
    ),
    Route("GET", "/api/runs/{run}/logs", logs.logs, "Lines of a run: the newest, those before an id, or after one",
          _LINES, gives=logs.Lines, shared="runs"),
    Route(
        "GET", "/api/runs/{run}/density", logs.density, "How many lines there are over time, by level",
        {**_TIMES, "buckets": Parameter("how many parts of the time", "count", 200, 1, 2000)}, gives=logs.Density,
        shared="runs",
    ),
    Route(
        "GET", "/api/runs/{run}/usage", usage.usage, "What the processes and hosts of a run used",
        {"width": Parameter("pixels", "count", 800, 1, 8192), "since_t": Parameter("only what is newer", "number")},
        gives=usage.Usage, shared="hosts",
    ),
    Route("GET", "/api/runs/{run}/files", files.files, "The files of a run", gives=files.Files, shared="runs"),
    Route("GET", "/api/runs/{run}/code", files.code, "The code that was run", gives=files.Code, shared="runs"),
    Route("GET", "/api/compare", compare.compare, "Runs side by side",
          {"runs": Parameter("ids, separated by commas", example="train-1,train-2")}, gives=compare.Comparison,
          shared="runs"),
    Route("GET", "/api/explain", explain.explain, "Why one run differs from another",
          {"a": Parameter("the run to compare with", example="train-1"),
           "b": Parameter("the run to explain", example="train-2")}, gives=explain.Explanation, shared="runs"),
    Route(
        "GET", "/api/blobs/{digest}", files.blob, "The bytes of a file, by their digest",
        {"name": Parameter("its file name"), "download": Parameter("1: download it instead of showing it")},
        gives=series.MEDIA, shared="runs",
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
        gives="text/event-stream", carries=News, how="serves", shared="runs",
    ),
    Route("POST", "/api/share", share.share, "Make a link that can only read what a page shows",
          body=share.Share, gives=share.Shared),
    Route("GET", "/api/openapi.json", openapi.openapi, "This document", how="calls", shared="public"),
)  # fmt: skip


def build(
    home: HomeAccess, key: Key, *, names: Iterable[str] = (), own_names: Iterable[str] = (), read_only: bool = False,
    project: str = "", page: str = "", frame: str = "", refused: Counter[str] | None = None,
    renewed: Callable[[], None] = lambda: None,
) -> App:  # fmt: skip
    """Return the whole ASGI app; `page`: the directory of the built page, if not the one in the package.

    `names`, `own_names`: other names of this machine, which the owner has given, or which are known.
    `frame`: the origin of a site that may show the page in a frame. `refused` counts the requests that the guard
    refuses, by kind. `renewed` is called when the owner's token was replaced.
    """
    state = AppState(home, key, read_only=read_only, project=project)
    return around(state, names, page, frame, refused, renewed, own_names)


def around(
    state: AppState, names: Iterable[str] = (), page: str = "", frame: str = "", refused: Counter[str] | None = None,
    renewed: Callable[[], None] = lambda: None, own_names: Iterable[str] = (),
) -> App:  # fmt: skip
    """Return the app of a state: the guard, with the router behind it."""
    state.described = openapi.describe(ROUTES)
    router, counts = Router(state, Pages(page) if page else Pages()), Counter[str]() if refused is None else refused
    guarded = Guard(router, state.key, names, counts, is_page=is_page, frame=frame, own_names=own_names)

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live_with(state, guarded.watch_key(renewed), receive, send)
        else:
            await guarded(scope, receive, send)

    return app


async def live_with(state: AppState, beside: Coroutine[Any, Any, None], receive: Any, send: Any) -> None:
    """Start a state with the server, and a task beside it; end both with the server."""
    task = asyncio.ensure_future(beside)
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            state.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            task.cancel()
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
            answer = refuse(error, shared=scope.get(LINKS, ()) is not None)
        if answer is not None:
            await answer(scope, receive, send)

    async def _page(self, scope: Scope, path: str) -> Response:
        if scope["method"] == "POST":
            raise Refusal(405, "pages take only GET", {"Allow": "GET, HEAD"})
        seen, takes = _header(scope, b"if-none-match"), _header(scope, b"accept-encoding")
        pool = self._state.pool if scope.get(LINKS, ()) is None else self._state.link_pool
        return await pool.call(lambda: self._pages.answer(path, seen, takes))

    async def _ask(self, scope: Scope, receive: Any, send: Any) -> Response | None:
        found = find(self._routes, scope["method"], scope.get("raw_path") or scope["path"].encode())
        route, links = found.route, scope.get(LINKS, ())  # without a guard that says who it is, nothing is shown
        if links is not None and not route.shared:
            raise Refusal(403, "this is not among what was shared: a link can only read")
        if route.changes and self._state.read_only:
            raise Refusal(403, "this is read-only: nothing can be changed from here")
        request = await _read(scope, receive, found, links)
        sight = None if links is None else Sight(self._state, links, hosts=route.shared == "hosts")
        if route.act is live:
            await self._live(request, sight, receive, send)
            return None
        value = await (self._act(route, request) if sight is None else self._show(route, request, sight))
        return value if isinstance(value, Response) else as_json(value)

    async def _act(self, route: Route, request: Request) -> Any:
        """Answer the owner."""
        state = self._state
        if route.how == "serves":
            return await route.act(state, request)
        if route.how == "calls":
            return await state.pool.call(lambda: route.act(state, request))
        return await state.pool.ask(lambda store: route.act(state, store, request))

    async def _show(self, route: Route, request: Request, sight: Sight) -> Any:
        """Answer somebody who came by a link, from what it shows."""
        if route.how == "serves":
            return await route.act(sight.state(), request)
        if route.how == "calls":
            return await self._state.link_pool.call(lambda: route.act(sight.state(), request))
        return await sight.ask(lambda state, store: route.act(state, store, request))

    async def _live(self, request: Request, sight: Sight | None, receive: Any, send: Any) -> None:
        run = request.query["run"]
        if sight is not None and run and run not in await sight.runs():
            raise NotFoundError(f"there is no run {run!r}")
        topic = Topic(run, "" if request.links is None else " ".join(link.token for link in request.links) or "none")
        await live(self._state.live, topic, sight.runs if sight is not None else None, receive, send)


async def _read(scope: Scope, receive: Any, found: Match, links: tuple[Link, ...] | None) -> Request:
    route = found.route
    query = read_query(route.takes, scope["query_string"])
    body = None
    if route.method == "POST":
        raw = await asgi.read_body(scope, receive, route.most_body, _BODY_S)
        if raw and _header(scope, b"content-type").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "the body must be JSON, with Content-Type: application/json")
        body = read_body(route, raw)
    return Request(scope.get(BASE, ""), found.path, query, body, links)


def _header(scope: Scope, name: bytes) -> str:
    with contextlib.suppress(StopIteration):
        return str(next(value for key, value in scope["headers"] if key == name).decode("latin-1"))
    return ""
