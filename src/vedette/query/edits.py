"""What an edit of a run may say. The command line and the page check it alike."""

from collections.abc import Mapping

from vedette.errors import VedetteError
from vedette.model import KINDS, Value
from vedette.query.runs import RunView, below

_MOST_NAME, _MOST_TAG, _MOST_TEXT = 200, 200, 100_000  # characters
_MOST_TAGS = 100


def attrs_of(
    *,
    name: str | None = None,
    description: str | None = None,
    notes: str | None = None,
    star: bool | None = None,
    tags: Mapping[str, bool],
) -> dict[str, Value]:
    """Return the attributes that an edit sets; what is None stays as it is. Raise VedetteError when it is too much."""
    attrs: dict[str, Value] = {}
    if name is not None:
        if not 0 < len(name.strip()) <= _MOST_NAME:
            raise VedetteError(f"a name has from 1 to {_MOST_NAME} characters")
        attrs["name"] = name.strip()
    for key, text in (("description", description), ("notes", notes)):
        if text is not None:
            if len(text) > _MOST_TEXT:
                raise VedetteError(f"{key} has {_MOST_TEXT} characters at most")
            attrs[key] = text
    if star is not None:
        attrs["star"] = star
    if any(not 0 < len(tag) <= _MOST_TAG for tag in tags):
        raise VedetteError(f"a tag has from 1 to {_MOST_TAG} characters")
    if len(tags) > _MOST_TAGS:
        raise VedetteError(f"{_MOST_TAGS} tags at most can be changed at once")
    return attrs | {f"tag.{tag}": on for tag, on in tags.items()}


def running_in(run: RunView) -> RunView | None:
    """Return the run, or one below it, that is running and so should not be removed; None if none is."""
    return next((one for one in (run, *below(run)) if one.state in KINDS["run"].climbing), None)
