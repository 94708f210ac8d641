"""What is served, and how."""

import time

from vedette.asgi import Refusal
from vedette.errors import NotFoundError
from vedette.store import Reader
from vedette.version import __version__
from vedette.views.web.routes import Request
from vedette.views.web.shapes import About
from vedette.views.web.state import AppState

_MOST_PROJECTS = 1000


async def about(state: AppState, request: Request) -> About:
    """Return what is served."""
    try:
        projects = await state.pool.ask(_projects)
    except NotFoundError:  # nothing was ever logged here
        projects = []
    hub = await state.pool.call(state.home.has_hub)
    read_only = state.read_only or request.shared
    home = "" if request.shared else state.home.root
    return About(__version__, read_only, hub, home, state.project, projects, time.time() * 1e3)


def _projects(store: Reader) -> list[str]:
    found = store.projects()
    if len(found) > 10 * _MOST_PROJECTS:
        raise Refusal(500, "there are too many projects")
    return found[:_MOST_PROJECTS]
