"""What the processes of a run used, as the hub measured it: CPU, memory, reads and writes, threads, GPUs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, structs

from vedette import command_line
from vedette.ids import is_by_pid, pid_and_start, prefix_below
from vedette.model import KINDS
from vedette.store import EventQuery, Points, Reader, SeriesRow, SpanQuery, SpanRow, joined
from vedette.wire import Newest

_ENDS = KINDS["process"].ends
_FAR_FUTURE = 1 << 62  # nanoseconds: in the year 2116
_SUMMED = ("cpu_percent", "memory_bytes", "gpu_memory_bytes")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vedette.query.runs import RunView

Curve: TypeAlias = "tuple[NDArray[np.int64], NDArray[Any]]"  # times in nanoseconds, and values


class Use(Struct, frozen=True, eq=False):
    """What one process used. `series`: one curve for each resource, sorted by time. With pid 0 it is a whole host."""

    process: str
    pid: int
    name: str
    host: str
    parent_pid: int
    start_t: int | None
    end_t: int | None
    series: dict[str, Curve]


def use(store: Reader, run: str, since_t: int | None = None) -> list[Use]:
    """Return what the processes of a run used, the oldest first; processes that were never measured are left out.

    A process that was measured before it began to log has two spans; it is returned once, under the span that it logs
    as. GPU memory is the sum over GPUs. `since_t`: return all these processes, but read only newer points.
    """
    rows = store.spans(SpanQuery(prefix=prefix_below(run)))
    ends = {row.id: row.end_t for row in rows if row.kind == "try"}
    processes = sorted((row for row in rows if row.kind == "process"), key=lambda row: (row.start_t or 0, row.id))
    own_spans = _own_spans(store, run, processes)
    curves: dict[str, dict[str, list[Points]]] = defaultdict(lambda: defaultdict(list))
    series = _series(store, [row.id for row in processes])
    points = _points(store, series, None if since_t is None else (since_t + 1, _FAR_FUTURE))
    for found in series:
        curves[own_spans.get(found.span, found.span)][found.name].append(points.get(found.id) or joined([]))
    return [_use(row, curves[row.id], ends) for row in processes if row.id in curves]


def _own_spans(store: Reader, run: str, processes: list[SpanRow]) -> dict[str, str]:
    """Map the span that the hub gave to a process to the span that the process logs as."""
    logging: dict[tuple[Any, Any, Any], str] = {
        (row.origin.host, row.origin.pid, row.origin.started): row.origin.process for row in store.origins([run])
    }
    known = {row.id for row in processes}
    found = {}
    for row in processes:
        if is_by_pid(row.id):
            _, started = pid_and_start(row.id) or (0, 0)
            key = row.attrs.get("host"), row.attrs.get("pid"), started
            own = logging.get(key)
            if own is not None and own in known:
                found[row.id] = own
    return found


def _series(store: Reader, spans: Sequence[str]) -> list[SeriesRow]:
    return store.series(spans) if spans else []


def _points(store: Reader, series: Sequence[SeriesRow], within: tuple[int, int] | None) -> dict[int, Points]:
    """Return the points of these series in a time range; series that end before it are not read."""
    wanted = [row.id for row in series if within is None or (row.last_t or 0) >= within[0]]
    return store.points(wanted, within) if wanted else {}


def _use(row: SpanRow, curves: Mapping[str, list[Points]], ends: Mapping[str, int | None]) -> Use:
    pid, parent = row.attrs.get("pid"), row.attrs.get("ppid")
    ended = row.end_t
    if ended is None and is_by_pid(row.id):  # the hub was not measuring when it ended
        ended = ends.get(row.parent)
    return Use(
        row.id,
        pid if isinstance(pid, int) else 0,
        _label(row),
        str(row.attrs.get("host", "")),
        parent if isinstance(parent, int) else 0,
        row.start_t,
        ended,
        {name: _add_up(parts) for name, parts in sorted(curves.items())},
    )


def _label(row: SpanRow) -> str:
    """Return a short name of a process: its program, or its script if the program is Python."""
    argv = row.attrs.get("argv")
    return command_line.label([str(word) for word in argv] if isinstance(argv, list) else []) or row.name


def _add_up(parts: list[Points]) -> Curve:
    """Make one curve of several, sorted by time; values of the same time are added."""
    import numpy as np

    t = np.concatenate([part.t for part in parts])
    value = np.concatenate([part.value.astype(np.float64) for part in parts])
    moments, at = np.unique(t, return_inverse=True)
    return moments, np.bincount(at, weights=value, minlength=len(moments))


def hosts(store: Reader, run: str, since_t: int | None = None) -> list[Use]:
    """Return what the hosts of a run used while it ran; each GPU has its own series, such as `gpu_percent gpu=0`.

    `since_t`: return all these hosts, but only newer points. A host may have months of points; only the points that
    are returned are read.
    """
    within = store.spans(SpanQuery(prefix=prefix_below(run), only=("host",)))
    names = {str(row.attrs.get("host")) for row in within if row.kind == "process"}
    begun = min((row.start_t for row in within if row.start_t is not None), default=0)
    ended = [row.end_t for row in within if row.kind == "try"]
    until = max((t for t in ended if t is not None), default=_FAR_FUTURE) if None not in ended else _FAR_FUTURE
    found = []
    for row in store.spans(SpanQuery(kind="host"))[::-1]:
        if row.name not in names:
            continue
        series = [one for one in _series(store, [row.id]) if (one.last_t or 0) >= begun]
        points = _points(store, series, (begun if since_t is None else max(begun, since_t + 1), until))
        curves = {_key(one): _add_up([points[one.id]]) for one in series if one.id in points and len(points[one.id])}
        if curves or (since_t is not None and any(_reaches(store, one, begun, until) for one in series)):
            found.append(Use(row.id, 0, row.name, row.name, 0, row.start_t, row.end_t, curves))
    return found


def _key(row: SeriesRow) -> str:
    return row.name + "".join(f" {tag}={text}" for tag, text in row.tags.items())


def _reaches(store: Reader, row: SeriesRow, begun: int, until: int) -> bool:
    """Tell whether a series may have points in a time range, without reading its chunks."""
    if begun <= (row.last_t or 0) <= until:
        return True
    return any(chunk.first_t <= until and chunk.last_t >= begun for chunk in store.outline(row.id))


def together(store: Reader, runs: "Sequence[RunView]") -> tuple[list[Use], list[Use], list[tuple[int, str]]]:
    """Return the processes, hosts and marks of several runs, to be drawn on one axis of time.

    The names of processes and marks tell their run, if there is more than one.
    """
    uses: list[Use] = []
    machines: dict[str, Use] = {}
    found: list[tuple[int, str]] = []
    for run in runs:
        label = f"{run.name or run.id}: " if len(runs) > 1 else ""
        uses += [structs.replace(one, name=f"{label}{one.name}") for one in use(store, run.id)]
        found += [(t, f"{label}{text}") for t, text in marks(store, run.id)]
        for one in hosts(store, run.id):
            known = machines.get(one.process)
            machines[one.process] = one if known is None else _united(known, one)
    return uses, list(machines.values()), sorted(found)


def _united(one: Use, other: Use) -> Use:
    """Return one host with the points of two looks at it, each point once."""
    import numpy as np

    series = dict(one.series)
    for name, (t, value) in other.series.items():
        if name in series:
            both, at = np.unique(np.concatenate([series[name][0], t]), return_index=True)
            series[name] = both, np.concatenate([series[name][1], value])[at]
        else:
            series[name] = t, value
    return structs.replace(one, series=series)


def marks(store: Reader, run: str) -> list[tuple[int, str]]:
    """Return the time and the text of each mark of a run, the oldest first."""
    found = []
    for event in store.events(EventQuery(run, kinds=("mark",))):
        labels = event.attrs.get("labels")
        text = ", ".join(str(label) for label in labels) if isinstance(labels, list) and not event.text else event.text
        found.append((event.t, text))
    return sorted(found)


def latest(store: Reader, runs: Sequence[str], fresh: Iterable[Newest] = ()) -> dict[str, dict[str, float]]:
    """Return what the live processes of each run use now: the sums of their newest values.

    `fresh`: points that are not sealed yet. A run without live processes or measurements is left out.
    `gpu_percent` is the sum over the GPUs on which its processes have memory: 100 is one GPU.
    """
    living = {row.id: (run, str(row.attrs.get("host", ""))) for run in runs for row in _living(store, run)}
    at_hosts = {row.id: row.name for row in store.spans(SpanQuery(kind="host", only=()))}
    newest: dict[tuple[str, str, str], tuple[int, float]] = {}  # by span, name and GPU
    wanted = [*living, *at_hosts]
    stored = ((row.span, row.name, row.tags, row.last_t, row.last) for row in _series(store, wanted))
    unsealed = ((point.span, point.name, point.tags, point.t, point.value) for point in fresh)
    for span, name, tags, t, value in (*stored, *unsealed):
        if t is None or value is None or (span not in living and span not in at_hosts):
            continue
        key = span, name, tags.get("gpu", "")
        if key not in newest or newest[key][0] <= t:
            newest[key] = t, float(value)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    gpus: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for (span, name, gpu), (_, value) in newest.items():
        if span in living and name in _SUMMED:
            run, host = living[span]
            sums[run][name] += value
            if gpu:
                gpus[run].add((host, gpu))
    for (span, name, gpu), (_, value) in newest.items():
        if name == "gpu_percent" and span in at_hosts:
            for run, used in gpus.items():
                if (at_hosts[span], gpu) in used:
                    sums[run][name] += value
    return {run: dict(values) for run, values in sums.items()}


def _living(store: Reader, run: str) -> list[SpanRow]:
    rows = store.spans(SpanQuery(prefix=prefix_below(run), only=("host",)))
    over = {row.id for row in rows if row.kind == "try" and row.end_t is not None}
    return [row for row in rows if row.kind == "process" and row.state not in _ENDS and row.parent not in over]


def why_none(store: Reader, run: str) -> str:
    """Return a message that says why a run was not measured, and what to do."""
    if any(row.name == "cpu_percent" for row in _series(store, [run])):
        return (
            f"run {run} was recorded by a monitor, so its usage is in its series:"
            f" `vedette points {run} cpu_percent` shows them"
        )
    rows = [row for row in store.spans(SpanQuery(prefix=prefix_below(run))) if row.kind == "process"]
    if not rows:
        return f"run {run} has no process yet, so there is nothing to measure: look again when it has begun"
    intervals = [row.attrs.get("usage_s") for row in rows if not is_by_pid(row.id)]
    if not any(intervals):
        return (
            f"run {run} was not measured, since its usage is off: init(usage=True), or usage.enable = true in"
            " vedette.toml, turns it on for the next run"
        )
    return (
        f"run {run} was not measured: it ended before the hub could measure it, or no hub was running;"
        " `vedette doctor` shows the state of the hub"
    )
