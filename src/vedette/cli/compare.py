"""compare runs side by side: what differs, and their last values
examples:
  vedette compare brisk-otter-417 calm-fox-12 2pg66
  vedette compare --where "project = cifar and state = done"
  vedette compare 2pg66 2pg71 --all
  vedette compare 2pg66 2pg71 --json | jq '.properties[].key'
"""

import argparse
import sys
from collections import Counter

from vedette.cli.output import complete_runs, count, open_home, print_json, table
from vedette.errors import VedetteError
from vedette.query.compare import Comparison, Key, cells, compare
from vedette.query.knobs import LITTLE, judge
from vedette.query.runs import select, view
from vedette.views.text import number

_MOST_RUNS = 50
_MOST_METRICS = 10
_PIPE_COLUMNS = 6  # in a pipe, more runs than this are rows, not columns
_RUN_WIDTH = 14  # the least characters of a run's column
_KEY_WIDTH = 24  # the characters of the column of keys


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "RUN", nargs="*", help="a run: an id, the beginning of one, or a name"
    ).completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--where", default="", help="also the runs that match this filter, as for `vedette ls`")
    parser.add_argument(
        "--limit", type=count, default=_MOST_RUNS, help="at most this many of them (default 50; 0 for all)"
    )
    parser.add_argument("--all", action="store_true", help="also the keys that are equal in all runs, and all metrics")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare runs."""
    if not args.RUN and not args.where:
        raise VedetteError("name the runs to compare, or say --where: `vedette compare --help` has examples")
    store = open_home(args.settings)
    lost_after_s = args.settings.lost_after_s
    views = [view(store, text, lost_after_s=lost_after_s) for text in args.RUN]
    if args.where:
        views += select(store, args.where, limit=args.limit or None, lost_after_s=lost_after_s)
    if not views:
        print("no run matches")
        return 0
    found = compare(views)
    if args.json:
        print_json(found.as_dict())
        return 0
    keys = sorted((one for one in found.keys if one.differs or args.all), key=_rank)
    metrics = found.metrics if args.all else found.metrics[:_MOST_METRICS]
    numbers = [[f"metric.{one.name}", *(number(value) for value in one.last)] for one in metrics]
    rows = [["state", *(one.state for one in found.runs)]]
    rows += [[one.key, *cells(one)] for one in keys if _rank(one) == 0]
    rows += numbers
    rows += [[one.key, *cells(one)] for one in keys if _rank(one) != 0]
    equal_keys = {one.key for one in keys if not one.differs}
    dim = {index for index, row in enumerate(rows) if row[0] in equal_keys}
    headers = _headers(found)
    if len(found.runs) <= _columns():
        table(["", *headers], rows, shrink=["", *headers], dim=dim)
    else:
        keys_shown = [row[0] for row in rows]
        by_run = [[header, *(row[index + 1] for row in rows)] for index, header in enumerate(headers)]
        table(["RUN", *keys_shown], by_run, shrink=["RUN", *keys_shown], drop=keys_shown[:0:-1])
    equal = sum(not one.differs for one in found.keys)
    if equal and not args.all:
        sys.stderr.write(f"{equal} keys are equal in all runs; --all shows them\n")
    return 0


def _rank(key: Key) -> int:
    """Return the order of a key: config that changes numbers first, then other differences, then equal keys."""
    if not key.differs:
        return 2
    matters = key.key.startswith("config.") and judge(key.key[7:], key.values[0], key.values[-1]).weight >= LITTLE
    return 0 if matters else 1


def _headers(found: Comparison) -> list[str]:
    """Return what to call the runs: their names, with the id where two have the same name."""
    names = [one.name or one.id for one in found.runs]
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} {one.id}" for name, one in zip(names, found.runs, strict=True)]


def _columns() -> int:
    if not sys.stdout.isatty():
        return _PIPE_COLUMNS
    from rich.console import Console

    return max(2, (Console().width - _KEY_WIDTH) // (_RUN_WIDTH + 3))
