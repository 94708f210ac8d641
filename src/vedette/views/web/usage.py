"""What the processes and hosts of a run used, drawn to fit."""

import numpy as np
from msgspec import Struct

from vedette.query import usage as used
from vedette.query.downsample import downsample
from vedette.query.runs import find
from vedette.store import Reader
from vedette.views.web.replies import ms
from vedette.views.web.room import Room
from vedette.views.web.routes import Asked
from vedette.views.web.shapes import MarkShape

_MOST_PROCESSES = 500


class CurveShape(Struct, frozen=True):
    """Times in milliseconds, and values."""

    t: list[float]
    value: list[float]


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
    """What a run used; `hidden`: processes more than are told."""

    processes: list[UseShape]
    hosts: list[UseShape]
    marks: list[MarkShape]
    hidden: int


def usage(room: Room, store: Reader, asked: Asked) -> Usage:  # noqa: ARG001
    """Return what a run used."""
    run = find(store, asked.path["run"]).id
    width, since_t = asked.query["width"], asked.query["since_t"]
    processes = used.use(store, run)
    return Usage(
        [_shape(use, width, since_t) for use in processes[:_MOST_PROCESSES]],
        [_shape(use, width, since_t) for use in used.hosts(store, run)],
        [MarkShape(t / 1e6, text) for t, text in used.marks(store, run)],
        max(0, len(processes) - _MOST_PROCESSES),
    )


def _shape(use: used.Use, width: int, since_t: float | None) -> UseShape:
    series = {}
    for name, (times, values) in use.series.items():
        t, value = times / 1e6, values.astype(np.float64)
        if since_t is not None:
            new = t > since_t
            t, value = t[new], value[new]
        t, value = downsample(t, value, width)
        series[name] = CurveShape(t.tolist(), value.tolist())
    return UseShape(
        use.process, use.pid, use.parent_pid, use.name, use.host, ms(use.start_t), ms(use.end_t), series
    )  # fmt: skip
