"""Runs: found by id, prefix or name, listed, and seen as one object."""

import difflib
import time
from typing import Any

from vedette.errors import AmbiguousError, NotFoundError
from vedette.model import Value
from vedette.query import logs, series
from vedette.query.silence import LOST_AFTER_S, Seen, Sign, see, signs
from vedette.query.tries import of_runs
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


def select(
    store: Reader,
    where: str = "",
    project: str = "",
    limit: int | None = None,
    *,
    now: int | None = None,
    lost_after_s: float = LOST_AFTER_S,
) -> "list[RunView]":
    """Return runs, the newest first; `lost_after_s`: the silence after which one that should be alive is lost."""
    conditions: list[Where] = [Not(Compare("removed", "=", True))]
    if where:
        conditions.append(parse(where))
    if project:
        conditions.append(Compare("project", "=", project))
    rows = store.spans(SpanQuery(kind="run", where=Both(tuple(conditions)), limit=limit))
    heard = signs(store, [row.id for row in rows if row.end_t is None]) if rows else {}
    return [RunView(store, row, heard.get(row.id), now=now, lost_after_s=lost_after_s) for row in rows]


def view(store: Reader, text: str, *, now: int | None = None, lost_after_s: float = LOST_AFTER_S) -> "RunView":
    """Return one run, found as by `find`; `now` and `lost_after_s` are as for `select`."""
    row = find(store, text)
    heard = signs(store, [row.id]) if row.end_t is None else {}
    return RunView(store, row, heard.get(row.id), now=now, lost_after_s=lost_after_s)


class RunView:
    """A run as it was when it was asked for; ask again to see it later."""

    def __init__(
        self,
        store: Reader,
        row: SpanRow,
        sign: Sign | None = None,
        *,
        now: int | None = None,
        lost_after_s: float = LOST_AFTER_S,
    ) -> None:
        self._store = store
        self._now = time.time_ns() if now is None else now
        self._lost_after_s = lost_after_s
        self._row = see(row, sign, self._now, lost_after_s)

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
        """Its state; `lost` when it should be alive and nothing of its newest try has been heard for a minute."""
        return self._row.state

    @property
    def heard_t(self) -> int | None:
        """When a hub last knew it alive, in nanoseconds; None when none ever did, or when it has ended."""
        return self._row.heard_t

    @property
    def silent_s(self) -> float | None:
        """For how long nothing has been heard of it; None when it has ended, or has no process yet."""
        return self._row.silent_s

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
        return ((self._row.end_t or self._now) - self._row.start_t) / 1e9

    def series(self) -> list[SeriesRow]:
        """Return its series, each with its last value."""
        return self._store.series([self.id])

    def history(self, name: str, tags: dict[str, str] | None = None, *, all_tries: bool = False) -> Points:
        """Return the points of a series as numpy arrays: .step, .t (nanoseconds) and .value.

        A step that a later try has logged again is left out of the earlier ones, unless `all_tries` are wanted.
        """
        return series.history(self._store, self.id, name, tags, all_tries=all_tries)

    def logs(self, **kwargs: Any) -> list[EventRow]:
        """Return what happened in it; takes grep=, level=, search= and last=."""
        return logs.lines(self._store, self.id, **kwargs)

    def tries(self) -> list[Seen]:
        """Return its tries, the first one first; the last one's state is the run's."""
        return self._see(of_runs(self._store, [self.id]).get(self.id, []))

    def processes(self) -> list[Seen]:
        """Return the processes that took part, the oldest first, each in its own state."""
        return self._see(self._store.spans(SpanQuery(kind="process", prefix=self.id + "/"))[::-1])

    def skews(self) -> dict[str, float]:
        """Return by how many seconds the clocks of its hosts are ahead of the hub's, where that was measured."""
        return {row.origin.host: row.skew_s for row in self._store.origins([self.id]) if row.skew_s is not None}

    def _see(self, rows: list[SpanRow]) -> list[Seen]:
        heard = signs(self._store, [self.id]) if any(row.end_t is None for row in rows) else {}
        return [see(row, heard.get(row.id), self._now, self._lost_after_s) for row in rows]

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
