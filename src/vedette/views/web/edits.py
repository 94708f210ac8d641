"""What a user may change: annotations, whether a run is shown, and that it be stopped."""

from typing import Any

from msgspec import Struct

from vedette.model import KINDS
from vedette.query.runs import below, find, find_removed, view
from vedette.store import Reader
from vedette.views.web.replies import Refusal
from vedette.views.web.routes import Asked
from vedette.views.web.state import AppState

_MOST_TEXT = 100_000
_MOST_NAME = 256
_MOST_TAGS = 100


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be other than it is; what is left out stays."""

    star: bool | None = None
    tags: dict[str, bool] = {}
    description: str | None = None
    notes: str | None = None
    name: str | None = None


class Remove(Struct, frozen=True, forbid_unknown_fields=True):
    """Hide a run, or bring it back; `force`: though it is running."""

    undo: bool = False
    force: bool = False


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing is to be said."""


class Done(Struct, frozen=True):
    """It is done."""

    id: str


def edit(state: AppState, store: Reader, asked: Asked) -> Done:
    """Keep what a user says of a run."""
    wish: Edit = asked.body
    attrs: dict[str, Any] = {}
    for key, most in (("description", _MOST_TEXT), ("notes", _MOST_TEXT), ("name", _MOST_NAME)):
        text = getattr(wish, key)
        if text is not None:
            if len(text) > most:
                raise Refusal(400, f"{key} has {most} characters at most")
            attrs[key] = text
    if wish.name is not None and not wish.name.strip():
        raise Refusal(400, "a run's name has at least one letter")
    if wish.star is not None:
        attrs["star"] = wish.star
    if len(wish.tags) > _MOST_TAGS or any(not 0 < len(tag) <= _MOST_NAME for tag in wish.tags):
        raise Refusal(400, f"{_MOST_TAGS} tags at most at once, of {_MOST_NAME} characters at most each")
    attrs |= {f"tag.{tag}": on for tag, on in wish.tags.items()}
    if not attrs:
        raise Refusal(400, "nothing is said: star, tags, description, notes or name")
    run = find(store, asked.path["run"]).id
    state.home.edit([run], attrs)
    return Done(run)


def stop(state: AppState, store: Reader, asked: Asked) -> Done:
    """Have a run told to stop."""
    found = find(store, asked.path["run"])
    if found.state not in KINDS["run"].climbing:
        raise Refusal(409, f"run {found.id} has ended already: {found.state}")
    state.home.stop(found.id)
    return Done(found.id)


def remove(state: AppState, store: Reader, asked: Asked) -> Done:
    """Hide a run, or bring it back; for good it goes by the command line alone."""
    wish: Remove = asked.body
    if wish.undo:
        run = find_removed(store, asked.path["run"]).id
    else:
        found = view(store, asked.path["run"])
        run = found.id
        alive = [one for one in (found, *below(store, run)) if one.state in KINDS["run"].climbing]
        if alive and not wish.force:
            raise Refusal(409, f"run {alive[0].id} ({alive[0].name}) is running: stop it first")
    state.home.edit([run], {"removed": not wish.undo})
    return Done(run)
