"""What the processes and hosts of a run used, downsampled to the width of a chart."""

import numpy as np
from msgspec import Struct

from vedette.query import usage as used
from vedette.query.downsample import downsample
from vedette.query.finding import find
from vedette.store import Reader
from vedette.views.web.replies import ms
from vedette.views.web.routes import MOST_T, Request
from vedette.views.web.shapes import MarkShape
from vedette.views.web.state import AppState

_MOST_PROCESSES = 500


class CurveShape(Struct, frozen=True):
    """Times in milliseconds, and values; None: not a finite number."""

    t: list[float]
    value: list[float | None]


class UseShape(Struct, frozen=True):
    """What one process, or one host, used."""

    process: str
    pid: int
    parent_pid: int
    name: str
    host: str
    start_t: float | None
    end_t: float | None
    series: dict[str, CurveShape]


class Usage(Struct, frozen=True):
    """What a run used; `hidden`: how many processes are left out."""

    processes: list[UseShape]
    hosts: list[UseShape]
    marks: list[MarkShape]
    hidden: int


def usage(state: AppState, store: Reader, request: Request) -> Usage:  # noqa: ARG001
    """Return what a run used."""
    run = find(store, request.path["run"]).id
    width, since_t = request.query["width"], _nanoseconds(request.query["since_t"])
    processes = used.use(store, run, since_t)
    return Usage(
        [_shape(use, width) for use in processes[:_MOST_PROCESSES]],
        [_shape(use, width) for use in used.hosts(store, run, since_t)],
        [MarkShape(t / 1e6, text) for t, text in used.marks(store, run)],
        max(0, len(processes) - _MOST_PROCESSES),
    )


def _nanoseconds(t: float | None) -> int | None:
    """Return a time of an earlier answer in nanoseconds; points are stored to the microsecond."""
    return None if t is None else round(min(t, MOST_T) * 1e3) * 1000


def _shape(use: used.Use, width: int) -> UseShape:
    series = {}
    for name, (times, values) in use.series.items():
        t, value = downsample(times / 1e6, values.astype(np.float64), width)
        series[name] = CurveShape(t.tolist(), value.tolist())
    return UseShape(
        use.process, use.pid, use.parent_pid, use.name, use.host, ms(use.start_t), ms(use.end_t), series
    )  # fmt: skip
