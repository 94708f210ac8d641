"""One run, with everything but its points and lines."""

from typing import Any

from vedette.ids import is_by_pid, prefix_below
from vedette.query import questions, usage
from vedette.query.files import files as files_of
from vedette.query.finding import find
from vedette.query.runs import RunView
from vedette.query.silence import Seen
from vedette.store import Reader, SpanQuery
from vedette.views.text import for_json
from vedette.views.web.replies import ms
from vedette.views.web.routes import Request
from vedette.views.web.runs import bar_of, row_fields
from vedette.views.web.shapes import (
    FileShape,
    MarkShape,
    OneRun,
    ProcessShape,
    QuestionShape,
    SeriesShape,
    TryShape,
)
from vedette.views.web.state import AppState, text_of

_HOST_KEYS = ("python", "os", "host", "cpu.model", "cpu.count", "memory_bytes", "gpu.names", "gpu.driver")
_MOST_PROCESSES = 2000
_MOST_SERIES = 5000
_MOST_MARKS = 2000


def run(state: AppState, store: Reader, request: Request) -> OneRun:
    """Return one run."""
    found = find(store, request.path["run"])
    views, lines = state.listing.look_at(store, [found.id])
    view, line = views[0], lines[0]
    attrs = view.attrs
    return OneRun(
        **row_fields(view, line, {}),
        config=for_json(view.config),
        summary=for_json(view.summary),
        attrs=for_json({key: value for key, value in attrs.items() if not key.startswith("config.")}),
        notes=text_of(attrs.get("notes")),
        argv=_words(attrs.get("argv")),
        cwd=text_of(attrs.get("cwd")),
        git=for_json({key[4:]: value for key, value in attrs.items() if key.startswith("git.")}),
        host_info=for_json({key: attrs[key] for key in _HOST_KEYS if key in attrs}),
        tries=[_try(one) for one in view.tries()],
        processes=processes(view, store),
        bars=[bar_of(bar) for bar in view.progress()],
        series=series(view),
        files=files(store, view.id),
        marks=[MarkShape(t / 1e6, text) for t, text in usage.marks(store, view.id)[-_MOST_MARKS:]],
        questions=[
            QuestionShape(item.id, item.prompt, item.password, item.t / 1e6)
            for item in questions.waiting(store, view.id)
        ],
        refused=view.refused(),
    )


def _try(row: Seen) -> TryShape:
    n = row.attrs.get("n")
    return TryShape(row.id, n if isinstance(n, int) else 0, row.state, row.cause, ms(row.start_t), ms(row.end_t))


def processes(view: RunView, store: Reader) -> list[ProcessShape]:
    """Return the processes of a run, the oldest first, also those that logged nothing."""
    seen = {row.id: row for row in view.processes()}
    rows = store.spans(SpanQuery(kind="process", prefix=prefix_below(view.id)))[::-1]
    found = []
    for row in rows[:_MOST_PROCESSES]:
        state = seen[row.id].state if row.id in seen else row.state
        pid, parent = row.attrs.get("pid"), row.attrs.get("ppid")
        found.append(
            ProcessShape(
                row.id, row.name, pid if isinstance(pid, int) else 0, parent if isinstance(parent, int) else 0,
                text_of(row.attrs.get("host")), state, row.cause, ms(row.start_t), ms(row.end_t),
                _words(row.attrs.get("argv")), not is_by_pid(row.id),
            )
        )  # fmt: skip
    return found


def series(view: RunView) -> list[SeriesShape]:
    """Return the series of a run."""
    return [
        SeriesShape(
            one.name, one.tags, one.count, one.min, one.max, None if one.last is None else float(one.last),
            one.last_step, ms(one.last_t),
        )
        for one in view.series()[:_MOST_SERIES]
    ]  # fmt: skip


def files(store: Reader, run_id: str) -> list[FileShape]:
    """Return the files of a run, by name."""
    return [FileShape(one.name, one.digest, one.size, one.media, one.t / 1e6) for one in files_of(store, run_id)]


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
