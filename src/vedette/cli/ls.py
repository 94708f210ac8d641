"""list runs, the newest first
examples:
  vedette ls
  vedette ls --project cifar --limit 20
  vedette ls --where "config.lr > 0.1 and state = failed"
  vedette ls --project cifar --best 5 --sort loss.min --columns lr,loss.min,loss.last
  vedette ls --json | jq '.[].id'

--where knows state, name, id, cause, project, experiment, notes, script, start, end, duration, parent, star,
description, host, python, os, cwd, capture, config.KEY, arg.NAME (an option of its command line), asked.KEY (by
`vedette run --config`), summary.KEY, tag.NAME, metric.NAME (the last value; metric.NAME.min, .max, .mean,
metric.NAME[TAG=VALUE]), git.KEY, code.KEY, cpu.KEY, gpu.KEY, env.NAME and packages.KEY; operators = != < <= > >=
~ (contains) in (a, b), and, or, not.
"""

import argparse
import sys
import time
from collections.abc import Mapping

from vedette.access.home_access import HomeAccess
from vedette.cli import ranking
from vedette.cli.output import count, open_home, print_json, table, tell_left_out
from vedette.errors import HubError
from vedette.model import KINDS
from vedette.query.columns import Column
from vedette.query.progress import Bar, outermost
from vedette.query.runs import RunView, select
from vedette.query.silence import LOST, Seen
from vedette.views.text import clean, duration, moment, number, percent

STATES = (*KINDS["run"].climbing, *KINDS["run"].ends, LOST)
_MOST_METRICS = 4
_MOST_RUNS = 50
_SHORT = 8  # characters of a number where there is little room


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--where", default="", help="only runs that match this filter")
    parser.add_argument("--project", default="", help="only runs of this project")
    parser.add_argument(
        "--state", default="", choices=STATES, metavar="STATE", help=f"only runs in this state: {', '.join(STATES)}"
    )
    parser.add_argument(
        "--removed", action="store_true", help="only removed runs, which `vedette rm --undo` brings back"
    )
    parser.add_argument("--limit", type=count, default=_MOST_RUNS, help="at most this many (default 50; 0 for all)")
    ranking.add(parser)
    parser.add_argument("--json", action="store_true", help="as JSON, with everything that is known")


def run(args: argparse.Namespace) -> int:
    """List runs."""
    store = open_home(args.settings, glance=True)
    limit = None if args.state or ranking.is_asked(args) else args.limit or None
    lost_after_s = args.settings.lost_after_s
    found = select(store, args.where, args.project, limit, removed=args.removed, lost_after_s=lost_after_s)
    if args.state:
        found = [view for view in found if view.state == args.state]
    found = ranking.ranked(args, store, found)[: args.limit or None]
    asked = ranking.columns(args, store, found)
    values = store.last_values([view.id for view in found])
    bars = {view.id: outermost(view.progress()) for view in found if view.end_t is None}
    if args.json:
        print_json(
            [
                as_dict(view, values.get(view.id, {}))
                | {"fraction": _fraction(bars.get(view.id))}
                | ({"columns": {one.name: one.values[n] for one in asked}} if asked else {})
                for n, view in enumerate(found)
            ]
        )
        return 0
    if args.limit == _MOST_RUNS and len(found) == args.limit:
        which = "first" if ranking.is_asked(args) else "newest"
        sys.stderr.write(f"only the {which} {args.limit}; --limit 0 shows all\n")
    if not found:
        narrowed = args.where or args.project or args.state
        print(
            "no run matches" if narrowed else "no run is removed" if args.removed else "no runs yet" + _elsewhere(args)
        )
        return 0
    _print(found, values, bars, asked)
    return 0


def _print(
    found: list[RunView], values: Mapping[str, Mapping[str, object]], bars: Mapping[str, Bar | None],
    asked: list[Column],
) -> None:  # fmt: skip
    """Print a table. On a terminal a start is shown as an age, which is short; columns without a value are left out."""
    cells: dict[str, list[str]] = {
        "ID": [view.id for view in found],
        "NAME": [view.name for view in found],
        "STAR": ["*" if view.attrs.get("star") else "" for view in found],
        "PROJECT": [view.project for view in found],
        "STATE": [view.state for view in found],
        "PART": [percent(_fraction(bars.get(view.id))) for view in found],
    }
    if sys.stdout.isatty():
        now_t = time.time_ns()
        cells["AGE"] = ["" if view.start_t is None else duration((now_t - view.start_t) / 1e9) for view in found]
    else:
        cells["STARTED"] = [moment(view.start_t) for view in found]
    cells["TOOK"] = [duration(view.duration_s) for view in found]
    if asked:
        cells |= {one.name: [ranking.cell(one, n) for n in range(len(found))] for one in asked}
    else:
        cells["LAST VALUES"] = [_last_values(view, values.get(view.id, {})) for view in found]
    cells["CAUSE"] = [view.cause or silence(view) for view in found]
    optional = {"STAR", "PART"} | ({"CAUSE"} if sys.stdout.isatty() else set())
    shown = {header: column for header, column in cells.items() if header not in optional or any(column)}
    names = [one.name for one in asked]
    left_out = table(
        list(shown),
        [list(row) for row in zip(*shown.values(), strict=True)],
        right=["PART", "AGE", "TOOK", *names],
        shrink=["LAST VALUES", "CAUSE", "NAME", "PROJECT"],
        drop=["PROJECT", "LAST VALUES", "ID", "AGE", "TOOK", "CAUSE", *names[::-1]],
        least={"NAME": 12, "PROJECT": 8},
        cut={"LAST VALUES": lambda n, width: _last_values(found[n], values.get(found[n].id, {}), width)},
    )
    tell_left_out(set(left_out).intersection(names))


def _last_values(view: RunView, last: Mapping[str, object], width: int | None = None) -> str:
    """Return the last values; with a width, with fewer digits and fewer of them, so that no number is cut in two."""
    some = list(_summary(view, last).items())
    if width is None:
        return _listed(some, _MOST_METRICS)
    texts = [_listed(some, most, _SHORT) for most in range(min(len(some), _MOST_METRICS), 0, -1)]
    if fitting := next((text for text in texts if len(text) <= width), ""):
        return fitting
    name, text = some[0][0], texts[-1]
    return f"{name[: max(1, width - 1 - len(text) + len(name))]}…{text[len(name) :]}"


def _listed(some: list[tuple[str, object]], most: int, room: int = 13) -> str:
    more = f", +{len(some) - most}" if len(some) > most else ""
    return ", ".join(f"{name}={number(value, room)}" for name, value in some[:most]) + more


def _fraction(bar: Bar | None) -> float | None:
    return bar.fraction if bar is not None else None


def silence(seen: RunView | Seen) -> str:
    """Return how long a lost run or process has been silent; empty if it is not lost."""
    if seen.state != LOST:
        return ""
    ago = duration(seen.silent_s)
    return f"last heard {ago} ago" if seen.heard_t else f"never heard from; it began {ago} ago"


def _elsewhere(args: argparse.Namespace) -> str:
    """Return a note on the other hubs that get what is logged here, if there are any."""
    access = HomeAccess.of(args.settings)
    try:
        health = access.health() if access.has_hub() else None
    except HubError:
        return ""
    hubs = ", ".join(dict.fromkeys(address for address, _ in health.relays)) if health is not None else ""
    where = f"what is logged here goes to the hub at {clean(hubs, one_line=True)}"
    return f" here: {where}; `vedette doctor` tells whether it arrives" if hubs else ""


def as_dict(view: RunView, summary: Mapping[str, object]) -> dict[str, object]:
    """Return a run as scripts get it in JSON."""
    return {
        "id": view.id,
        "name": view.name,
        "project": view.project,
        "experiment": view.attrs.get("experiment"),
        "state": view.state,
        "cause": view.cause,
        "start_t": view.start_t,
        "end_t": view.end_t,
        "duration_s": view.duration_s,
        "heard_t": view.heard_t,
        "tags": view.tags,
        "notes": view.attrs.get("notes"),
        "star": bool(view.attrs.get("star")),
        "description": view.attrs.get("description"),
        "config": view.config,
        "arg": view.arg,
        "asked": view.asked,
        "summary": _summary(view, summary),
    }


def _summary(view: RunView, last: Mapping[str, object]) -> dict[str, object]:
    """Return the last values of a run; what it put into its summary itself comes first, and counts."""
    own: dict[str, object] = {key[8:]: value for key, value in view.attrs.items() if key.startswith("summary.")}
    return own | {name: value for name, value in last.items() if name not in own}
