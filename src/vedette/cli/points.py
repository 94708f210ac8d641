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

from vedette.cli.output import complete_runs, json_line, open_home
from vedette.errors import VedetteError
from vedette.query.runs import find
from vedette.query.series import history


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("NAME", help="the name of the series")
    parser.add_argument("--format", choices=("csv", "json"), default="csv", help="csv (default) or one JSON object")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    parser.add_argument("--all-tries", action="store_true", help="also the points that a later try logged again")
    parser.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE", help="the series with this tag")


def run(args: argparse.Namespace) -> int:
    """Print points."""
    tags = dict(_tag(text) for text in args.tag) if args.tag else None
    store = open_home(args.settings)
    found = find(store, args.RUN)
    points = history(store, found.id, args.NAME, tags, all_tries=args.all_tries)
    steps, times, values = points.step.tolist(), points.t.tolist(), points.value.tolist()
    if args.format == "json":
        print(json_line({"run": found.id, "name": args.NAME, "step": steps, "t": times, "value": values}))
        return 0
    out = sys.stdout
    out.write("step,time,value\n")
    for step, t, value in zip(steps, times, values, strict=True):
        out.write(f"{step},{datetime.fromtimestamp(t / 1e9, UTC).isoformat(timespec='microseconds')},{value!r}\n")
    return 0


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise VedetteError(f"--tag takes KEY=VALUE, not {text!r}")
    return key, value
