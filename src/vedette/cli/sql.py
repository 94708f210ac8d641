"""query the store in SQL, read-only; the points are a table too
examples:
  vedette sql "SELECT name, state, duration_s FROM runs"
  vedette sql "SELECT step, value FROM points WHERE run = '2pg66a5z1bk7qe' AND name = 'loss'" --format csv
  vedette sql ".tables"

Tables and views: runs, attrs, logs, points, spans, claims, events, series, origins and more; see docs/schema.md.
"""

import argparse
import itertools
import sqlite3
import sys
from typing import Any

from vedette.cli.output import CsvRows, csv_cell, open_home, print_json, table
from vedette.errors import DamagedError, VedetteError
from vedette.store.points_view import add_points_view
from vedette.store.sqlite_connection import explained
from vedette.views.text import clean


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("QUERY", help="one SELECT statement, or .tables")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="how to print the rows")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")


def run(args: argparse.Namespace) -> int:
    """Run a query."""
    store = open_home(args.settings)
    add_points_view(store.connection)
    store.connection.set_authorizer(_allow)
    query = args.QUERY
    if query.strip() == ".tables":
        query = (
            "SELECT name, type FROM (SELECT name, type FROM sqlite_schema UNION SELECT name, type FROM"
            " sqlite_temp_schema) WHERE type IN ('table', 'view') AND name NOT LIKE 'events_text%'"
            " ORDER BY type DESC, name"
        )
    try:
        cursor = sqlite3.Cursor(store.connection).execute(query)  # one of sqlite3: the errors are those of the query
        headers = [column[0] for column in cursor.description or []]
        _print(headers, cursor, args.format)
    except (sqlite3.Error, sqlite3.Warning) as error:
        if isinstance(error, sqlite3.Error) and isinstance(ours := explained(error), DamagedError):
            raise ours from None
        raise VedetteError(f"the query cannot be run: {error}") from None
    return 0


def _allow(action: int, *_: object) -> int:
    """Forbid ATTACH: even a read-only connection could write to an attached file."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _print(headers: list[str], rows: Any, form: str) -> None:
    if form == "csv":
        put = CsvRows(sys.stdout).put
        if sys.stdout.isatty():
            headers, rows = [clean(name) for name in headers], ([_clean(cell) for cell in row] for row in rows)
        for row in itertools.chain([headers], rows):
            put(map(csv_cell, row))
    elif form == "json":
        print_json([dict(zip(headers, map(_text, row), strict=True)) for row in rows])
    elif headers:
        table(headers, [["" if cell is None else str(_text(cell)) for cell in row] for row in rows])


def _clean(cell: Any) -> Any:
    return clean(cell) if isinstance(cell, str) else cell


def _text(cell: Any) -> Any:
    return f"<{len(cell)} bytes>" if isinstance(cell, bytes) else cell
