"""What a run, or several, used, as one HTML page that needs no network and no other file."""

import html
import json
import os
from collections.abc import Sequence

import numpy as np

from vedette.query.runs import RunView
from vedette.query.usage import Use
from vedette.views.text import clean, duration, moment
from vedette.views.usage import Floats, prepare

_COLUMNS = 720
_MANY_COLUMNS = 360  # if there are many processes
_MANY = 32
_TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "usage.html")


def page(views: Sequence[RunView], uses: Sequence[Use], hosts: Sequence[Use], marks: Sequence[tuple[int, str]]) -> str:
    """Return the page."""
    charts = prepare(uses, hosts, marks, _MANY_COLUMNS if len(uses) > _MANY else _COLUMNS)
    many_hosts = len({one.host for one in uses}) > 1
    data = {
        "span_s": (charts.end_t - charts.begin_t) / 1e9,
        "begin_ms": charts.begin_t // 10**6,
        "processes": [
            {
                "key": one.process,
                "name": clean(one.name, one_line=True) + (f" @{clean(one.host, one_line=True)}" if many_hosts else ""),
                "pid": one.pid,
                "parent": one.parent_pid,
                "mean": {name: _short(float(value.mean())) for name, (_, value) in one.series.items()},
                "peak": {name: _short(float(value.max())) for name, (_, value) in one.series.items()},
            }
            for one in charts.uses
        ],
        "charts": [
            {
                "resource": chart.resource,
                "title": chart.title,
                "unit": chart.unit,
                "stacked": chart.stacked,
                "layers": [
                    {"key": layer.key, "label": clean(layer.label, one_line=True), "values": _column(layer.values)}
                    for layer in chart.layers
                ],
            }
            for chart in charts.charts
        ],
        "marks": [
            {"at_s": (t - charts.begin_t) / 1e9, "text": clean(text, one_line=True)[:500]} for t, text in charts.marks
        ],
    }
    count = f"{len(uses)} process{'' if len(uses) == 1 else 'es'}"
    names = sorted({clean(one.host, one_line=True) for one in uses})
    where = names[0] if len(names) == 1 else f"{len(names)} hosts"
    title, facts = _heading(views)
    facts += [count, where]
    with open(_TEMPLATE, encoding="utf-8") as file:
        template = file.read()
    for key, text in (
        ("TITLE", html.escape(clean(title, one_line=True))),
        ("FACTS", " · ".join(html.escape(clean(fact, one_line=True)) for fact in facts if fact)),
        ("DATA", _in_script(data)),  # last, so that its text is not searched for placeholders
    ):
        template = template.replace("{{" + key + "}}", text)
    return template


def _heading(views: Sequence[RunView]) -> tuple[str, list[str]]:
    """Return the title of the page, and what is said of its runs below."""
    if len(views) == 1:
        view = views[0]
        return view.name or view.id, [view.id, view.state, moment(view.start_t), duration(view.duration_s)]
    begun = min((view.start_t for view in views if view.start_t is not None), default=None)
    return f"{len(views)} runs", [", ".join(f"{view.name or view.id} ({view.state})" for view in views), moment(begun)]


def _in_script(data: object) -> str:
    """Return JSON that cannot close the script element around it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _column(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else _short(float(value)) for value in values]


def _short(value: float) -> float:
    """Round a number to four digits: more cannot be seen in a chart."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded
