"""The list of runs, a page at a time."""

import time
from collections.abc import Sequence
from typing import Any

from vedette.asgi import Refusal
from vedette.labels import label
from vedette.query.overview import RunLine
from vedette.query.progress import Bar
from vedette.query.runs import RunView
from vedette.store import Reader
from vedette.views.text import for_json
from vedette.views.web.replies import ms
from vedette.views.web.routes import Request
from vedette.views.web.shapes import BarShape, Column, Row, RunsPage
from vedette.views.web.state import AppState, text_of
from vedette.wire import Newest

_MOST_COLUMNS = 200
_FIELDS = {"start_t", "end_t", "duration_s", "state", "name", "project", "experiment", "cause", "id"}


def runs(state: AppState, store: Reader, request: Request) -> RunsPage:
    """Return a page of the runs that match."""
    query = request.query
    cursor = state.listing.cursor()  # before anything is read: changes in between are then sent again
    changed = state.listing.changed(query["since"]) if query["since"] else None
    columns = list(dict.fromkeys(name for name in query["columns"].split(",") if name))
    if len(columns) > _MOST_COLUMNS:
        raise Refusal(400, f"columns names {len(columns)} columns: it takes {_MOST_COLUMNS} at most")
    found = state.listing.page(
        store, query["where"], query["project"], query["sort"] or "-start_t", group=query["group"],
        offset=query["offset"], limit=query["limit"], metric=query["metric"], only=changed,
        zone=query["zone"],
    )  # fmt: skip
    return RunsPage(
        found.total,
        cursor,
        changed is None,
        found.ids,
        rows_of(store, found.views, found.lines, columns, state.listing.fresh),
        [] if query["since"] else [Column(*one) for one in state.listing.columns(store, query["project"])],
    )


def rows_of(
    store: Reader, views: Sequence[RunView], lines: Sequence[RunLine], columns: Sequence[str] = (),
    fresh: Sequence[Newest] = (),
) -> list[Row]:  # fmt: skip
    """Return runs as rows of the API, with these columns; `fresh`: unsealed points."""
    metrics = any(name.startswith(("metric.", "summary.")) for name in columns)
    last = store.last_values([view.id for view in views]) if metrics and views else {}
    if metrics:
        _add_unsealed(store, last, {view.id for view in views}, fresh)
    return [
        row_of(view, line, {name: _value(view, line, name, last.get(view.id, {})) for name in columns})
        for view, line in zip(views, lines, strict=True)
    ]


def _add_unsealed(store: Reader, last: dict[str, dict[str, Any]], runs: set[str], fresh: Sequence[Newest]) -> None:
    """Replace sealed values by unsealed ones that are newer."""
    unsealed = {(point.span, label(point.name, point.tags)): point for point in fresh if point.span in runs}
    spans = sorted({span for span, _ in unsealed})
    sealed = {(row.span, row.label): row.last_t or 0 for row in store.series(spans)} if spans else {}
    for (span, name), point in unsealed.items():
        if point.t > sealed.get((span, name), 0):
            last.setdefault(span, {})[name] = point.value


def row_of(view: RunView, line: RunLine, values: dict[str, Any]) -> Row:
    """Return a run as a row of the API."""
    return Row(**row_fields(view, line, values))


def row_fields(view: RunView, line: RunLine, values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a row."""
    attrs = view.attrs
    return {
        "id": view.id, "name": view.name, "project": view.project, "experiment": text_of(attrs.get("experiment")),
        "state": view.state, "cause": view.cause, "alive": line.alive, "start_t": ms(view.start_t),
        "end_t": ms(view.end_t), "duration_s": view.duration_s, "silent_s": view.silent_s, "hosts": line.hosts,
        "tags": view.tags, "star": bool(attrs.get("star")), "description": text_of(attrs.get("description")),
        "bar": bar_of(line.bar) if line.bar is not None else None, "metric": line.metric,
        "trend": line.trend, "last": line.last, "line": line.line, "level": line.level,
        "values": values,
    }  # fmt: skip


def bar_of(bar: Bar) -> BarShape:
    """Return a bar as a struct of the API."""
    return BarShape(
        bar.id, bar.name, bar.done, bar.total, bar.fraction, bar.eta_s(time.time_ns()), bar.state, ms(bar.start_t),
        ms(bar.end_t),
    )  # fmt: skip


def _value(view: RunView, line: RunLine, name: str, last: dict[str, Any]) -> Any:
    if name in (line.metric, f"metric.{line.metric}"):
        return for_json(line.last)
    if name.startswith("metric."):
        return for_json(last.get(name[7:]))
    if name in view.attrs:
        return for_json(view.attrs[name])
    if name.startswith("summary."):
        return for_json(last.get(name[8:]))
    return None
