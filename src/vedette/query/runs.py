"""Runs: found by id, prefix or name, listed, and seen as one object."""

import difflib
import time
from typing import Any

from vedette.errors import AmbiguousError, NotFoundError
from vedette.model import KINDS, Value
from vedette.query import logs, series, table
from vedette.query.where import parse
from vedette.store import (
    Both,
    Compare,
    EventRow,
    Not,
    Points,
    Reader,
    SeriesRow,
    SpanQuery,
    SpanRow,
    Where,
)

_SILENT_S = 60.0


def find(store: Reader, text: str) -> SpanRow:
    """Return the run with this id, the newest of this name, or the one that begins so; raise when none or many do."""
    known: list[SpanRow] = []
    if text:
        by_id = store.spans(SpanQuery(kind="run", prefix=text, limit=50))
        newest_by_name = store.spans(SpanQuery(kind="run", name=text, limit=1))
        found = [run for run in by_id if run.id == text] or newest_by_name or by_id
        if not found:
            known = store.spans(SpanQuery(kind="run", limit=10_000))
            found = [run for run in known if run.name.startswith(text)]
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(f"{run.id} ({run.name})" for run in found[:5])
            more = f" and {len(found) - 5} more" if len(found) > 5 else ""
            raise AmbiguousError(f"{text!r} could be {some}{more}: give an id, or more of it")
    near = difflib.get_close_matches(text, [run.name for run in known] + [run.id for run in known], 1)
    hint = f"did you mean {near[0]}?" if near else "`vedette ls` shows what there is"
    raise NotFoundError(f"there is no run {text!r}; {hint}")


def select(store: Reader, where: str = "", project: str = "", limit: int | None = None) -> "list[RunView]":
    """Return runs, the newest first."""
    conditions: list[Where] = [Not(Compare("removed", "=", True))]
    if where:
        conditions.append(parse(where))
    if project:
        conditions.append(Compare("project", "=", project))
    rows = store.spans(SpanQuery(kind="run", where=Both(tuple(conditions)), limit=limit))
    heard = _heard(store) if any(row.end_t is None for row in rows) else {}
    return [RunView(store, row, heard.get(row.id)) for row in rows]


def view(store: Reader, text: str) -> "RunView":
    """Return one run, found as by `find`."""
    row = find(store, text)
    return RunView(store, row, _heard(store).get(row.id) if row.end_t is None else None)


def _heard(store: Reader) -> dict[str, int]:
    heard: dict[str, int] = {}
    for row in store.origins():
        heard[row.origin.span] = max(heard.get(row.origin.span, 0), row.heard_t)
    return heard


class RunView:
    """A run as it was when it was asked for; ask again to see it later."""

    def __init__(self, store: Reader, row: SpanRow, heard_t: int | None = None) -> None:
        self._store = store
        self._row = row
        self._heard_t = heard_t

    @property
    def id(self) -> str:
        """Its id."""
        return self._row.id

    @property
    def name(self) -> str:
        """Its name."""
        return self._row.name

    @property
    def state(self) -> str:
        """Its state; `lost` when it should be alive and nothing has been heard of it for a minute."""
        climbing = self._row.state in KINDS["run"].climbing
        if climbing and self._heard_t and time.time_ns() - self._heard_t > _SILENT_S * 1e9:
            return "lost"
        return self._row.state

    @property
    def cause(self) -> str:
        """Why it ended, where that is known."""
        return self._row.cause

    @property
    def project(self) -> str:
        """The project that it belongs to."""
        return str(self.attrs.get("project", ""))

    @property
    def attrs(self) -> dict[str, Value]:
        """All its attributes, in one level."""
        return self._row.attrs

    @property
    def config(self) -> dict[str, Value]:
        """Its config, nested as it was given."""
        return _nested(self._row.attrs, "config.")

    @property
    def summary(self) -> dict[str, Value]:
        """The last value of each series, and what the run put into its summary itself."""
        last = self._store.last_values([self.id]).get(self.id, {})
        return last | {key[8:]: value for key, value in self.attrs.items() if key.startswith("summary.")}

    @property
    def tags(self) -> list[str]:
        """Its tags."""
        return sorted(key[4:] for key, value in self.attrs.items() if key.startswith("tag.") and value)

    @property
    def start_t(self) -> int | None:
        """When it began, in nanoseconds."""
        return self._row.start_t

    @property
    def end_t(self) -> int | None:
        """When it ended, in nanoseconds."""
        return self._row.end_t

    @property
    def duration_s(self) -> float | None:
        """How long it took, or has taken until now."""
        if self._row.start_t is None:
            return None
        return ((self._row.end_t or time.time_ns()) - self._row.start_t) / 1e9

    def series(self) -> list[SeriesRow]:
        """Return its series, each with its last value."""
        return self._store.series([self.id])

    def history(self, name: str, tags: dict[str, str] | None = None) -> Points:
        """Return the points of a series as numpy arrays: .step, .t (nanoseconds) and .value."""
        return series.history(self._store, self.id, name, tags)

    def to_arrow(self) -> Any:
        """Return all its points as one long table of pyarrow: run, name, tags, step, t and value."""
        return table.to_arrow(self._store, [self.id])

    def to_pandas(self) -> Any:
        """Return all its points as one long DataFrame, with the same columns."""
        return table.to_pandas(self._store, [self.id])

    def logs(self, **kwargs: Any) -> list[EventRow]:
        """Return what happened in it; takes grep=, level=, search= and last=."""
        return logs.lines(self._store, self.id, **kwargs)

    def processes(self) -> list[SpanRow]:
        """Return the processes that took part, the oldest first."""
        return self._store.spans(SpanQuery(kind="process", prefix=self.id + "/"))[::-1]

    def __repr__(self) -> str:
        return f"<vedette run {self.name} ({self.id}): {self.state}>"


def _nested(attrs: dict[str, Value], prefix: str) -> dict[str, Value]:
    tree: dict[str, Value] = {}
    for key, value in attrs.items():
        if not key.startswith(prefix):
            continue
        *path, leaf = key[len(prefix) :].split(".")
        branch = tree
        for part in path:
            inner = branch.get(part)
            if not isinstance(inner, dict):
                inner = branch[part] = {}
            branch = inner
        branch[leaf] = value
    return tree
