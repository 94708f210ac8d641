"""Results as HTML, for notebooks: tables of escaped text; the HTML has no script and loads nothing."""

from collections.abc import Sequence
from html import escape

from msgspec import Struct

_MOST_ROWS = 500
_MOST_CHARS = 300
_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;max-width:40em;overflow-wrap:anywhere"
_DIM = ";opacity:.5"


class Grid(Struct, frozen=True):
    """A table with a title; the rows whose indices are in `dim` are shown dimmed."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    dim: frozenset[int] = frozenset()


def html(title: str, facts: Sequence[tuple[str, object]], grids: Sequence[Grid] = ()) -> str:
    """Return a fragment of HTML: a title, lines of facts, and tables; empty tables are left out."""
    lines = "".join(f"<div>{_text(name)}: {_text(value)}</div>" for name, value in facts if value not in ("", None))
    return f"<div><b>{_text(title)}</b>{lines}{''.join(_grid(grid) for grid in grids if grid.rows)}</div>"


def _grid(grid: Grid) -> str:
    head = "".join(f'<th style="{_CELL}">{_text(header)}</th>' for header in grid.headers)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL}{_DIM if index in grid.dim else ""}">{_text(cell)}</td>' for cell in row)
        + "</tr>"
        for index, row in enumerate(grid.rows[:_MOST_ROWS])
    )
    more = len(grid.rows) - _MOST_ROWS
    rest = f"<div>and {more} more</div>" if more > 0 else ""
    title = f'<div style="margin-top:8px"><b>{_text(grid.title)}</b></div>' if grid.title else ""
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _text(value: object) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    return escape(text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…")
