"""The columns of the table of runs: what they show, and which of them fit a width."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from vedette.query.overview import RunLine
from vedette.query.silence import LOST
from vedette.views.spark import bar, spark
from vedette.views.text import clean, duration, number, percent

SIGNS = {
    "running": "●",
    "leaving": "◐",
    "done": "✓",
    "failed": "✗",
    "cancelled": "■",
    "ended": "◇",
    "lost": "?",
}  # without colours
WAITING = "○"
ORDERS = ("newest", "name", "state", "progress", "metric", "cpu", "memory")
_LINE = 12  # the least width of a line of output


class Column(Struct, frozen=True):
    """A column, with its least and most width; `right`: it is aligned to the right."""

    key: str
    title: str
    least: int
    most: int
    right: bool = False


class Cell(Struct, frozen=True):
    """The text of a cell, and its style: a state, dim, warning, error, or none."""

    text: str
    style: str = ""


# By importance: on a narrow screen the last one is dropped first.
_COLUMNS = (
    Column("sign", "", 1, 1),
    Column("name", "NAME", 8, 32),
    Column("bar", "PROGRESS", 9, 22),
    Column("took", "TOOK", 6, 6, right=True),
    Column("cpu", "CPU", 5, 6, right=True),
    Column("memory", "MEMORY", 8, 8, right=True),
    Column("last", "VALUE", 8, 10, right=True),
    Column("trend", "CURVE", 8, 24),
    Column("left", "LEFT", 6, 6, right=True),
    Column("state", "STATE", 7, 9),
    Column("gpu", "GPU", 5, 13, right=True),
    Column("line", "LAST LINE", _LINE, 1000),
    Column("metric", "METRIC", 6, 14),
    Column("host", "HOST", 6, 20),
    Column("project", "PROJECT", 6, 16),
)
_ORDER = (
    "sign", "state", "name", "project", "host", "took", "bar", "left", "metric", "trend", "last", "cpu", "memory",
    "gpu", "line",
)  # fmt: skip


def layout(width: int, rows: Sequence[dict[str, Cell]]) -> list[tuple[Column, int]]:
    """Return the columns that fit, in order, with their widths; empty columns are left out."""
    needed = {
        column.key: max([cell_len(column.title), *(cell_len(row[column.key].text) for row in rows)])
        for column in _COLUMNS
        if column.key in ("sign", "name") or any(row[column.key].text for row in rows)
    }
    widths: dict[str, int] = {}
    left = width
    for column in _COLUMNS:
        if column.key not in needed:
            continue
        least = min(column.least, max(needed[column.key], cell_len(column.title)))
        if column.key in ("bar", "trend", "line"):
            least = column.least
        if column.key == "name":
            least = min(needed["name"], max(column.least, width // 5))
        if left < least + 1:
            break
        widths[column.key] = least
        left -= least + 1
    left += 1  # no gap after the last column
    for column in sorted(_COLUMNS, key=lambda column: _ORDER.index(column.key)):
        if column.key in widths and column.key not in ("bar", "trend", "line"):
            left -= _widen(widths, column, min(column.most, needed[column.key]), left)
    for column in _COLUMNS:
        if column.key in ("bar", "trend") and column.key in widths:
            left -= _widen(widths, column, column.most, left // 2 if "line" in widths else left)
    if "line" in widths:
        widths["line"] += max(0, left)
    by_key = {column.key: column for column in _COLUMNS}
    return [(by_key[key], widths[key]) for key in _ORDER if key in widths]


def _widen(widths: dict[str, int], column: Column, wanted: int, left: int) -> int:
    more = max(0, min(wanted - widths[column.key], left))
    widths[column.key] += more
    return more


def cells(line: RunLine, now: int) -> dict[str, Cell]:
    """Return the cell of each column for a run; bar and trend are drawn later, when their width is known."""
    waits = line.state not in SIGNS
    state = "waiting" if waits else line.state
    share = line.bar.fraction if line.bar else None
    eta_s = line.bar.eta_s(now) if line.bar and line.alive else None
    hosts = [clean(host, one_line=True) for host in line.hosts]
    last_line = Cell(
        clean(line.line, one_line=True), "error" if line.level >= 40 else "warning" if line.level >= 30 else "dim"
    )
    if line.cause and not line.alive:
        last_line = Cell(clean(line.cause, one_line=True), state)
    elif line.state == LOST:
        last_line = Cell(f"last heard {duration(line.silent_s)} ago", state)
    return {
        "sign": Cell(SIGNS.get(line.state, WAITING), state),
        "state": Cell(clean(line.state, one_line=True), state),
        "name": Cell(clean(line.name or line.id, one_line=True), "name"),
        "project": Cell(clean(line.project, one_line=True), "dim"),
        "host": Cell((hosts[0] if len(hosts) == 1 else f"{hosts[0]} +{len(hosts) - 1}") if hosts else "", "dim"),
        "took": Cell(duration(line.duration_s)),
        "bar": Cell("" if line.bar is None else "?" if share is None else percent(share), bar_style(line)),
        "left": Cell("" if eta_s is None else duration(eta_s)),
        "metric": Cell(clean(line.metric, one_line=True), "dim"),
        "trend": Cell("~" if line.trend else "", "trend"),
        "last": Cell(number(line.last) if line.last is not None else ""),
        "cpu": Cell("" if line.cpu_percent is None else f"{line.cpu_percent:.0f}%"),
        "memory": Cell("" if line.memory_bytes is None else short_size(line.memory_bytes)),
        "gpu": Cell(_gpu(line)),
        "line": last_line,
    }


def bar_style(line: RunLine) -> str:
    """Return the style of a run's bar: by the bar's own state, since a bar may fail while the run goes on."""
    return "" if line.bar is None else line.bar.state if line.bar.state in SIGNS else "waiting"


def draw(line: RunLine, row: dict[str, Cell], column: Column, width: int) -> Cell:
    """Return a cell, fitted to its width."""
    cell = row[column.key]
    if column.key == "trend":
        return Cell(fit(spark(line.trend, width), width, right=True), cell.style)
    if column.key == "last" and line.last is not None:
        return Cell(fit(number(line.last, width), width, right=True), cell.style)
    if column.key == "bar" and line.bar is not None:
        share = line.bar.fraction
        text = amount(line.bar.done) if share is None else percent(share)
        return Cell(
            f"{bar(share, width - 5) if share is not None else ' ' * max(0, width - 5)} {text[:4]:>4}", cell.style
        )
    return Cell(fit(cell.text, width, right=column.right), cell.style)


def _gpu(line: RunLine) -> str:
    parts = ["" if line.gpu_percent is None else f"{line.gpu_percent:.0f}%"]
    parts.append("" if line.gpu_memory_bytes is None else short_size(line.gpu_memory_bytes))
    return " ".join(filter(None, parts))


def amount(count: float) -> str:
    """Return a count in four characters."""
    for unit in ("", "k", "M", "G", "T"):
        if abs(count) < 999.5:
            return f"{count:.0f}{unit}" if unit == "" or abs(count) >= 9.95 else f"{count:.1f}{unit}"
        count /= 1000
    return "many"


def short_size(count: float) -> str:
    """Return a number of bytes with its unit, without a space."""
    for unit in ("B", "K", "M", "G"):
        if abs(count) < 999.5:
            return f"{count:.0f}{unit}" if unit in "BK" or abs(count) >= 99.5 else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f}T"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return a text that is exactly `width` cells wide; an ellipsis shows that it was cut."""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return " " * (width - size) + text if right else text + " " * (width - size)


def ordered(lines: Sequence[RunLine], by: str) -> list[RunLine]:
    """Sort runs by one of ORDERS; living runs always come first, and runs without a value last."""
    keys: dict[str, Callable[[RunLine], Any]] = {
        "newest": lambda line: -(line.start_t or 0),
        "name": lambda line: line.name.lower(),
        "state": lambda line: (line.state != "failed", line.state != LOST, line.state),
        "progress": lambda line: _descending(line.bar.fraction if line.bar else None),
        "metric": lambda line: _descending(-line.last if line.last is not None and isfinite(line.last) else None),
        "cpu": lambda line: _descending(line.cpu_percent),
        "memory": lambda line: _descending(line.memory_bytes),
    }
    return sorted(lines, key=lambda line: (not line.alive, keys[by](line)))


def _descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)
