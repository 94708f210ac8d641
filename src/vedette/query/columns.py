"""Columns of a list of runs, by the names that people type: `lr`, `loss.min`, `config.model.depth`, `duration`.

A name that says no family is looked for in the config, then among the metrics, then in the summaries. Lists are shown
with such columns and sorted by them.
"""

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from vedette.errors import NotFoundError
from vedette.labels import parted, statistic
from vedette.model import Value
from vedette.query import statistics
from vedette.query.runs import RunView
from vedette.query.where import FAMILIES, FIELDS
from vedette.store import Reader

_LOW = re.compile(
    r"loss|err|perplexity|ppl|(?:^|[_/.])(?:wer|cer|mse|mae|rmse|nll|fid|time|latency)|_s$", re.IGNORECASE
)
_HIGH = re.compile(r"acc|f1|auc|score|reward|return|iou|bleu|rouge|r2|precision|recall|map|psnr|ssim", re.IGNORECASE)
_FLAGS = ("star", "tags")
_EXAMPLES = {"metric.": "loss", "config.": "lr"}


class Column(Struct, frozen=True):
    """A column: as it was asked for, the field that this means, and a value of each run; None if a run has none."""

    name: str
    field: str
    values: list[Value]


def best_is_low(name: str) -> bool | None:
    """Tell by the name of a metric whether its lowest value is the best; None if the name does not tell."""
    return True if _LOW.search(name) else False if _HIGH.search(name) else None


def column(store: Reader, views: Sequence[RunView], name: str) -> Column:
    """Return a column of runs; raise NotFoundError when none of them has it, or when it is a family without a key."""
    if name in FAMILIES:
        raise NotFoundError(f"{name!r} names no value: say which, as in {name}{_EXAMPLES.get(name, 'NAME')}")
    if name in FIELDS or name in _FLAGS:
        return Column(name, name, [_own(view, name) for view in views])
    if name.startswith(FAMILIES):
        return Column(name, name, _values(store, views, name))
    for family in ("config.", "metric.", "summary."):
        values = _values(store, views, family + name)
        if any(value is not None for value in values):
            return Column(name, family + name, values)
    raise NotFoundError(_unknown(store, views, name))


def order(found: Column, *, falling: bool = False) -> list[int]:
    """Return the indices of the runs in the order of a column: numbers first, then text; those without it come last."""

    def key(index: int) -> tuple[int, float, str]:
        value = found.values[index]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return 3, 0.0, ""
        if isinstance(value, int | float):
            return 1, -value if falling else value, ""
        return 2, 0.0, str(value)

    indices = sorted(range(len(found.values)), key=key)
    if falling:  # texts, too
        texts = [index for index in indices if key(index)[0] == 2]
        at = [place for place, index in enumerate(indices) if key(index)[0] == 2]
        for place, index in zip(at, reversed(texts), strict=True):
            indices[place] = index
    return indices


def usual_metric(store: Reader, views: Sequence[RunView]) -> str:
    """Return the metric by which runs are judged if nobody says: of those most runs have, a loss, else one that tells.

    Raise NotFoundError when there is none.
    """
    counts: dict[str, int] = {}
    for row in store.series([view.id for view in views]) if views else []:
        if not row.tags and best_is_low(row.name) is not None:
            counts[row.name] = counts.get(row.name, 0) + 1
    if not counts:
        raise NotFoundError("no metric of these runs tells by its name what is best: say --sort NAME or --sort=-NAME")
    return min(counts, key=lambda name: (-counts[name], not best_is_low(name), name != "loss", len(name), name))


def _own(view: RunView, name: str) -> Value:
    if name in ("id", "name", "state", "cause", "project"):
        return str(getattr(view, name))
    if name in ("start", "end"):
        t = view.start_t if name == "start" else view.end_t
        return None if t is None else t / 1e9
    if name == "duration":
        return view.duration_s
    if name == "tags":
        return ", ".join(view.tags)
    return view.attrs.get(name)


def _values(store: Reader, views: Sequence[RunView], field: str) -> list[Value]:
    if not field.startswith("metric."):
        return [view.attrs.get(field) for view in views]
    name = field.removeprefix("metric.")
    found = statistics.values(store, name, [view.id for view in views])
    return [found.get(view.id, view.attrs.get(f"summary.{name}")) for view in views]


def _unknown(store: Reader, views: Sequence[RunView], name: str) -> str:
    import difflib

    words = {key.removeprefix("config.") for view in views for key in view.attrs if key.startswith("config.")}
    words |= {row.label for row in store.series([view.id for view in views])} if views else set()
    near = difflib.get_close_matches(parted(statistic(name)[0])[0], sorted(words), 1)
    hint = f"did you mean {near[0]}?" if near else f"they have {', '.join(sorted(words)[:10]) or 'none'}"
    return f"none of these runs has {name!r} in its config, metrics or summary; {hint}"
