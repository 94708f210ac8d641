"""The structs that the API answers with. Times are milliseconds since 1970; None means unknown.

web/src/lib/api.gen.ts is made from these: after a change run `npm run types` in web/, or a test fails.
"""

from typing import Any, Literal

from msgspec import Struct

Number = int | float | Literal["nan", "inf", "-inf"] | None  # JSON has no NaN or infinity, so they are text


class SharedPart(Struct, frozen=True):
    """What a link shows, in some words; its page; and when it expires."""

    what: str
    path: str
    end_t: float


class About(Struct, frozen=True):
    """What is served, and how; `shared`: the links that the reader came by, none for the owner."""

    version: str
    read_only: bool
    hub: bool
    home: str
    project: str  # the one to show first
    projects: list[str]
    now_t: float
    shared: list[SharedPart]


class BarShape(Struct, frozen=True):
    """A progress bar."""

    id: str
    msg: str
    done: float
    total: float | None
    fraction: float | None
    eta_s: float | None
    state: str
    start_t: float | None
    end_t: float | None


class Row(Struct, frozen=True, kw_only=True):
    """A run, as a row of the list."""

    id: str
    name: str
    project: str
    experiment: str
    state: str
    cause: str
    alive: bool
    start_t: float | None
    end_t: float | None
    duration_s: float | None
    silent_s: float | None
    hosts: list[str]
    tags: list[str]
    star: bool
    description: str
    bar: BarShape | None
    metric: str
    trend: list[float | None]  # means over the whole curve of the metric; None: not a finite number
    last: float | None
    line: str
    level: int
    values: dict[str, Any]


class Column(Struct, frozen=True):
    """A column that the list can show, and how many of the newest runs have a value in it."""

    name: str
    count: int


class RunsPage(Struct, frozen=True):
    """A page of the runs that match. With `since`, `rows` has only those of `ids` that may have changed."""

    total: int
    cursor: str
    whole: bool
    ids: list[str]
    rows: list[Row]
    columns: list[Column]


class TryShape(Struct, frozen=True):
    """One try of a run."""

    id: str
    n: int
    state: str
    cause: str
    start_t: float | None
    end_t: float | None


class ProcessShape(Struct, frozen=True):
    """A process of a run; `speaks`: it has logged something itself."""

    id: str
    name: str
    pid: int
    parent_pid: int
    host: str
    state: str
    cause: str
    start_t: float | None
    end_t: float | None
    argv: list[str]
    speaks: bool


class SeriesShape(Struct, frozen=True):
    """A series, and its newest point."""

    name: str
    tags: dict[str, str]
    count: int
    min: float | None
    max: float | None
    last: float | None
    last_step: int | None
    last_t: float | None


class FileShape(Struct, frozen=True):
    """A file of a run."""

    name: str
    digest: str
    size: int
    media: str
    t: float


class MarkShape(Struct, frozen=True):
    """A mark: a moment that the run named."""

    t: float
    text: str


class QuestionShape(Struct, frozen=True):
    """A question that waits for an answer."""

    id: str
    prompt: str
    password: bool
    t: float


class OneRun(Row, frozen=True, kw_only=True):
    """One run with all its details."""

    config: dict[str, Any]
    summary: dict[str, Any]
    attrs: dict[str, Any]
    notes: str
    argv: list[str]
    cwd: str
    git: dict[str, Any]
    host_info: dict[str, Any]
    tries: list[TryShape]
    processes: list[ProcessShape]
    bars: list[BarShape]
    series: list[SeriesShape]
    files: list[FileShape]
    marks: list[MarkShape]
    questions: list[QuestionShape]
    refused: dict[str, int]


class Fault(Struct, frozen=True):
    """Why a request was not answered."""

    error: str
