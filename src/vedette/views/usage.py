"""What a run used, as charts: laid out for any width, and drawn in a terminal."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from rich.console import Console, OverflowMethod
from rich.style import Style
from rich.text import Text

from vedette.query.usage import Curve, Use
from vedette.views.text import clean, duration, size

_ROWS = 8  # rows of one chart
_AXIS = 10  # columns of the axis on the left
_MOST_NAMED = 8  # processes with a colour of their own
_MOST_MARKS = 20
_COLOURS = ("#4e9ad9", "#e8893a", "#57b36a", "#d9616c", "#a583d4", "#b58a5a", "#e27fb8", "#4fb8b0")
_OTHERS = "#8a8f98"
_LETTERS = "abcdefgh"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_STEPS_S = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)
_GAP = 3  # a longer gap, in intervals, is drawn as a gap

Floats = NDArray[np.float64]


class Layer(Struct, frozen=True, eq=False):
    """One part of a stacked chart; NaN where it does not exist."""

    key: str  # the process, or the GPU
    label: str
    values: Floats


class Chart(Struct, frozen=True, eq=False):
    """One resource over time; `stacked`: its parts add up."""

    resource: str
    title: str
    unit: str  # %, B, B/s, W, °C or nothing
    layers: list[Layer]
    stacked: bool = True

    def total(self) -> Floats:
        """Return the sum of all layers if they are stacked, else the highest."""
        values = np.array([np.nan_to_num(layer.values) for layer in self.layers])
        return np.asarray(values.sum(axis=0) if self.stacked else values.max(axis=0))


class Charts(Struct, frozen=True, eq=False):
    """All charts of a run, over the same time."""

    begin_t: int
    end_t: int
    charts: list[Chart]
    marks: list[tuple[int, str]]
    uses: list[Use]

    def at(self, t: int) -> float:
        """Return a time as a fraction between begin and end."""
        return (t - self.begin_t) / (self.end_t - self.begin_t)


_OF_PROCESSES = (
    ("cpu_percent", "CPU, 100 % is one core", "%"),
    ("memory_bytes", "memory", "B"),
    ("read_bytes_per_s", "read from disk", "B/s"),
    ("written_bytes_per_s", "written to disk", "B/s"),
    ("threads", "threads", ""),
    ("gpu_memory_bytes", "GPU memory", "B"),
)
_OF_GPUS = (
    ("gpu_percent", "GPU, 100 % is one GPU", "%", True),
    ("gpu_power_w", "GPU power", "W", True),
    ("gpu_temperature_c", "GPU temperature", "°C", False),
)


def prepare(uses: Sequence[Use], hosts: Sequence[Use], marks: Sequence[tuple[int, str]], width: int) -> Charts:
    """Lay out charts `width` columns wide; a column shows the highest of its samples."""
    times = [t for one in uses for t, _ in one.series.values() if len(t)]
    begin_t = min(int(t[0]) for t in times)
    near = [one.start_t for one in uses if one.start_t is not None and one.start_t > begin_t - 10**10]
    begin_t = min([begin_t, *near])
    end_t = max(begin_t + 10**9, *(int(t[-1]) for t in times))
    steps = [np.diff(t) for t in times if len(t) > 1]
    interval = float(np.median(np.concatenate(steps))) if steps else 1e9
    edges = np.linspace(begin_t, end_t, width + 1)
    ranked = rank(uses)
    charts = []
    for resource, title, unit in _OF_PROCESSES:
        layers = [
            Layer(one.process, f"{one.name} ({one.pid})", resample(_whole(one, resource, interval), edges, interval))
            for one in ranked
            if resource in one.series
        ]
        if layers:
            charts.append(Chart(resource, title, unit, layers))
    for resource, title, unit, stacked in _OF_GPUS:
        layers = [
            Layer(f"{one.name} {key}", _gpu_label(one, key, hosts), resample(curve, edges, interval))
            for one in hosts
            for key, curve in one.series.items()
            if key.partition(" ")[0] == resource
        ]
        if not stacked:  # a terminal draws lines as areas: the lower one must not be hidden
            layers.sort(key=lambda layer: float(np.nan_to_num(layer.values).sum()))
        if layers:
            charts.append(Chart(resource, title, unit, layers, stacked))
    shown = [(t, text) for t, text in marks if begin_t <= t <= end_t]
    return Charts(begin_t, end_t, charts, shown, list(ranked))


def _gpu_label(one: Use, key: str, hosts: Sequence[Use]) -> str:
    number = key.rpartition("gpu=")[2]
    return f"GPU {number}" + (f" of {one.name}" if len({host.name for host in hosts}) > 1 else "")


def rank(uses: Sequence[Use]) -> list[Use]:
    """Sort processes by their share of CPU and memory, the largest first: it is drawn at the bottom of a stack."""

    def load(one: Use, resource: str) -> float:
        return float(np.sum(one.series[resource][1])) if resource in one.series else 0.0

    whole = {key: sum(load(one, key) for one in uses) or 1.0 for key in ("cpu_percent", "memory_bytes")}
    shares = {one.process: sum(load(one, key) / total for key, total in whole.items()) for one in uses}
    return sorted(uses, key=lambda one: (-shares[one.process], one.start_t or 0, one.process))


def _whole(one: Use, resource: str, interval: float) -> Curve:
    """Extend a curve to the beginning and the end of its process, if these are near."""
    t, value = one.series[resource]
    reach = int(2 * interval)
    if one.start_t is not None and 0 < t[0] - one.start_t <= reach:
        t, value = np.insert(t, 0, one.start_t), np.insert(value, 0, value[0])
    if one.end_t is not None and 0 < one.end_t - t[-1] <= reach:
        t, value = np.append(t, one.end_t), np.append(value, value[-1])
    return t, value


def resample(curve: Curve, edges: Floats, interval: float) -> Floats:
    """Return a value per column: its highest sample, else interpolated; NaN in gaps and outside the curve."""
    t, value = curve
    columns = len(edges) - 1
    at = np.clip(np.searchsorted(edges, t, "right") - 1, 0, columns - 1)
    inside = (t >= edges[0]) & (t <= edges[-1])
    found = np.full(columns, -np.inf)
    np.maximum.at(found, at[inside], value[inside])
    found[np.isinf(found)] = np.nan
    centres = (edges[:-1] + edges[1:]) / 2
    empty = np.isnan(found) & (centres >= t[0]) & (centres <= t[-1])
    if empty.any():
        after = np.searchsorted(t, centres[empty])
        near = t[np.minimum(after, len(t) - 1)] - t[np.maximum(after - 1, 0)] <= _GAP * interval
        found[empty] = np.where(near, np.interp(centres[empty], t, value), np.nan)
    return found


def amount(value: float, unit: str) -> str:
    """Return a number with its unit, short."""
    if unit.startswith("B"):
        return size(value) + unit[1:]
    text = f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return f"{text} {unit}" if unit else text


def ceiling(highest: float, unit: str) -> float:
    """Return a round number for the end of an axis."""
    if highest <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(highest))
    top = next(step * scale for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * scale >= highest * 0.999)
    return max(top, 1.0) if unit in ("", "%") else top


def draw(charts: Charts, console: Console) -> None:
    """Draw charts that were prepared for `width_for` this console."""
    plain = not console.is_terminal
    named = [one.process for one in charts.uses[:_MOST_NAMED]]
    for chart in charts.charts:
        for line in _chart(chart, charts, named, plain=plain):
            _print(line, console, "crop")
    for line in (*_legend(charts, named, plain=plain), *_marks(charts, plain=plain)):
        _print(line, console, "ellipsis")


def _print(line: Text, console: Console, overflow: OverflowMethod) -> None:
    """Print a line; only a terminal has an edge at which to cut it."""
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow=overflow, crop=True)
    else:
        console.print(line, soft_wrap=True)


def width_for(console: Console) -> int:
    """Return how many columns a chart can have on a console."""
    return max(20, min(console.width, 240) - _AXIS - 2)


def _look(chart: Chart, layer: Layer, named: list[str], index: int) -> tuple[str, str]:
    """Return the colour and the letter of a layer."""
    if chart.resource.startswith("gpu") and chart.resource != "gpu_memory_bytes":
        return _COLOURS[index % len(_COLOURS)], _LETTERS[index % len(_LETTERS)].upper()
    if layer.key in named:
        return _COLOURS[named.index(layer.key)], _LETTERS[named.index(layer.key)]
    return _OTHERS, "."


def _chart(chart: Chart, charts: Charts, named: list[str], *, plain: bool) -> list[Text]:
    width = len(chart.layers[0].values)
    total = chart.total()
    top = ceiling(float(total.max()), chart.unit)
    looks = [_look(chart, layer, named, index) for index, layer in enumerate(chart.layers)]
    tops = _tops(chart, top)
    bars = {min(width - 1, int(charts.at(t) * width)) for t, _ in charts.marks}
    head = Text(f"{chart.title}", style="bold")
    head.append(f"   highest {amount(float(total.max()), chart.unit)}", style="" if plain else "dim")
    lines = [head]
    for row in range(_ROWS - 1, -1, -1):
        label = {_ROWS - 1: amount(top, chart.unit), _ROWS // 2 - 1: amount(top / 2, chart.unit), 0: "0"}.get(row, "")
        line = Text(f"{label:>{_AXIS}} ┤" if label else f"{'':>{_AXIS}} │")
        for column in range(width):
            line.append(*_cell(tops[:, column], row, looks, bar=column in bars, plain=plain))
        lines.append(line)
    lines += _time_axis(charts, width, bars)
    if chart.resource.startswith("gpu") and chart.resource != "gpu_memory_bytes":
        names = Text(" " * (_AXIS + 2))
        for (colour, letter), layer in zip(looks, chart.layers, strict=True):
            names.append(letter if plain else "■", style="" if plain else colour)
            names.append(f" {clean(layer.label, one_line=True)}  ")
        lines.append(names)
    return [*lines, Text("")]


def _tops(chart: Chart, top: float) -> Floats:
    """Return the height of each layer's top in each column, in eighths of a row."""
    values = np.array([np.nan_to_num(layer.values) for layer in chart.layers])
    if not chart.stacked:  # lines: the lower one first
        values = np.diff(np.sort(values, axis=0), axis=0, prepend=0)
    return np.asarray(np.cumsum(values, axis=0) / top * _ROWS * 8)


def _cell(
    tops: Floats, row: int, looks: list[tuple[str, str]], *, bar: bool, plain: bool
) -> tuple[str, Style | str | None]:
    """Return one cell: the layer at its bottom, up to an eighth, and the layer above as the background."""
    low, high = row * 8, row * 8 + 8
    full = tops[-1] >= low + 1 or (row == 0 and tops[-1] > 0.05)
    if not full:
        return ("|" if plain else "│", None if plain else "bright_white") if bar else (" ", None)
    if plain:
        middle = min(low + 4, float(tops[-1]) - 1e-9)
        return "|" if bar else looks[min(int(np.searchsorted(tops, middle, "right")), len(looks) - 1)][1], None
    first = min(int(np.searchsorted(tops, low + 0.5, "right")), len(looks) - 1)
    eighths = max(1, min(8, round(float(tops[first]) - low)))
    above = int(np.searchsorted(tops, min(low + eighths + 0.5, high - 0.01), "right"))
    under = looks[above][0] if eighths < 8 and above < len(looks) and tops[-1] >= low + eighths + 0.5 else None
    if bar:
        return "│", Style(color="bright_white", bgcolor=looks[first][0])
    return _EIGHTHS[eighths], Style(color=looks[first][0], bgcolor=under)


def _time_axis(charts: Charts, width: int, bars: set[int]) -> list[Text]:
    span_s = (charts.end_t - charts.begin_t) / 1e9
    step_s = next((step for step in _STEPS_S if span_s / step * 12 <= width), span_s / width * 12)
    marks_s = [step_s * n for n in range(int(span_s / step_s) + 1)]
    ticks = {int(at_s / span_s * width): at_s for at_s in marks_s if at_s / span_s * width < width - 5}
    rule = "".join("┴" if at in bars else "┬" if at in ticks else "─" for at in range(width))
    words = [" "] * (width + 8)
    for at, at_s in ticks.items():
        text = duration(at_s) if at else "0"
        words[at : at + len(text)] = text
    return [Text(f"{'':>{_AXIS}} └{rule}"), Text(f"{'':>{_AXIS}}  {''.join(words).rstrip()}")]


def _legend(charts: Charts, named: list[str], *, plain: bool) -> list[Text]:
    columns: list[tuple[str, Callable[[Use], str]]] = [
        ("PID", lambda one: str(one.pid)),
        ("CPU MEAN", lambda one: _figure(one, "cpu_percent", "%", np.mean)),
        ("CPU MAX", lambda one: _figure(one, "cpu_percent", "%", np.max)),
        ("MEMORY MAX", lambda one: _figure(one, "memory_bytes", "B", np.max)),
        ("THREADS", lambda one: _figure(one, "threads", "", np.max)),
    ]
    shown = charts.uses[: len(named)]
    many_hosts = len({one.host for one in charts.uses}) > 1
    names = [clean(one.name + (f" @{one.host}" if many_hosts else ""), one_line=True)[:40] for one in shown]
    widest = max(len(name) for name in [*names, "PROCESS"])
    cells = [[ask(one) for _, ask in columns] for one in shown]
    widths = [max(len(head), *(len(row[i]) for row in cells)) for i, (head, _) in enumerate(columns)]
    heads = "  ".join(head.rjust(w) for (head, _), w in zip(columns, widths, strict=True))
    lines = [Text(f"  {'PROCESS':<{widest}}  {heads}", style="bold")]
    for index, (name, row) in enumerate(zip(names, cells, strict=True)):
        line = Text(_LETTERS[index] if plain else "■", style="" if plain else _COLOURS[index])
        line.append(f" {name:<{widest}}  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))
        lines.append(line)
    if more := len(charts.uses) - len(named):
        line = Text("." if plain else "■", style="" if plain else _OTHERS)
        lines.append(line.append(f" {more} other{'s' if more > 1 else ''}, smaller"))
    return lines


def _figure(one: Use, resource: str, unit: str, of: Callable[[Floats], float]) -> str:
    return amount(float(of(one.series[resource][1])), unit) if resource in one.series else ""


def _marks(charts: Charts, *, plain: bool) -> list[Text]:
    if not charts.marks:
        return []
    lines = [Text(""), Text("marks", style="bold")]
    for t, text in charts.marks[:_MOST_MARKS]:
        line = Text(f"{'|' if plain else '│'} {duration((t - charts.begin_t) / 1e9):>8}  ")
        lines.append(line.append(clean(text, one_line=True)))
    if more := len(charts.marks) - _MOST_MARKS:
        lines.append(Text(f"  and {more} more: `vedette logs` has them") if more > 0 else Text(""))
    return lines
