"""Which run a person means, by its id, a prefix of it, or its name; and which runs are hidden."""

from collections.abc import Collection

from vedette.errors import AmbiguousError, NotFoundError
from vedette.ids import above
from vedette.model import PURGED
from vedette.store import Both, Compare, Not, Reader, SpanQuery, SpanRow

NOT_PURGED = Not(Compare("state", "=", PURGED))


def find(store: Reader, text: str) -> SpanRow:
    """Return the run with this id, else the newest run of this name, else the only run whose id or name begins with it.

    Raise NotFoundError or AmbiguousError when no run or several runs match. A removed run is found only by its full id.
    """
    family = Family(store)
    known: list[SpanRow] = []
    if text:
        by_id = store.spans(SpanQuery(kind="run", prefix=text, limit=50))
        exact = [run for run in by_id if run.id == text]
        if exact and exact[0].state != PURGED:
            return exact[0]
        by_name = store.spans(SpanQuery(kind="run", name=text, limit=50))
        newest_by_name = [run for run in by_name if not family.hides(run)][:1]
        found = newest_by_name or [run for run in by_id if not family.hides(run)]
        if not found:
            known = store.spans(SpanQuery(kind="run", limit=10_000))
            found = [run for run in known if run.name.startswith(text) and not family.hides(run)]
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousError(several(text, found))
        for run in (*exact, *by_name, *by_id):
            raise NotFoundError(family.why_hidden(run))
    import difflib

    known = [run for run in known if not family.hides(run)]
    near = difflib.get_close_matches(text, [run.name for run in known] + [run.id for run in known], 1)
    hint = f"did you mean {near[0]}?" if near else "`vedette ls` shows what there is"
    raise NotFoundError(f"there is no run {text!r}; {hint}")


def by_names(store: Reader, names: Collection[str]) -> dict[str, str]:
    """Return the ids of the newest runs of these names, as `find` has them; names that no run has are left out."""
    if not names:
        return {}
    family = Family(store)
    found: dict[str, str] = {}
    for run in store.spans(SpanQuery(kind="run", where=Compare("name", "in", tuple(names)), only=("removed",))):
        if run.name not in found and not family.hides(run):
            found[run.name] = run.id
    return found


def several(text: str, found: list[SpanRow]) -> str:
    """Return a message that a text matches several runs."""
    some = ", ".join(f"{run.id} ({run.name})" for run in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{text!r} could be {some}{more}: give an id, or more of it"


def find_removed(store: Reader, text: str) -> SpanRow:
    """Return the removed run with this id, name or prefix of an id; raise when no run or several runs match."""
    rows = store.spans(SpanQuery(kind="run", where=Both((Compare("removed", "=", True), NOT_PURGED))))
    found = [row for row in rows if row.id == text] or [row for row in rows if row.name == text]
    found = found or [row for row in rows if text and row.id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousError(several(text, found))
    row = find(store, text)
    raise NotFoundError(f"run {row.id} ({row.name}) is not removed; `vedette ls --removed` shows those that are")


class Family:
    """Knows which runs are hidden: removed runs, and the runs below them."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._known: dict[str, SpanRow | None] = {}

    def hides(self, run: SpanRow) -> bool:
        """Tell whether a run is hidden."""
        return self._hiding(run) is not None

    def why_hidden(self, run: SpanRow) -> str:
        """Return a message that says why a run is hidden, and how to bring it back."""
        by = self._hiding(run)
        if by is None:
            return f"run {run.id} is not hidden"
        if by.state == PURGED:
            return f"run {run.id} was removed for good" + (f": {by.cause}" if by.cause else "")
        below = "" if by.id == run.id else f" is below run {by.id}, which"
        return f"run {run.id}{below} was removed: `vedette rm --undo {by.id}` brings it back"

    def _hiding(self, run: SpanRow) -> SpanRow | None:
        met: set[str] = set()
        todo = [run]
        while todo:
            at = todo.pop()
            if at.attrs.get("removed") or at.state == PURGED:
                return at
            met.add(at.id)
            ids = (*above(at.id)[1:], *above(at.parent))
            todo += [row for id_ in ids if id_ not in met and (row := self._run(id_)) is not None]
        return None

    def _run(self, id_: str) -> SpanRow | None:
        if id_ not in self._known:
            rows = self._store.spans(SpanQuery(kind="run", where=Compare("id", "=", id_), only=("removed",)))
            self._known[id_] = rows[0] if rows else None
        return self._known[id_]
