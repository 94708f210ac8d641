"""compare runs side by side: what differs, and their last values
examples:
  vedette compare brisk-otter-417 calm-fox-12 2pg66
  vedette compare --where "project = cifar and state = done"
  vedette compare --where "project = cifar" --best 5 --sort loss.min --columns lr,loss.min,loss.last
  vedette compare 2pg66 2pg71 --all
  vedette compare 2pg66 2pg71 --json | jq '.properties[].key'
"""

import argparse
import itertools
import sys
import time
from collections import Counter

from msgspec.structs import asdict

from vedette.cli import ranking
from vedette.cli.output import complete_runs, count, open_home, print_json, table, tell_left_out
from vedette.errors import VedetteError
from vedette.query.compare import Comparison, Key, cells, compare
from vedette.query.knobs import LITTLE, judge
from vedette.query.runs import select, view
from vedette.views.text import duration, number

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
    ranking.add(parser)
    parser.add_argument("--all", action="store_true", help="also the keys that are equal in all runs, and all metrics")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare runs."""
    if not args.RUN and not args.where and not ranking.is_asked(args):
        raise VedetteError("name the runs to compare, or say --where: `vedette compare --help` has examples")
    store = open_home(args.settings)
    lost_after_s = args.settings.lost_after_s
    views = [view(store, text, lost_after_s=lost_after_s) for text in args.RUN]
    if args.where or not args.RUN:
        limit = None if ranking.is_asked(args) else args.limit or None
        views += select(store, args.where, limit=limit, lost_after_s=lost_after_s)
    views = ranking.ranked(args, store, list({one.id: one for one in views}.values()))[: args.limit or None]
    if not views:
        print("no run matches")
        return 0
    found, asked = compare(views), ranking.columns(args, store, views)
    if args.json:
        print_json(found.as_dict() | ({"columns": [asdict(one) for one in asked]} if asked else {}))
        return 0
    if asked:
        rows = [[one.name, *(ranking.cell(one, n) for n in range(len(views)))] for one in asked]
        _print(found, [*_lives(found), *rows], set(), [one.name for one in asked])
        return 0
    keys = sorted((one for one in found.keys if one.differs or args.all), key=_rank)
    metrics = found.metrics if args.all else found.metrics[:_MOST_METRICS]
    numbers = [[one.key, *cells(one)] for one in found.summary]
    numbers += [[f"metric.{one.label}", *(number(value) for value in one.last)] for one in metrics]
    rows = _lives(found)
    matter = [[one.key, *cells(one)] for one in keys if _rank(one) == 0]
    rows += matter + numbers
    rows += [[one.key, *cells(one)] for one in keys if _rank(one) != 0]
    equal_keys = {one.key for one in keys if not one.differs}
    dim = {index for index, row in enumerate(rows) if row[0] in equal_keys}
    differ = [row for row in numbers if len(set(row[1:])) > 1]
    turns = itertools.chain.from_iterable(itertools.zip_longest(differ, matter))
    _print(found, rows, dim, [row[0] for row in turns if row])
    equal = sum(not one.differs for one in found.keys)
    if equal and not args.all:
        sys.stderr.write(f"{equal} keys are equal in all runs; --all shows them\n")
    return 0


def _lives(found: Comparison) -> list[list[str]]:
    """Return how each run ended, how long ago it began, and how long it took; these rows come first."""
    now_t = time.time_ns()
    ages = ["" if one.start_t is None else duration((now_t - one.start_t) / 1e9) for one in found.runs]
    rows = [
        ["state", *(one.state for one in found.runs)],
        ["cause", *(one.cause for one in found.runs)],
        ["age", *ages],
        ["took", *(duration(one.duration_s) for one in found.runs)],
    ]
    return [row for row in rows if any(row[1:])]


def _print(found: Comparison, rows: list[list[str]], dim: set[int], first: list[str]) -> None:
    """Print runs as columns; as rows if there are many, and then the keys in `first` come before the others."""
    headers = _headers(found)
    if len(found.runs) <= _columns():
        table(["", *headers], rows, shrink=["", *headers], dim=dim)
    else:
        order = {key: place for place, key in enumerate(["state", *first])}
        rows = sorted(rows, key=lambda row: order.get(row[0], len(order)))
        keys_shown = [row[0] for row in rows]
        by_run = [[header, *(row[index + 1] for row in rows)] for index, header in enumerate(headers)]
        tell_left_out(table(["RUN", *keys_shown], by_run, shrink=["RUN", *keys_shown], drop=keys_shown[:0:-1]))


def _rank(key: Key) -> int:
    """Return the order of a key: config that changes numbers first, then other differences, then equal keys."""
    if not key.differs:
        return 2
    family, _, name = key.key.partition(".")
    matters = family in ("config", "arg") and judge(name, key.values[0], key.values[-1]).weight >= LITTLE
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
