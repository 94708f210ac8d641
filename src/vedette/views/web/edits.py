"""What a user may do to a run: annotate it, remove it or bring it back, stop it."""

from msgspec import Struct, structs

from vedette.asgi import Refusal
from vedette.model import KINDS
from vedette.query.edits import attrs_of, running_in
from vedette.query.finding import find, find_removed
from vedette.query.runs import view
from vedette.store import Reader
from vedette.views.web.routes import Request
from vedette.views.web.state import AppState


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; fields that are left out stay as they are."""

    star: bool | None = None
    tags: dict[str, bool] = {}
    description: str | None = None
    notes: str | None = None
    name: str | None = None


class Remove(Struct, frozen=True, forbid_unknown_fields=True):
    """Hide a run, or bring it back; `force`: even if it is running."""

    undo: bool = False
    force: bool = False


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty body."""


class Done(Struct, frozen=True):
    """It is done."""

    id: str


def edit(state: AppState, store: Reader, request: Request) -> Done:
    """Save a user's edit of a run."""
    wanted: Edit = request.body
    attrs = attrs_of(**structs.asdict(wanted))
    if not attrs:
        raise Refusal(400, "nothing to change: give star, tags, description, notes or name")
    run = find(store, request.path["run"]).id
    state.home.edit([run], attrs)
    return Done(run)


def stop(state: AppState, store: Reader, request: Request) -> Done:
    """Stop a run."""
    found = find(store, request.path["run"])
    if found.state not in KINDS["run"].climbing:
        raise Refusal(409, f"run {found.id} has ended already: {found.state}")
    state.home.stop(found.id)
    return Done(found.id)


def remove(state: AppState, store: Reader, request: Request) -> Done:
    """Hide a run, or bring it back; only the command line removes a run for good."""
    wanted: Remove = request.body
    if wanted.undo:
        run = find_removed(store, request.path["run"]).id
    else:
        found = view(store, request.path["run"], lost_after_s=state.home.lost_after_s)
        run = found.id
        if not wanted.force and (alive := running_in(found)):
            raise Refusal(409, f"run {alive.id} ({alive.name}) is running: stop it first")
    state.home.edit([run], {"removed": not wanted.undo})
    return Done(run)
