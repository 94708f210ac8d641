"""Runs as a long list: filtered, sorted and cut into pages, fast enough for ten thousand runs.

Two caches make it fast. The order of a list is read again only when something has changed, and what was read about a
run is kept until the hub reports a change.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from vedette.errors import NotFoundError
from vedette.ids import is_top, new_id, run_of
from vedette.model import PURGED
from vedette.query import statistics
from vedette.query.conditions import for_store
from vedette.query.finding import Family
from vedette.query.overview import Known, RunLine, Trails, condition, forget, lines_of
from vedette.query.runs import RunView
from vedette.query.silence import LOST_AFTER_S
from vedette.query.where import FAMILIES
from vedette.store import Both, Compare, Not, Reader, SpanQuery, Where
from vedette.wire import Change, Newest

_SORTS = {"start_t": "start", "end_t": "end", "duration_s": "duration", "hosts": "host", "star": "star"}
_PLAIN = ("id", "name", "state", "cause", "project", "experiment", "start", "end", "duration", "host", "star", "script")
_MOST_ORDERS = 32
_MOST_KNOWN = 500  # runs: a few kilobytes each, and a page shows 200 of them at once
_MOST_CHANGES = 5000
_FRESH_S = 1.0  # while runs keep changing, the order of a list is read at most this often
_UNCHANGED_S = 30.0  # while nothing changes, it is read at most this often
_COLUMNS_S = 10.0
_COLUMNS_OF = 1000  # columns are offered from this many of the newest runs
_MOST_COLUMNS = 500


class Listed(Struct, frozen=True):
    """A page of a list."""

    total: int
    ids: list[str]  # of this page
    views: list[RunView]
    lines: list[RunLine]


class _Order(Struct):
    ids: list[str]
    stamp: int
    at: float


class Listing:
    """Lists runs for any number of readers; thread-safe."""

    def __init__(self, lost_after_s: float = LOST_AFTER_S, trails: Trails | None = None) -> None:
        """`trails`: those of another list of the same home, which are then collected once."""
        self._lost_after_s = lost_after_s
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._known: OrderedDict[str, Known] = OrderedDict()  # those that were looked at last come last
        self._orders: OrderedDict[tuple[str, str, tuple[str, ...], str, str], _Order] = OrderedDict()
        self._columns: dict[tuple[str, str], tuple[float, list[tuple[str, int]]]] = {}
        self._statistics: statistics.Known = {}
        self._epoch = new_id(6)
        self._seq = 0
        self._changes: deque[tuple[int, str]] = deque(maxlen=_MOST_CHANGES)
        self._floor = 0  # changes before this number are forgotten
        self._following = False  # a hub reports changes, or there is no hub
        self.trails = trails or Trails()
        self.fresh: list[Newest] = []

    def take(self, change: Change, fresh: Iterable[str] = ()) -> None:
        """Note what has changed; `fresh`: runs with points that are not in the store yet."""
        with self._lock:
            self._following = True
            self._seq += 1
            if change.missed:
                self._known.clear()
                self._changes.clear()
                self._floor = self._seq
                return
            forget(self._known, change)
            touched = {run_of(span) for span in (*change.spans, *change.events, *change.points)}
            for run in (*touched, *fresh):
                if len(self._changes) == _MOST_CHANGES:
                    self._floor = self._changes[0][0]
                self._changes.append((self._seq, run))

    def rest(self) -> None:
        """Trust the caches: no hub runs, so nothing changes. A new hub reports `missed` first, which clears them."""
        self._following = True

    def lose_touch(self) -> None:
        """Stop trusting the caches: the connection to the hub is lost, and changes are not reported."""
        with self._lock:
            self._following = False
            self._seq += 1
            self._floor = self._seq
            self._known.clear()

    def cursor(self) -> str:
        """Return a cursor that stands for now, for `changed`."""
        return f"{self._epoch}-{self._seq}"

    def changed(self, cursor: str) -> set[str] | None:
        """Return the runs that may have changed since a cursor; None when any run may have changed."""
        epoch, _, seq = cursor.partition("-")
        with self._lock:
            if epoch != self._epoch or not _is_number(seq) or int(seq) < self._floor or not self._following:
                return None
            return {run for at, run in self._changes if at > int(seq)}

    def page(
        self, store: Reader, where: str = "", project: str = "", sort: str = "-start_t", *, group: str = "",
        offset: int = 0, limit: int = 200, metric: str = "", only: set[str] | None = None, zone: str = "",
        among: str = "",
    ) -> Listed:  # fmt: skip
        """Return a page of the runs that match. `group`: sort by this field first; `only`: give lines of these only.

        `zone`: of dates in `where` that name none. `among`: a name of the part of the home that the reader sees, if it
        does not see all of it: what is cached for one part is not for another.
        """
        order = tuple(_order(field) for field in (group, sort) if field)
        ids = self._ids(store, where, project, order, zone, among)
        shown = ids[offset : offset + limit]
        wanted = shown if only is None else [run for run in shown if run in only]
        views, lines = self.look(store, wanted, metric)
        return Listed(len(ids), shown, views, lines)

    def matching(self, store: Reader, where: str, project: str = "", zone: str = "") -> list[str]:
        """Return the ids of all runs that match, the newest first; `zone` is as for `page`."""
        return self._ids(store, where, project, ("-start",), zone, "")

    def look(self, store: Reader, runs: Sequence[str], metric: str = "") -> tuple[list[RunView], list[RunLine]]:
        """Return runs by their ids, in this order; runs that do not exist any more are left out."""
        if not runs:
            return [], []
        found = {row.id: row for row in store.spans(SpanQuery(kind="run", ids=tuple(runs)))}
        rows = [found[run] for run in runs if run in found]
        with self._lock:
            if not self._following:
                self._known.clear()
            known = {}
            for row in rows:
                known[row.id] = self._known.setdefault(row.id, Known())
                self._known.move_to_end(row.id)
            while len(self._known) > max(_MOST_KNOWN, len(known)):
                self._known.popitem(last=False)
            fresh = [point for point in self.fresh if point.span in known]
        with self._reading:  # two threads that fill the same `Known` at once would see half-read runs
            return lines_of(
                store, rows, metric=metric, fresh=fresh, trails=self.trails, known=known,
                lost_after_s=self._lost_after_s,
            )  # fmt: skip

    def look_at(self, store: Reader, runs: Sequence[str]) -> tuple[list[RunView], list[RunLine]]:
        """Return each of these runs; raise NotFoundError when one does not exist any more."""
        views, lines = self.look(store, runs)
        if len(views) < len(runs):
            raise NotFoundError("a run was removed for good just now")
        return views, lines

    def columns(self, store: Reader, project: str = "", among: str = "") -> list[tuple[str, int]]:
        """Return the columns of the newest runs (config, summary, tags, metrics), and how many runs have each.

        `among` is as for `page`.
        """
        with self._lock:
            cached = self._columns.get((project, among))
        if cached is not None and time.monotonic() - cached[0] < _COLUMNS_S:
            return cached[1]
        found = store.columns(_where(None, project), _COLUMNS_OF)[:_MOST_COLUMNS]
        with self._lock:
            if len(self._columns) > _MOST_ORDERS:
                self._columns.clear()
            self._columns[project, among] = time.monotonic(), found
        return found

    def _ids(self, store: Reader, where: str, project: str, order: tuple[str, ...], zone: str, among: str) -> list[str]:
        key = where, project, order, zone, among
        now = time.monotonic()
        with self._lock:
            cached, stamp, following = self._orders.get(key), self._seq, self._following
        is_current = cached is not None and following and cached.stamp == stamp
        if cached is not None and now - cached.at < (_UNCHANGED_S if is_current else _FRESH_S):
            return cached.ids
        asked = condition(where, zone)
        fits = None if asked is None else for_store(store, asked, None, self._lost_after_s, self._statistics)
        query = SpanQuery(kind="run", where=_where(fits, project), only=(), order=order)
        family = Family(store)
        ids = [row.id for row in store.each_span(query) if (not row.parent and is_top(row.id)) or not family.hides(row)]
        with self._lock:
            self._orders[key] = _Order(ids, stamp, now)
            self._orders.move_to_end(key)
            while len(self._orders) > _MOST_ORDERS:
                self._orders.popitem(last=False)
        return ids


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _where(asked: Where | None, project: str) -> Where:
    parts: list[Where] = [Not(Compare("removed", "=", True)), Not(Compare("state", "=", PURGED))]
    if asked is not None:
        parts.append(asked)
    if project:
        parts.append(Compare("project", "=", project))
    return Both(tuple(parts))


def _order(sort: str) -> str:
    """Return the field to sort by, under its name in the store; an unknown field is an attribute."""
    falling, field = sort.startswith("-"), sort.removeprefix("-")
    field = _SORTS.get(field, field)
    known = field in _PLAIN or field.startswith(FAMILIES)
    return ("-" if falling else "") + (field if known or field else "start")
