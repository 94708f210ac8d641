"""What is served, and how."""

import functools
import time

from vedette.asgi import Refusal
from vedette.errors import NotFoundError
from vedette.store import Reader
from vedette.version import __version__
from vedette.views.web.links import Link
from vedette.views.web.routes import Request
from vedette.views.web.shapes import About, SharedPart
from vedette.views.web.share import describe, path_of
from vedette.views.web.state import AppState

_MOST_PROJECTS = 1000


async def about(state: AppState, request: Request) -> About:
    """Return what is served."""
    try:
        projects = await state.pool.ask(_projects)
        shared = [await state.pool.ask(functools.partial(_shared, link=link)) for link in request.links or ()]
    except NotFoundError:  # nothing was ever logged here
        projects, shared = [], []
    hub = await state.pool.call(state.home.has_hub)
    return About(
        __version__, state.read_only, hub, state.home.root, state.project, projects, time.time() * 1e3, shared
    )  # fmt: skip


def _shared(store: Reader, link: Link) -> SharedPart:
    try:
        what = describe(store, link.scope)
    except NotFoundError:
        what = "a run that was removed"
    return SharedPart(what, path_of(link.scope), link.end_s * 1e3)


def _projects(store: Reader) -> list[str]:
    found = store.projects()
    if len(found) > 10 * _MOST_PROJECTS:
        raise Refusal(500, "there are too many projects")
    return found[:_MOST_PROJECTS]
