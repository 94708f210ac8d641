"""How a command answers: a table on a terminal, plain text in a pipe, JSON for scripts. Not a command itself."""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any

from vedette.access.home_access import GLANCE_S, HomeAccess
from vedette.settings import Settings
from vedette.store.sqlite_read import SqliteReader
from vedette.views.text import clean, counted, for_json

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOURS = {
    "done": "green",
    "running": "cyan",
    "leaving": "cyan",
    "failed": "red",
    "cancelled": "yellow",
    "ended": "magenta",
    "lost": "magenta",
}

_NO_LEAST: Mapping[str, int] = {}
_NO_CUT: Mapping[str, Callable[[int, int], str]] = {}


def open_home(settings: Settings, *, glance: bool = False) -> SqliteReader:
    """Open the home's store, up to date if a hub answers; a warning goes to stderr.

    `glance`: an overview will do, and is not worth waiting for a hub that has much to read.
    """
    access = HomeAccess.of(settings)
    store, warning = access.open(GLANCE_S)
    if warning and not glance and access.has_hub():
        if sys.stderr.isatty():
            sys.stderr.write("vedette: the hub is reading what was logged; waiting for it ...\n")
        store.close()
        store, warning = access.open()
    if warning:
        sys.stderr.write(f"vedette: {warning}\n")
    return store


def count(text: str) -> int:
    """Parse a count from the command line."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return min(int(text[:20]), 1 << 40)


class CsvRows:
    """Writes rows of CSV that end in a newline. A cell with a carriage return is quoted, too: it would begin a row."""

    def __init__(self, file: Any) -> None:
        import csv

        self._file = file
        self.put = csv.writer(self).writerow  # it quotes what its own line ends have, which are \r\n

    def write(self, row: str) -> None:
        """Take a row of the writer."""
        self._file.write(row[:-2] + "\n")


def csv_cell(value: Any) -> Any:
    """Return a cell of CSV: text that a spreadsheet would run as a formula gets a quote in front, as on the page.

    Numbers stay as they are. `cell` in `web/src/pages/compare/export.ts` has the same rule.
    """
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) and value != "-inf"
    return f"'{value}" if formula else value


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    shrink: Sequence[str] = (),
    drop: Sequence[str] = (),
    dim: Container[int] = (),
    least: Mapping[str, int] = _NO_LEAST,
    cut: Mapping[str, Callable[[int, int], str]] = _NO_CUT,
) -> list[str]:
    """Print a table: on a terminal coloured and cut to its width, in a pipe whole and with aligned columns.

    Return the columns that were left out.

    On a terminal that is too narrow the columns in `drop` are left out, and those in `shrink` cut, in that order;
    `least`: to how many characters, if not to 20. `dim`: the numbers of the rows that are printed dim.
    `cut`: how to write the cell of a row in so many characters, if not with its end cut off.
    """
    headers = [clean(header, one_line=True) for header in headers]
    rows = [[clean(cell, one_line=True) for cell in row] for row in rows]
    widths = {header: max(len(row[i]) for row in [list(headers), *rows]) for i, header in enumerate(headers)}
    if not sys.stdout.isatty():
        for row in [list(headers), *rows]:
            cells = [
                cell.rjust(widths[header]) if header in right else cell.ljust(widths[header])
                for header, cell in zip(headers, row, strict=True)
            ]
            print("  ".join(cells).rstrip())
        return []
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    _fit(widths, console.width, shrink, drop, least)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for header, width in widths.items():
        drawn.add_column(
            header,
            justify="right" if header in right else "left",
            no_wrap=bool(shrink),
            overflow="ellipsis" if shrink else "fold",
            width=width if shrink else None,
        )
    for index, row in enumerate(rows):
        shown = [
            clean(cut[header](index, widths[header]), one_line=True)
            if header in cut and len(cell) > widths[header]
            else cell
            for header, cell in zip(headers, row, strict=True)
            if header in widths
        ]
        drawn.add_row(*(Text(cell, style="dim" if index in dim else _COLOURS.get(cell, "")) for cell in shown))
    with console.capture() as captured:
        console.print(drawn)
    print("\n".join(line for line in captured.get().splitlines() if Text.from_ansi(line).plain.strip()))
    return [header for header in headers if header not in widths]


def tell_left_out(columns: Collection[str]) -> None:
    """Say on stderr that there was no room for some columns, and what to do."""
    if columns:
        count = counted(len(columns), "column")
        sys.stderr.write(f"no room for {count}: widen the terminal, choose some by --columns, or use --json\n")


_GAP = 2
_LEAST_WIDTH = 20


def _fit(
    widths: dict[str, int], space: int, shrink: Sequence[str], drop: Sequence[str], least: Mapping[str, int]
) -> None:
    """Drop columns until the rest fits with those in `shrink` at their least width; then cut these as needed."""

    def over() -> int:
        return sum(widths.values()) + _GAP * len(widths) - space

    spare = {header: max(0, widths[header] - least.get(header, _LEAST_WIDTH)) for header in shrink if header in widths}
    for header in drop:
        if over() > sum(spare.values()):
            widths.pop(header, None)
            spare.pop(header, None)
    for header in shrink:
        if header in widths:
            widths[header] -= max(0, min(spare[header], over()))


def print_json(value: Any) -> None:
    """Print JSON; NaN and infinity, which JSON does not have, become text."""
    print(_escape_controls(json.dumps(for_json(value), indent=2, ensure_ascii=False)))


def json_line(value: Any) -> str:
    """Return JSON on one line."""
    return _escape_controls(json.dumps(for_json(value), ensure_ascii=False))


def _escape_controls(text: str) -> str:
    """Escape the control characters that a terminal might obey; the JSON means the same."""
    return _CONTROLS.sub(lambda found: "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


class PointCount:
    """Shows on stderr how many points are done, on a terminal and once it takes a while."""

    def __init__(self, label: str = "") -> None:
        """`label`: what the points belong to."""
        self._label = f"{clean(label, one_line=True)}: " if label else ""
        self._next = time.monotonic() + 1
        self._shown = False

    def show(self, points: int) -> None:
        """Rewrite the line, twice a second."""
        if sys.stderr.isatty() and time.monotonic() > self._next:
            self._next = time.monotonic() + 0.5
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{self._label}{points} points so far")
            sys.stderr.flush()

    def close(self) -> None:
        """Erase the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")


def complete_series(prefix: str, parsed_args: Any, **_: Any) -> list[str]:
    """Offer the names of the series of the runs that were typed before."""
    try:
        from vedette.query.finding import find
        from vedette.settings import load

        store = HomeAccess.of(load({"home": getattr(parsed_args, "home", None)})).reader()
        typed = parsed_args.RUN or []
        runs = [find(store, text).id for text in ([typed] if isinstance(typed, str) else typed)]
        return sorted({row.name for row in store.series(runs) if row.name.startswith(prefix)}) if runs else []
    except Exception:
        return []


def complete_runs(prefix: str, parsed_args: Any, **_: Any) -> list[str]:
    """Offer ids and names of runs to the shell."""
    try:
        from vedette.query.runs import select
        from vedette.settings import load

        store = HomeAccess.of(load({"home": getattr(parsed_args, "home", None)})).reader()
        runs = select(store, limit=200, removed=getattr(parsed_args, "undo", False))
        return [word for run in runs for word in (run.id, run.name) if word.startswith(prefix)]
    except Exception:
        return []
