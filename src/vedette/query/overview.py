"""Everything at a glance: one line for each run and each host of a home, as `vedette top` shows them."""

import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from vedette.ids import above, prefix_below
from vedette.model import PURGED
from vedette.query import progress, trend, usage
from vedette.query.conditions import for_store
from vedette.query.finding import Family
from vedette.query.progress import Bar
from vedette.query.runs import RunView
from vedette.query.silence import LOST, LOST_AFTER_S, signs
from vedette.query.where import FAMILIES, check_conditions, check_length, parse
from vedette.store import (
    Both,
    Compare,
    Either,
    EventQuery,
    Not,
    OriginRow,
    Reader,
    SpanQuery,
    SpanRow,
    Where,
)
from vedette.wire import Change, Health, Newest

MOST_ENDED = 200  # runs that ended longer ago than RECENT_S, where they are wanted at all
RECENT_S = 600.0  # a run that ended less than this ago is shown with the live ones
_MISSED_S = 3600.0  # a host that has a live run, and was heard from less than this ago, is shown
_TRAIL = 256  # points of a trail
_LINE_KINDS = ("log", "output", "warning", "exception", "mark")
_MOST_CHARS = 500  # characters of a line
_OPERATOR = re.compile(r"[=<>~()]")
_SHOWN = Both((Not(Compare("removed", "=", True)), Not(Compare("state", "=", PURGED))))


class RunLine(Struct, frozen=True):
    """One run as a line of the list. A field is None when its value is not known."""

    id: str
    name: str
    project: str
    state: str
    cause: str
    alive: bool
    hosts: list[str]
    processes: int  # live ones
    start_t: int | None
    end_t: int | None
    duration_s: float | None
    silent_s: float | None
    bar: Bar | None  # the outermost one that is running, else the newest
    metric: str
    metrics: list[str]
    trend: list[float]  # the whole curve of that metric
    last: float | None
    cpu_percent: float | None
    memory_bytes: float | None
    gpu_percent: float | None
    gpu_memory_bytes: float | None
    line: str
    level: int


class HostLine(Struct, frozen=True):
    """One host as a line of the list. A field is None when its value is not known."""

    name: str
    runs: int  # live ones
    processes: int
    cpus: int | None
    cpu_percent: float | None
    memory_bytes: float | None
    memory_total_bytes: float | None
    gpus: dict[str, dict[str, float]]  # by GPU: gpu_percent, gpu_memory_bytes, gpu_power_w, gpu_temperature_c
    skew_s: float | None
    link: str  # "here", "linked", "cut" (it should be linked, and is not), or "" when that is not known
    silent_s: float | None


class Overview(Struct, frozen=True):
    """All lines: the live runs first, then the ended ones, the newest first."""

    runs: list[RunLine]
    hosts: list[HostLine]
    alive: int
    ended: int  # how many ended runs are shown
    is_new: bool = False  # this home has never had a run


class Sealed(NamedTuple):
    """A series of a run, and its newest value in the store."""

    number: int
    last: float | int | None


class Known(Struct):
    """A cache of what was read about one run; `stale` names the parts that have changed since."""

    bar: Bar | None = None
    line: str = ""
    level: int = 0
    series: dict[str, Sealed] = {}  # by name
    trends: dict[str, trend.Stretches] = {}
    hosts: list[str] = []
    processes: dict[str, int] = {}  # the number of live processes, by host
    stale: set[str] = field(default_factory=lambda: {"spans", "events", "points"})


def forget(known: Mapping[str, Known], change: Change) -> None:
    """Mark the parts that have changed as stale, so that they are read again."""
    for what in ("spans", "events", "points"):
        for span in getattr(change, what):
            for name in above(span):
                if (about := known.get(name)) is not None and (what != "points" or name == span):
                    about.stale.add(what)


class Trails:
    """The newest points of some series, collected from the hub before they are sealed."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def watch(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Collect points of these (span, name) only."""
        self._points = {key: self._points.get(key, []) for key in wanted}

    def take(self, points: Iterable[Newest]) -> None:
        """Add the points that are the newest now."""
        for point in points:
            trail = self._points.get((point.span, point.name)) if not point.tags else None
            if trail is not None and (not trail or trail[-1][0] < point.t):
                trail.append((point.t, float(point.value)))
                del trail[:-_TRAIL]

    def after(self, span: str, name: str, t: int) -> list[tuple[int, float]]:
        """Return the points that are later than a time."""
        return [point for point in self._points.get((span, name), []) if point[0] > t]


def condition(text: str, zone: str = "") -> Where | None:
    """Parse a filter: an expression, or words that each occur in name, project or id; raise WhereError on a mistake.

    `zone`: of dates that name none; without it, that of this machine.
    """
    check_length(text)
    words = text.split()
    if not words:
        return None
    if _OPERATOR.search(text) or any(word.startswith(FAMILIES) for word in words):
        return parse(text, zone)
    fields = ("name", "project", "id")
    check_conditions(len(words) * len(fields))
    return Both(tuple(Either(tuple(Compare(field, "~", word) for field in fields)) for word in words))


def overview(
    store: Reader,
    where: str = "",
    *,
    ended: int = 0,
    metric: str = "",
    fresh: Sequence[Newest] = (),
    trails: Trails | None = None,
    health: Health | None = None,
    here: str = "",
    known: dict[str, Known] | None = None,
    now: int | None = None,
    lost_after_s: float = LOST_AFTER_S,
) -> Overview:
    """Return the runs that match `where` and are alive or ended recently, and the `ended` newest of the others.

    `metric`: the series to show, if the run has it. `fresh`: points that are not sealed yet; `trails`: earlier ones.
    `health`: of the hub, which runs on the host `here`. `known`: a cache from earlier calls, which keeps
    only the runs of this call; the caller calls `forget` for each change.
    """
    now = time.time_ns() if now is None else now
    known = {} if known is None else known
    asked = condition(where)
    rows = _rows(store, asked and for_store(store, asked, now, lost_after_s), ended, now)
    fitting = {row.id for row in rows}
    if where:  # a host's line counts all its runs, also those that the filter hides
        rows += [row for row in _rows(store, None, 0, now) if row.id not in fitting]
    for row in rows:
        known.setdefault(row.id, Known())
    for run in known.keys() - {row.id for row in rows}:
        del known[run]
    open_ones = [row.id for row in rows if row.end_t is None]
    origins = store.origins(open_ones) if open_ones else []
    used = usage.latest(store, open_ones, fresh) if open_ones else {}
    _, lines = lines_of(
        store, rows, known=known, metric=metric, fresh=fresh, trails=trails, used=used, now=now,
        lost_after_s=lost_after_s,
    )  # fmt: skip
    hosts = _hosts(store, lines, known, origins, fresh, health, here, now)
    shown = [line for line in lines if line.id in fitting]
    shown.sort(key=lambda line: not line.alive)  # a stable sort: within each part the newest stays first
    alive = sum(line.alive for line in shown)
    is_new = not lines and not store.spans(SpanQuery(kind="run", limit=1, only=()))
    return Overview(shown, hosts, alive, len(shown) - alive, is_new)


def lines_of(
    store: Reader,
    rows: Sequence[SpanRow],
    *,
    known: Mapping[str, Known],
    metric: str = "",
    fresh: Sequence[Newest] = (),
    trails: Trails | None = None,
    used: Mapping[str, Mapping[str, float]] | None = None,
    now: int | None = None,
    lost_after_s: float = LOST_AFTER_S,
) -> tuple[list[RunView], list[RunLine]]:
    """Return a view and a line of each of these runs; `known` has an entry for each.

    `used`: what each run uses now, as `usage.latest` returns it; without it the lines have no usage.
    """
    now = time.time_ns() if now is None else now
    open_ones = [row.id for row in rows if row.end_t is None]
    heard = signs(store, open_ones) if open_ones else {}
    unsealed: dict[str, dict[str, Newest]] = defaultdict(dict)
    for point in fresh:
        if not point.tags:
            unsealed[point.span][point.name] = point
    views, lines = [], []
    for row in rows:
        about = known[row.id]
        if about.stale:
            _read(store, row.id, about)
        view = RunView(store, row, heard.get(row.id), now=now, lost_after_s=lost_after_s)
        views.append(view)
        lines.append(_line(store, view, about, metric, unsealed.get(row.id, {}), trails, (used or {}).get(row.id, {})))
    return views, lines


def _rows(store: Reader, where: Where | None, ended: int, now: int) -> list[SpanRow]:
    fits: tuple[Where, ...] = (_SHOWN,) if where is None else (_SHOWN, where)
    current = Either((Compare("end", "=", None), Compare("end", ">", now / 1e9 - RECENT_S)))
    only = ("project",)
    rows = store.spans(SpanQuery(kind="run", where=Both((current, *fits)), only=only))
    if ended:
        found = store.spans(
            SpanQuery(kind="run", where=Both((Not(Compare("end", "=", None)), *fits)), limit=ended, only=only)
        )
        shown = {row.id for row in rows}
        rows = [*rows, *(row for row in found if row.id not in shown)]
        rows.sort(key=lambda row: (row.start_t or 0, row.id), reverse=True)
    family = Family(store)
    return [row for row in rows if not family.hides(row)]


def _read(store: Reader, run: str, about: Known) -> None:
    stale, about.stale = about.stale, set()  # before reading: a change during the read makes it stale again
    if "spans" in stale:
        bars = progress.bars(store, run)
        about.bar = progress.outermost(bars) or (bars[-1] if bars else None)
        processes = [
            (row, str(row.attrs.get("host") or ""))
            for row in store.spans(SpanQuery(kind="process", prefix=prefix_below(run), only=("host",)))
        ]
        about.hosts = list(dict.fromkeys(host for _, host in reversed(processes) if host))
        about.processes = Counter(host for row, host in processes if row.end_t is None)
    if "events" in stale:
        lines = store.events(EventQuery(run, kinds=_LINE_KINDS, last=1))
        about.line, about.level = (lines[-1].text[:_MOST_CHARS], lines[-1].level) if lines else ("", 0)
    if "points" in stale:
        # A thousand runs have the same names: they are held once.
        about.series = {sys.intern(one.name): Sealed(one.id, one.last) for one in store.series([run]) if not one.tags}
        about.trends = {}


def _line(
    store: Reader,
    view: RunView,
    about: Known,
    metric: str,
    unsealed: Mapping[str, Newest],
    trails: Trails | None,
    used: Mapping[str, float],
) -> RunLine:
    stored = about.series
    metrics = [*stored, *(name for name in unsealed if name not in stored)]
    chosen = _choose(metrics, metric)
    if chosen in stored and chosen not in about.trends:
        about.trends[chosen] = trend.whole(store, stored[chosen].number)
    stretches = about.trends.get(chosen, trend.NONE)
    sealed_t = int(stretches.t.max()) if len(stretches) else 0
    later = trails.after(view.id, chosen, sealed_t) if trails is not None else []
    newest = unsealed.get(chosen)
    if newest is not None and newest.t > max((t for t, _ in later), default=sealed_t):
        later.append((newest.t, float(newest.value)))
    sealed = stored[chosen].last if chosen in stored else None
    alive = view.end_t is None and view.state != LOST
    return RunLine(
        id=view.id,
        name=view.name,
        project=view.project,
        state=view.state,
        cause=view.cause,
        alive=alive,
        hosts=about.hosts,
        processes=sum(about.processes.values()) if view.end_t is None else 0,
        start_t=view.start_t,
        end_t=view.end_t,
        duration_s=view.duration_s,
        silent_s=view.silent_s,
        bar=about.bar,
        metric=chosen,
        metrics=sorted(metrics),
        trend=trend.cells(stretches, later),
        last=later[-1][1] if later else None if sealed is None else float(sealed),
        cpu_percent=used.get("cpu_percent"),
        memory_bytes=used.get("memory_bytes"),
        gpu_percent=used.get("gpu_percent"),
        gpu_memory_bytes=used.get("gpu_memory_bytes"),
        line=about.line,
        level=about.level,
    )


def _choose(metrics: Sequence[str], wanted: str) -> str:
    """Return the series to show: the wanted one, else a loss, else the first one."""
    if wanted in metrics:
        return wanted
    losses = sorted((name for name in metrics if "loss" in name.lower()), key=lambda name: (name != "loss", len(name)))
    return losses[0] if losses else metrics[0] if metrics else ""


def _hosts(
    store: Reader,
    lines: Sequence[RunLine],
    known: Mapping[str, Known],
    origins: Sequence[OriginRow],
    fresh: Sequence[Newest],
    health: Health | None,
    here: str,
    now: int,
) -> list[HostLine]:
    """Return this host, the linked hosts, and those that have live runs."""
    linked = dict(health.links) if health is not None else {}
    alive = {line.id for line in lines if line.alive}
    runs: dict[str, set[str]] = defaultdict(set)
    processes: dict[str, int] = defaultdict(int)
    heard: dict[str, int] = defaultdict(int)
    skews: dict[str, float] = {}
    for row in origins:
        origin = row.origin
        heard[origin.host] = max(heard[origin.host], row.heard_t)
        if row.skew_s is not None:
            skews[origin.host] = row.skew_s
        if origin.span in alive:
            runs[origin.host].add(origin.span)
        elif now - row.heard_t < _MISSED_S * 10**9:
            runs[origin.host]  # an empty entry: the host is listed, with 0 runs
    for run in alive:
        for host, count in known[run].processes.items():
            processes[host] += count
    spans: dict[str, SpanRow] = {}
    for span in reversed(store.spans(SpanQuery(kind="host"))):
        spans[span.name] = span  # the newest boot
    names = [name for name in dict.fromkeys([here, *linked, *runs]) if name and (name in spans or name in runs)]
    numbers = _numbers(store, [spans[name].id for name in names if name in spans], fresh)
    found = []
    for name in names:
        attrs: Mapping[str, Any] = spans[name].attrs if name in spans else {}
        values = numbers.get(spans[name].id, {}) if name in spans else {}
        plain = values.get("", {})
        link = "here" if name == here else "linked" if name in linked else "cut" if health is not None else ""
        found.append(
            HostLine(
                name=name,
                runs=len(runs[name]),
                processes=processes[name],
                cpus=attrs.get("cpus"),
                cpu_percent=plain.get("cpu_percent"),
                memory_bytes=plain.get("memory_bytes"),
                memory_total_bytes=attrs.get("memory_bytes"),
                gpus={gpu: numbers_of for gpu, numbers_of in sorted(values.items()) if gpu},
                skew_s=linked.get(name) if linked.get(name) is not None else skews.get(name),
                link=link,
                silent_s=max(0, now - heard[name]) / 1e9 if heard[name] else None,
            )
        )
    return found


def _numbers(store: Reader, spans: Sequence[str], fresh: Sequence[Newest]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the newest values of spans, by GPU ("" for values that belong to no GPU) and name."""
    found: dict[str, dict[str, dict[str, float]]] = {span: defaultdict(dict) for span in spans}
    for row in store.series(spans) if spans else []:
        if row.last is not None:
            found[row.span][row.tags.get("gpu", "")][row.name] = float(row.last)
    for point in fresh:
        if point.span in found:
            found[point.span][point.tags.get("gpu", "")][point.name] = float(point.value)
    return found
