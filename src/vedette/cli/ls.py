"""list runs, the newest first
examples:
  vedette ls
  vedette ls --project cifar --limit 20
  vedette ls --where "config.lr > 0.1 and state = failed"
  vedette ls --json | jq '.[].id'

--where knows state, name, id, cause, project, experiment, notes, script, start, end, duration, parent, star,
description, host, python, os, cwd, capture, config.KEY, summary.KEY, tag.NAME, metric.NAME (the last value), git.KEY,
code.KEY, cpu.KEY, gpu.KEY, env.NAME and packages.KEY; operators = != < <= > >= ~ (contains) in (a, b), and, or, not.
"""

import argparse
import sys
from collections.abc import Mapping

from vedette.access.home_access import HomeAccess
from vedette.cli.output import count, open_home, print_json, table
from vedette.errors import HubError
from vedette.model import KINDS
from vedette.query.progress import Bar, outermost
from vedette.query.runs import RunView, select
from vedette.query.silence import LOST, Seen
from vedette.views.text import clean, duration, moment, number, percent

STATES = (*KINDS["run"].climbing, *KINDS["run"].ends, LOST)
_MOST_METRICS = 4
_MOST_RUNS = 50


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
    parser.add_argument("--json", action="store_true", help="as JSON, with everything that is known")


def run(args: argparse.Namespace) -> int:
    """List runs."""
    store = open_home(args.settings)
    limit = None if args.state else args.limit or None
    lost_after_s = args.settings.lost_after_s
    found = select(store, args.where, args.project, limit, removed=args.removed, lost_after_s=lost_after_s)
    if args.state:
        found = [view for view in found if view.state == args.state][: args.limit or None]
    values = store.last_values([view.id for view in found])
    bars = {view.id: outermost(view.progress()) for view in found if view.end_t is None}
    if args.json:
        print_json(
            [as_dict(view, values.get(view.id, {})) | {"fraction": _fraction(bars.get(view.id))} for view in found]
        )
        return 0
    if args.limit == _MOST_RUNS and len(found) == args.limit:
        sys.stderr.write(f"only the newest {args.limit}; --limit 0 shows all\n")
    if not found:
        narrowed = args.where or args.project or args.state
        print(
            "no run matches" if narrowed else "no run is removed" if args.removed else "no runs yet" + _elsewhere(args)
        )
        return 0
    headers = ["ID", "NAME", "PROJECT", "STATE", "PART", "STARTED", "TOOK", "LAST VALUES", "CAUSE"]
    rows = []
    for view in found:
        some = list(values.get(view.id, {}).items())
        shown = ", ".join(f"{name}={number(value)}" for name, value in some[:_MOST_METRICS])
        more = f", +{len(some) - _MOST_METRICS}" if len(some) > _MOST_METRICS else ""
        part = percent(_fraction(bars.get(view.id)))
        rows.append(
            [view.id, view.name, view.project, view.state, part, moment(view.start_t), duration(view.duration_s),
             shown + more, view.cause or silence(view)]
        )  # fmt: skip
    if any(view.attrs.get("star") for view in found):
        headers.insert(2, "STAR")
        for view, row in zip(found, rows, strict=True):
            row.insert(2, "*" if view.attrs.get("star") else "")
    if not any(bars.values()):
        at = headers.index("PART")
        headers.remove("PART")
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
    table(
        headers,
        rows,
        right=["PART", "TOOK"],
        shrink=["LAST VALUES", "CAUSE", "NAME", "PROJECT"],
        drop=["STARTED", "PROJECT", "TOOK", "ID", "LAST VALUES"],
    )
    return 0


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
    try:
        health = HomeAccess.of(args.settings).health()
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
        "summary": dict(summary) | {k[8:]: v for k, v in view.attrs.items() if k.startswith("summary.")},
    }
