"""How a command answers: a table on a terminal, plain text in a pipe, JSON for scripts. Not a command itself."""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from vedette.home import Home
from vedette.settings import Settings
from vedette.store.sqlite_read import SqliteReader
from vedette.views.text import clean

_COLOURS = {"done": "green", "running": "cyan", "failed": "red", "cancelled": "yellow", "lost": "magenta"}


def open_home(settings: Settings, run: str = "") -> SqliteReader:
    """Open the home's store, up to date if a hub can be had; a warning goes to stderr."""
    from vedette.app import open_store

    store, warning = open_store(Home.of(settings), run=run)
    if warning:
        sys.stderr.write(f"vedette: {warning}\n")
    return store


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table: drawn by rich on a terminal, else columns that line up."""
    rows = [[clean(cell, one_line=True) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold dim")
        for header in headers:
            keep = header.lower() in ("id", "state")
            drawn.add_column(header, justify="right" if header in right else "left", no_wrap=keep, overflow="fold")
        for row in rows:
            drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
        Console(highlight=False).print(drawn)
        return
    widths = [max(len(row[i]) for row in [list(headers), *rows]) for i in range(len(headers))]
    for row in [list(headers), *rows]:
        cells = [
            cell.rjust(width) if header in right else cell.ljust(width)
            for header, cell, width in zip(headers, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())


def print_json(value: Any) -> None:
    """Print JSON; numbers that JSON has not are text."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def json_line(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def complete_runs(prefix: str, parsed_args: Any, **_: Any) -> list[str]:
    """Offer ids and names of runs to the shell."""
    try:
        from vedette.settings import load
        from vedette.store import SpanQuery
        from vedette.store.sqlite import open_reader

        store = open_reader(Home.of(load({"home": getattr(parsed_args, "home", None)})).store)
        rows = store.spans(SpanQuery(kind="run", limit=200))
        return [word for row in rows for word in (row.id, row.name) if word.startswith(prefix)]
    except Exception:
        return []
