"""Runs: how to list them, and `RunView`, one run as an object."""

import time
from collections.abc import Sequence
from typing import Any

from vedette.errors import MissingError
from vedette.ids import is_by_pid, prefix_below, range_below
from vedette.model import PURGED, Value
from vedette.query import logs, series, table
from vedette.query.conditions import for_store
from vedette.query.files import File, files
from vedette.query.finding import NOT_PURGED, Family, find
from vedette.query.progress import Bar, bars
from vedette.query.silence import LOST_AFTER_S, Seen, Sign, see, signs
from vedette.query.tries import of_runs
from vedette.query.usage import Use, use
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

SKEWED_S = 0.5  # a clock that is off by so much is mentioned


def select(
    store: Reader,
    where: str = "",
    project: str = "",
    limit: int | None = None,
    *,
    removed: bool = False,
    now: int | None = None,
    lost_after_s: float = LOST_AFTER_S,
) -> "list[RunView]":
    """Return runs, the newest first; `removed`: only removed runs that can be brought back.

    `lost_after_s`: a live run is lost when nothing was heard from it for so long.
    """
    gone = Compare("removed", "=", True)
    conditions: list[Where] = [gone if removed else Not(gone), NOT_PURGED]
    if where:
        conditions.append(for_store(store, parse(where), now, lost_after_s))
    if project:
        conditions.append(Compare("project", "=", project))
    family = Family(store)
    wanted = limit
    while True:
        rows = store.spans(SpanQuery(kind="run", where=Both(tuple(conditions)), limit=wanted))
        shown = rows if removed else [row for row in rows if not family.hides(row)]
        if limit is None or wanted is None or len(shown) >= limit or len(rows) < wanted:
            break
        wanted *= 4  # some of these rows are hidden, so ask for more
    shown = shown[:limit]
    return _views(store, shown, now, lost_after_s)


def _views(store: Reader, rows: list[SpanRow], now: int | None, lost_after_s: float) -> "list[RunView]":
    open_ones = [row.id for row in rows if row.end_t is None]
    heard = signs(store, open_ones) if open_ones else {}
    return [RunView(store, row, heard.get(row.id), now=now, lost_after_s=lost_after_s) for row in rows]


def below(run: "RunView") -> "list[RunView]":
    """Return all runs below a run: its children, their children, and so on."""
    store = run._store  # noqa: SLF001 - RunView belongs to this module
    found: dict[str, SpanRow] = {}
    todo = [run.id]
    while todo:
        at = todo.pop()
        # The query names no kind: with one, SQLite would take the index on kind and scan all runs.
        first, last = range_below(at)
        parts = Both((Compare("parent", ">", first), Compare("parent", "<", last)))
        queries = (
            SpanQuery(parent=at, only=()),
            SpanQuery(where=parts, only=()),
            SpanQuery(prefix=prefix_below(at), only=()),
        )
        rows = [row for query in queries for row in store.spans(query) if row.kind == "run"]
        for row in rows:
            if row.id not in found and row.id != run.id and row.state != PURGED:
                found[row.id] = row
                todo.append(row.id)
    return _views(store, list(found.values()), run._now, run._lost_after_s)  # noqa: SLF001


def view(store: Reader, text: str, *, now: int | None = None, lost_after_s: float = LOST_AFTER_S) -> "RunView":
    """Find one run as `find` does, and return its view; `lost_after_s` is as for `select`."""
    row = find(store, text)
    heard = signs(store, [row.id]) if row.end_t is None else {}
    return RunView(store, row, heard.get(row.id), now=now, lost_after_s=lost_after_s)


class RunView:
    """A run as it was at the moment of the query; to see changes, query again."""

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
        """Its state; `lost` when it should be alive, but nothing was heard from its newest try for a minute."""
        return self._row.state

    @property
    def heard_t(self) -> int | None:
        """When a hub last knew that it was alive, in nanoseconds; None when no hub did, or when it has ended."""
        return self._row.heard_t

    @property
    def silent_s(self) -> float | None:
        """How long nothing was heard from it; None when it has ended, or has no process yet."""
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
        """All its attributes, as a flat dictionary."""
        return self._row.attrs

    @property
    def config(self) -> dict[str, Value]:
        """Its config, nested as it was given."""
        return _nested(self._row.attrs, "config.")

    @property
    def arg(self) -> dict[str, Value]:
        """The options of its command line, nested."""
        return _nested(self._row.attrs, "arg.")

    @property
    def asked(self) -> dict[str, Value]:
        """What `vedette run --config` asked for, nested."""
        return _nested(self._row.attrs, "asked.")

    @property
    def summary(self) -> dict[str, Value]:
        """The last value of each series, by name or as `name[tag=value]`, and what the run put into its summary."""
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
        """How long it took, or has been running until now."""
        if self._row.start_t is None:
            return None
        return ((self._row.end_t or self._now) - self._row.start_t) / 1e9

    def series(self) -> list[SeriesRow]:
        """Return its series, each with its last value."""
        return self._store.series([self.id])

    def history(self, name: str, tags: dict[str, str] | None = None, *, all_tries: bool = False) -> Points:
        """Return the points of a series as numpy arrays: .step, .t (nanoseconds) and .value.

        When a later try logged a step again, the earlier try's point is left out, unless `all_tries` is set.
        """
        return series.history(self._store, self.id, name, tags, all_tries=all_tries)

    def to_arrow(self) -> Any:
        """Return all its points as one long table of pyarrow: run, name, tags, step, t and value."""
        return table.to_arrow(self._store, [self.id])

    def to_pandas(self) -> Any:
        """Return all its points as one long DataFrame, with the same columns."""
        return table.to_pandas(self._store, [self.id])

    def to_polars(self) -> Any:
        """Return all its points as one long DataFrame of polars, with the same columns."""
        return table.to_polars(self._store, [self.id])

    def logs(self, **kwargs: Any) -> list[EventRow]:
        """Return what happened in it; takes grep=, level=, kind=, search= and last=."""
        return logs.lines(self._store, self.id, **kwargs)

    def files(self) -> list[File]:
        """Return the files that it has saved, sorted by name; of several with the same name, the newest."""
        return files(self._store, self.id)

    def progress(self) -> list[Bar]:
        """Return its bars, the oldest first: how far each is, and how it ended."""
        return bars(self._store, self.id)

    def tries(self) -> list[Seen]:
        """Return its tries, the first one first; the last one's state is the run's."""
        return self._see(of_runs(self._store, [self.id]).get(self.id, []))

    def processes(self) -> list[Seen]:
        """Return its processes that log, the oldest first, each with its own state; `usage` also has the others."""
        rows = self._store.spans(SpanQuery(kind="process", prefix=prefix_below(self.id)))[::-1]
        return self._see([row for row in rows if not is_by_pid(row.id)])

    def usage(self) -> list[Use]:
        """Return what each of its processes used, as numpy arrays by resource; also processes that log nothing."""
        return use(self._store, self.id)

    def refused(self) -> dict[str, int]:
        """Return how many of its points were refused because of a limit, by the name of the setting."""
        return self._store.refusals(self.id)

    def skews(self) -> dict[str, float]:
        """Return by how many seconds the clocks of its hosts are ahead of the hub's, where that was measured."""
        return {row.origin.host: row.skew_s for row in self._store.origins([self.id]) if row.skew_s is not None}

    def _see(self, rows: list[SpanRow]) -> list[Seen]:
        heard = signs(self._store, [self.id]) if any(row.end_t is None for row in rows) else {}
        return [see(row, heard.get(row.id), self._now, self._lost_after_s) for row in rows]

    def __repr__(self) -> str:
        return f"<vedette run {self.name} ({self.id}): {self.state}>"

    def _repr_html_(self) -> str:
        from vedette.query.notebook import Grid, html

        facts = [
            ("project", self.project),
            ("state", self.state + (f": {self.cause}" if self.cause else "")),
            ("took", None if self.duration_s is None else f"{self.duration_s:.1f} s"),
            ("tags", ", ".join(self.tags)),
            ("notes", self.attrs.get("notes")),
        ]
        config = [[key[7:], value] for key, value in self.attrs.items() if key.startswith("config.")]
        series = [[row.label, row.count, row.last, row.min, row.max, row.last_step] for row in self.series()]
        grids = [
            Grid("config", ["key", "value"], config),
            Grid("series", ["name", "points", "last", "min", "max", "last step"], series),
        ]
        return html(f"{self.name} ({self.id})", facts, grids)


class RunList(list[RunView]):
    """Runs, as `vedette.runs` returns them: a list that can also be had as a table."""

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each run; raise MissingError when pandas is not installed.

        Its columns are name, state, cause, project, start, end and duration_s, and each key of the configs, each
        summary and the last value of each metric (`config.lr`, `summary.best`, `metric.loss`).
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingError("this needs pandas, which is not installed: pip install pandas") from None
        rows = []
        lasts = {run: {f"metric.{row.label}": row.last for row in rows} for run, rows in series_of(self).items()}
        for view in self:
            attrs = {key: value for key, value in view.attrs.items() if key.startswith(("config.", "summary."))}
            own = {
                "name": view.name, "state": view.state, "cause": view.cause, "project": view.project,
                "start": view.start_t, "end": view.end_t, "duration_s": view.duration_s,
            }  # fmt: skip
            rows.append(own | attrs | lasts.get(view.id, {}))
        columns = list(dict.fromkeys([*_COLUMNS, *(key for row in rows for key in row)]))
        frame = pd.DataFrame(rows, columns=columns, index=pd.Index([view.id for view in self], name="run"))
        for name in ("start", "end"):
            frame[name] = pd.to_datetime(frame[name].astype("Int64"), unit="ns", utc=True)
        return frame


_COLUMNS = ("name", "state", "cause", "project", "start", "end", "duration_s")


def series_of(views: Sequence[RunView]) -> dict[str, list[SeriesRow]]:
    """Return the series of many runs, by run id; each store is read once."""
    stores: dict[int, tuple[Reader, list[str]]] = {}
    for view in views:
        store = view._store  # noqa: SLF001 - RunView belongs to this module
        stores.setdefault(id(store), (store, []))[1].append(view.id)
    found: dict[str, list[SeriesRow]] = {}
    for store, runs in stores.values():
        for row in store.series(runs):
            found.setdefault(row.span, []).append(row)
    return found


def _nested(attrs: dict[str, Value], prefix: str) -> dict[str, Value]:
    """Return the keys below a prefix as a tree; a key below one that has a value stays dotted, beside that one."""
    flat = {key[len(prefix) :]: value for key, value in attrs.items() if key.startswith(prefix)}
    tree: dict[str, Value] = {}
    for key, value in flat.items():
        branch, above, leaf = tree, "", key
        while "." in leaf:
            part, _, rest = leaf.partition(".")
            above += part
            if above in flat:
                break
            branch, above, leaf = branch.setdefault(part, {}), above + ".", rest
        branch[leaf] = value
    return tree
