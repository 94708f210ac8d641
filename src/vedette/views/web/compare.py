"""Runs side by side."""

from typing import Any

import msgspec
from msgspec import Struct

from vedette.asgi import Refusal
from vedette.query.compare import Key, Property
from vedette.query.compare import compare as compared
from vedette.query.finding import find
from vedette.store import Reader
from vedette.views.text import for_json
from vedette.views.web.routes import Request
from vedette.views.web.runs import rows_of
from vedette.views.web.shapes import Number, Row
from vedette.views.web.state import AppState

_MOST_RUNS = 500


class Metric(Struct, frozen=True):
    """A metric, how many of the runs have it, and its last value in each."""

    name: str
    runs: int
    last: list[Number]


class Comparison(Struct, frozen=True):
    """Runs side by side; every list of values is in the order of `runs`."""

    runs: list[Row]
    keys: list[Key]
    metrics: list[Metric]
    properties: list[Property]


def compare(state: AppState, store: Reader, request: Request) -> Comparison:
    """Compare runs."""
    wanted = [find(store, text).id for text in _ids(request.query["runs"])]
    views, lines = state.listing.look_at(store, list(dict.fromkeys(wanted)))
    found = for_json(compared(views).as_dict()) | {"runs": rows_of(store, views, lines)}
    found["metrics"] = _by_name(found["metrics"], len(views))
    return msgspec.convert(found, Comparison)


def _by_name(metrics: list[dict[str, Any]], runs: int) -> list[dict[str, Any]]:
    """Return one metric of each name, as charts draw them; only a series without tags has one last value."""
    found: dict[str, dict[str, Any]] = {}
    having: dict[str, set[int]] = {}
    for one in metrics:  # those without tags come first
        found.setdefault(one["name"], one if not one["tags"] else one | {"last": [None] * runs})
        having.setdefault(one["name"], set()).update(n for n, last in enumerate(one["last"]) if last is not None)
    named = [one | {"runs": len(having[name])} for name, one in found.items()]
    return sorted(named, key=lambda one: (-one["runs"], one["name"]))


def _ids(text: str) -> list[str]:
    ids = [word for word in text.split(",") if word]
    if not ids:
        raise Refusal(400, "name the runs: runs=ID,ID")
    if len(ids) > _MOST_RUNS:
        raise Refusal(400, f"{_MOST_RUNS} runs at most can be compared at once")
    return ids
