"""Which finished runs the settings `keep.*` tell us to remove for good."""

from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from vedette.blobs import Blobs
from vedette.ids import above
from vedette.model import PURGED
from vedette.query.weight import Weights
from vedette.settings import Keep
from vedette.store import Compare, Not, Reader, SpanQuery, SpanRow

TAG = "keep"  # a run with this tag is never due
_SILENT_NS = 60 * 10**9
_DAY_NS = 86_400 * 10**9


class Due(Struct, frozen=True):
    """A run that is due, and why."""

    id: str
    name: str
    why: str


def due(store: Reader, blobs: Blobs, keep: Keep, now: int, living: Collection[str] = ()) -> list[Due]:
    """Return the runs that are due, in the order in which to remove them; `living`: runs that are known to be alive.

    A run is removed together with all runs below it. So it is due only when all of them have ended and none has the tag
    `keep`, and it counts as ended when the last of them ended. Runs that a user has removed already come first.
    """
    if keep == Keep():
        return []
    ends = _ends(store, {*living, *(row.origin.span for row in store.origins(since=max(1, now - _SILENT_NS)))})
    order = sorted(ends, key=lambda row: (not row[0].attrs["removed"], row[1], row[0].id))
    found: dict[str, Due] = {}
    if keep.age_d:
        for row, end_t in order:
            if now - end_t > keep.age_d * _DAY_NS:
                why = f"keep.age_d is {keep.age_d:g}, and it ended {(now - end_t) / _DAY_NS:.1f} days ago"
                found[row.id] = Due(row.id, row.name, why)
    if keep.runs:
        count = Counter(row.attrs["project"] for row, _ in order)
        for row, _ in order:
            if count[row.attrs["project"]] > keep.runs:
                count[row.attrs["project"]] -= 1
                found.setdefault(row.id, Due(row.id, row.name, f"keep.runs is {keep.runs}, and newer ones have ended"))
    if keep.size_bytes:
        weights = Weights(store, blobs)
        over = weights.total() - keep.size_bytes - weights.free(list(found))
        why = f"keep.size_bytes is {keep.size_bytes}, and store and files were larger"
        for row, _ in order:
            if over <= 0:
                break
            if row.id not in found:
                over -= weights.free([row.id])
                found[row.id] = Due(row.id, row.name, why)
    return list(found.values())


def _ends(store: Reader, living: set[str]) -> list[tuple[SpanRow, int]]:
    """Return the runs that may be removed, each with the time at which it and all runs below it had ended."""
    only = ("project", "removed", f"tag.{TAG}")
    rows = store.spans(SpanQuery(kind="run", where=Not(Compare("state", "=", PURGED)), only=only))
    known = {row.id: row for row in rows}
    ends = {row.id: row.end_t or 0 for row in rows}
    held = {row.id for row in rows if row.end_t is None or row.id in living or row.attrs[f"tag.{TAG}"]}
    for row in rows:
        for id_ in _up(known, row):
            ends[id_] = max(ends[id_], row.end_t or 0)
            if row.id in held:
                held.add(id_)
    return [(row, ends[row.id]) for row in rows if row.id not in held]


def _up(known: dict[str, SpanRow], row: SpanRow) -> set[str]:
    """Return all runs above a run; parents may form a cycle."""
    found: set[str] = set()
    todo = [row]
    while todo:
        at = todo.pop()
        for id_ in (*above(at.id)[1:], *above(at.parent)):
            if id_ in known and id_ not in found and id_ != row.id:
                found.add(id_)
                todo.append(known[id_])
    return found
