"""Runs beside each other, and why two of them differ: the same answers as `vedette compare` and `vedette diff` give."""

from typing import Any

from vedette.query.compare import compare as beside
from vedette.query.explain import explain as why
from vedette.query.runs import view
from vedette.store import Reader
from vedette.views.web.files import read
from vedette.views.web.replies import Refusal, plain
from vedette.views.web.room import Room
from vedette.views.web.routes import Asked

MOST_RUNS = 500
_MOST_BYTES = 64 << 20  # of one file that is looked into


def compare(room: Room, store: Reader, asked: Asked) -> Any:
    """Return what runs were told, in which of that they differ, and their metrics."""
    wanted = list(dict.fromkeys(word for word in asked.query["runs"].split(",") if word))
    if not wanted:
        raise Refusal(400, "which runs? runs=ID,ID,...")
    if len(wanted) > MOST_RUNS:
        raise Refusal(400, f"{MOST_RUNS} runs at most are compared at once")
    views = [view(store, word, lost_after_s=room.back.lost_after_s) for word in wanted]
    return plain(beside(views).as_dict())


def explain(room: Room, store: Reader, asked: Asked) -> Any:
    """Return how the second run differs from the first, the most likely causes first."""
    if not asked.query["a"] or not asked.query["b"]:
        raise Refusal(400, "which two runs? a=ID&b=ID")
    a, b = (view(store, asked.query[side], lost_after_s=room.back.lost_after_s) for side in ("a", "b"))
    return plain(why(a, b, lambda digest: read(room.back, digest, _MOST_BYTES)).as_dict())
