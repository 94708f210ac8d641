"""print the points of a series: step, time and value
examples:
  vedette points brisk-otter-417 loss > loss.csv
  vedette points 2pg66 loss --format json
  vedette points 2pg66 temperature --tag sensor=a
  vedette points 2pg66 loss --all-tries
"""

import argparse
import sys
from datetime import UTC, datetime

from vedette.cli.output import CsvRows, complete_runs, complete_series, csv_cell, json_line, open_home
from vedette.errors import VedetteError
from vedette.query.finding import find
from vedette.query.series import history
from vedette.views.text import clean


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("NAME", help="the name of the series").completer = complete_series  # type: ignore[attr-defined]
    parser.add_argument("--format", choices=("csv", "json"), default="csv", help="csv (default) or one JSON object")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    parser.add_argument("--all-tries", action="store_true", help="also the points that a later try logged again")
    parser.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE", help="the series with this tag")


def run(args: argparse.Namespace) -> int:
    """Print points."""
    tags = dict(_tag(text) for text in args.tag) if args.tag else None
    store = open_home(args.settings)
    found = find(store, args.RUN)
    named: list[dict[str, str] | None] = [tags]
    if tags is None and len(rows := store.series([found.id], args.NAME)) > 1:
        named = sorted(
            (row.tags for row in rows), key=lambda each: sorted((each or {}).items())
        )  # all are shown, told apart
    parts = [history(store, found.id, args.NAME, each, all_tries=args.all_tries) for each in named]
    points = [
        (step, t, value, each or {})
        for each, part in zip(named, parts, strict=True)
        for step, t, value in zip(part.step.tolist(), part.t.tolist(), part.value.tolist(), strict=True)
    ]
    apart = len(named) > 1
    if args.format == "json":
        columns = {key: [point[n] for point in points] for n, key in enumerate(("step", "t", "value"))}
        told_apart = {"tags": [point[3] for point in points]} if apart else {}
        print(json_line({"run": found.id, "name": args.NAME, **columns, **told_apart}))
        return 0
    keys = sorted({key for each in named for key in each or ()}) if apart else []
    shown = (lambda text: clean(text, one_line=True)) if sys.stdout.isatty() else str
    write = CsvRows(sys.stdout).put
    write(["step", "time", "value", *(csv_cell(shown(key)) for key in keys)])
    for step, t, value, each in points:
        when = datetime.fromtimestamp(t / 1e9, UTC).isoformat(timespec="microseconds")
        write([step, when, repr(value), *(csv_cell(shown(each.get(key, ""))) for key in keys)])
    return 0


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise VedetteError(f"--tag takes KEY=VALUE, not {text!r}")
    return key, value
