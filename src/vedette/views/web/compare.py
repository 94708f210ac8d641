"""Runs beside each other, and why one differs from another."""

from typing import Any

from vedette.query.compare import compare as compared
from vedette.query.explain import explain as explained
from vedette.query.runs import find
from vedette.store import Reader
from vedette.views.web.files import read
from vedette.views.web.replies import Refusal, plain
from vedette.views.web.routes import Asked
from vedette.views.web.runs import rows_of
from vedette.views.web.state import AppState

_MOST_RUNS = 500
_MOST_BYTES = 64 << 20  # of a file that is looked into


def compare(state: AppState, store: Reader, asked: Asked) -> dict[str, Any]:
    """Put runs beside each other."""
    wanted = [find(store, text).id for text in _ids(asked.query["runs"])]
    views, lines = state.listing.look_at(store, list(dict.fromkeys(wanted)))
    found: dict[str, Any] = plain(compared(views).as_dict())
    return {**found, "runs": rows_of(store, views, lines)}


def explain(state: AppState, store: Reader, asked: Asked) -> dict[str, Any]:
    """Say why b differs from a."""
    if not asked.query["a"] or not asked.query["b"]:
        raise Refusal(400, "two runs are compared: a and b")
    ids = [find(store, asked.query[side]).id for side in ("a", "b")]
    views, lines = state.listing.look_at(store, ids)
    found: dict[str, Any] = plain(
        explained(views[0], views[1], lambda digest: read(state.home, digest, _MOST_BYTES)).as_dict()
    )
    rows = rows_of(store, views, lines)
    return {**found, "a": rows[0], "b": rows[1]}


def _ids(text: str) -> list[str]:
    ids = [word for word in text.split(",") if word]
    if not ids:
        raise Refusal(400, "say which runs: runs=ID,ID")
    if len(ids) > _MOST_RUNS:
        raise Refusal(400, f"{_MOST_RUNS} runs at most are compared at once")
    return ids
