"""What a user may do to a run: annotate it, remove it or bring it back, stop it."""

from typing import Any

from msgspec import Struct

from vedette.asgi import Refusal
from vedette.model import KINDS
from vedette.query.runs import below, find, find_removed, view
from vedette.store import Reader
from vedette.views.web.routes import Request
from vedette.views.web.state import AppState

_MOST_TEXT = 100_000
_MOST_NAME = 256
_MOST_TAGS = 100


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
    attrs: dict[str, Any] = {}
    for key, most in (("description", _MOST_TEXT), ("notes", _MOST_TEXT), ("name", _MOST_NAME)):
        text = getattr(wanted, key)
        if text is not None:
            if len(text) > most:
                raise Refusal(400, f"{key} has {most} characters at most")
            attrs[key] = text
    if wanted.name is not None and not wanted.name.strip():
        raise Refusal(400, "a run's name has at least one character")
    if wanted.star is not None:
        attrs["star"] = wanted.star
    if len(wanted.tags) > _MOST_TAGS or any(not 0 < len(tag) <= _MOST_NAME for tag in wanted.tags):
        raise Refusal(400, f"{_MOST_TAGS} tags at most at once, of {_MOST_NAME} characters at most each")
    attrs |= {f"tag.{tag}": on for tag, on in wanted.tags.items()}
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
        found = view(store, request.path["run"])
        run = found.id
        alive = [one for one in (found, *below(store, run)) if one.state in KINDS["run"].climbing]
        if alive and not wanted.force:
            raise Refusal(409, f"run {alive[0].id} ({alive[0].name}) is running: stop it first")
    state.home.edit([run], {"removed": not wanted.undo})
    return Done(run)
