"""A run in a notebook, as HTML: its name and state, its bars, and charts of its metrics.

The HTML has no script, loads nothing, and takes its text colour from the page, so that it fits light and dark. An
editor that does not trust a notebook strips the SVG; then the numbers and a line of characters remain.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

from msgspec import Struct

from vedette.query.progress import Bar
from vedette.views.lines import amount
from vedette.views.spark import spark
from vedette.views.text import clean, duration, number, percent

_COLOURS = {"running": "#3b82f6", "done": "#22a06b", "failed": "#e5484d", "cancelled": "#d08700"}
_LINE = "#3b82f6"
WIDTH, _HEIGHT, _MARGIN = 280, 72, 3
MOST_ROWS = 8
MOST_TILES = 12


class Shown(Struct, frozen=True):
    """What a notebook shows: HTML, and plain text for a frontend that has none."""

    html: str
    plain: str

    @property
    def bundle(self) -> dict[str, str]:
        """The same by media type, as Jupyter wants it."""
        return {"text/html": self.html, "text/plain": self.plain}


class Head(Struct, frozen=True):
    """A run: what it is called, how it is, and where its page is; `page` is empty if nobody serves it."""

    id: str
    name: str
    state: str
    cause: str = ""
    took_s: float | None = None
    page: str = ""
    command: str = "vedette ui"  # opens the page


class Tile(Struct, frozen=True):
    """One metric: its points for so many pixels, and numbers of all of its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    count: int
    last: float | None
    low: float | None
    high: float | None


def head(run: Head) -> Shown:
    """Return the name, state and page of a run."""
    took = f" {'in' if run.state == 'done' else 'after'} {duration(run.took_s)}" if run.took_s is not None else ""
    state = run.state + (took if run.state != "running" else "") + (f": {run.cause}" if run.cause else "")
    command = f"{run.command} {run.name if _is_word(run.name) else run.id}"
    if run.page:
        where = f'<a href="{escape(clean(run.page))}" target="_blank" rel="noopener">open its page</a>'
    else:
        where = f"<code>{_text(command)}</code> opens its page"
    html = (
        f'<div style="{_edge(run.state)}"><b>{_text(run.name)}</b> '
        f'<span style="opacity:.6">{_text(run.id)}</span> '
        f'<span style="color:{_colour(run.state)}">{_text(state)}</span> '
        f'<span style="opacity:.75">· {where}</span></div>'
    )
    shown = clean(run.page) or f"`{clean(command, one_line=True)}` opens its page"
    return Shown(html, f"{clean(run.name, one_line=True)} ({run.id}) {clean(state, one_line=True)}; {shown}")


def bars(found: Sequence[Bar], now_t: int, more: int = 0) -> Shown:
    """Return bars, those that run first, the newest of the others below; `more`: how many there are besides."""
    running = [bar for bar in found if bar.state == "running"]
    ended = [bar for bar in found if bar.state != "running"]
    room = max(0, MOST_ROWS - len(running[:MOST_ROWS]))
    rows = running[:MOST_ROWS] + (ended[-room:] if room else [])
    html, plain = [], []
    for bar in rows:
        words = _numbers(bar, now_t)
        value = "" if bar.fraction is None and bar.state == "running" else f' value="{(bar.fraction or 0):.4f}" max="1"'
        share = percent(bar.fraction)
        html.append(
            f'<tr style="background:none"><td style="{_CELL};max-width:24em;overflow-wrap:anywhere">'
            f"{_text(bar.name or 'progress')}</td>"
            f'<td style="{_CELL}"><progress{value} style="width:16em;accent-color:{_colour(bar.state)}">'
            f'{share}</progress></td><td style="{_CELL};text-align:right">{share}</td>'
            f'<td style="{_CELL};opacity:.75">{_text(words)}</td></tr>'
        )
        plain.append(f"{clean(bar.name or 'progress', one_line=True)}: {share} {clean(words, one_line=True)}")
    more += len(found) - len(rows)
    if more:
        html.append(f'<tr style="background:none"><td style="{_CELL}" colspan="4">and {more} more</td></tr>')
        plain.append(f"and {more} more")
    table = f'<table style="{_PLAIN}"><tbody>{"".join(html)}</tbody></table>'
    return Shown(table, "\n".join(plain))


def charts(run: Head, tiles: Sequence[Tile], more: int = 0, note: str = "") -> Shown:
    """Return a chart of each metric; `more`: how many are not shown; `note`: why there is none."""
    top = head(run)
    shown = "".join(_tile(tile) for tile in tiles)
    rest = (
        note or "it has logged no numbers yet" if not tiles else f"and {more} more metrics on its page" if more else ""
    )
    below = f'<div style="opacity:.75">{rest}</div>' if rest else ""
    plain = [top.plain, *(f"{clean(tile.name, one_line=True)}: {_summary(tile)}" for tile in tiles), rest]
    return Shown(f"<div>{top.html}{shown}{below}</div>", "\n".join(line for line in plain if line))


def frame(address: str) -> Shown:
    """Return a run's page in a frame, which opens on a click."""
    inside = (
        f'<iframe src="{escape(clean(address))}" loading="lazy" '
        'style="width:100%;height:640px;border:1px solid rgba(127,127,127,.4)"></iframe>'
    )
    return Shown(f"<details><summary>its page</summary>{inside}</details>", clean(address))


def _tile(tile: Tile) -> str:
    points = [(x, y) for x, y in zip(tile.x, tile.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    drawn = _svg(points)
    steps = f"step {points[0][0]:.6g} to {points[-1][0]:.6g}" if points else "no finite value"
    return (
        f'<div style="display:inline-block;vertical-align:top;width:{WIDTH}px;margin:6px 16px 6px 0">'
        f'<div style="overflow-wrap:anywhere"><b>{_text(tile.name)}</b> {number(tile.last)}</div>{drawn}'
        f'<div style="opacity:.65;font-size:80%">{_short(tile.low)} to {_short(tile.high)} · {steps}'
        f" · {tile.count} {'point' if tile.count == 1 else 'points'}</div></div>"
    )


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def _svg(points: Sequence[tuple[float, float]]) -> str:
    if not points:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    along = _scale(min(xs), max(xs), _MARGIN, WIDTH - _MARGIN)
    up = _scale(min(ys), max(ys), _HEIGHT - _MARGIN, _MARGIN)
    path = " ".join(f"{along(x):.1f},{up(y):.1f}" for x, y in points)
    line = f'<polyline points="{path}" fill="none" stroke="{_LINE}" stroke-width="1.5" stroke-linejoin="round"/>'
    end = f'<circle cx="{along(xs[-1]):.1f}" cy="{up(ys[-1]):.1f}" r="2.5" fill="{_LINE}"/>'
    # The text of `desc` is not drawn. It remains, and is seen, where the SVG around it is stripped.
    return (
        f'<svg width="{WIDTH}" height="{_HEIGHT}" viewBox="0 0 {WIDTH} {_HEIGHT}" role="img" '
        'style="display:block;max-width:100%;border-bottom:1px solid rgba(127,127,127,.35);'
        f'border-left:1px solid rgba(127,127,127,.35)"><desc>{spark(ys, 24)}</desc>{line}{end}</svg>'
    )


def _scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """Return a function from values to pixels."""
    middle = (first + last) / 2
    half = high / 2 - low / 2  # halves: the span of two floats can be infinite
    if half <= 0:
        return lambda _value: middle
    return lambda value: first + (value / 2 - low / 2) / half * (last - first)


def _summary(tile: Tile) -> str:
    return f"{number(tile.last)} ({number(tile.low)} to {number(tile.high)}, {tile.count} points)"


def _numbers(bar: Bar, now_t: int) -> str:
    took_s = max(0, (bar.end_t or now_t) - (bar.start_t or now_t)) / 1e9
    left_s = bar.eta_s(now_t)
    rate = f"{number(float(f'{bar.rate:.3g}'))}/s" if bar.rate is not None else ""
    left = "" if left_s is None else f"{duration(left_s)} left"
    end = "" if bar.state in ("running", "done") else f"{bar.state}: {bar.cause}" if bar.cause else bar.state
    return " · ".join(part for part in (amount(bar), duration(took_s), rate, left, end) if part)


_CELL = "text-align:left;padding:1px 12px 1px 0;border:none"
_PLAIN = "border:none;border-collapse:collapse;margin:2px 0"


def _edge(state: str) -> str:
    return f"border-left:3px solid {_colour(state)};padding:1px 0 1px 8px;margin:3px 0"


def _colour(state: str) -> str:
    return _COLOURS.get(state, "#8b8d98")


def _is_word(name: str) -> bool:
    return bool(name) and all(char.isalnum() or char in "._-" for char in name) and not name.startswith("-")


def _text(text: str) -> str:
    text = clean(text, one_line=True)
    return escape(text if len(text) <= 300 else text[:299] + "…")
