"""remove runs; they can be brought back, unless they were removed for good
examples:
  vedette rm brisk-otter-417
  vedette rm --undo brisk-otter-417
  vedette rm --where "state = failed and duration < 1m" --dry-run
  vedette rm --undo --where "project = cifar"
  vedette rm 2pg66a5z1bk7qe --now

A removed run is hidden, with the runs below it. `vedette ls --removed` lists it. It keeps its disk space until it is
removed with --now, which cannot be undone.
"""

import argparse
import sys
from collections.abc import Sequence

from msgspec import Struct

from vedette import wire
from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json
from vedette.errors import VedetteError
from vedette.model import PURGED
from vedette.query.edits import running_in
from vedette.query.finding import find_removed
from vedette.query.runs import RunView, below, select, view
from vedette.query.weight import Weights
from vedette.store import Reader
from vedette.views.text import clean, size

_MOST_NAMED = 20
_MOST_AT_ONCE = 1000  # runs in one message


class _Goal(Struct, frozen=True):
    """A run to be removed or brought back, with the runs below it."""

    run: RunView
    below: list[RunView]
    bytes: int


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "RUN", nargs="*", help="an id, the beginning of one, or a name; for a removed run its whole id"
    ).completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument(
        "--where", default="",
        help="also the runs that match this filter, except running ones; with --now also removed ones, with --undo"
        " only these",
    )  # fmt: skip
    parser.add_argument("--now", action="store_true", help="for good: this cannot be undone, and frees the disk space")
    parser.add_argument("--undo", action="store_true", help="bring back runs, unless they were removed for good")
    parser.add_argument("--force", action="store_true", help="even runs that are running")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="as a JSON list of what was done")


def run(args: argparse.Namespace) -> int:
    """Remove, or bring back."""
    if not args.RUN and not args.where:
        raise VedetteError("say which runs: `vedette rm RUN`, or --where")
    if args.undo and args.now:
        raise VedetteError("--undo brings back, and --now removes for good: give one of them")
    store = open_home(args.settings, glance=True)
    goals = _goals(args, store)
    verb = "bring back" if args.undo else "remove for good" if args.now else "remove"
    if goals and not args.dry_run and not _agreed(args, verb, goals):
        sys.stderr.write("nothing was done\n")
        return 1
    if goals and not args.dry_run:
        _tell_hub(args, [goal.run.id for goal in goals])
    if args.json:
        print_json([_as_dict(goal, verb, done=not args.dry_run) for goal in goals])
    else:
        _print(goals, verb, args)
    return 0


def _goals(args: argparse.Namespace, store: Reader) -> list[_Goal]:
    lost_after_s = args.settings.lost_after_s
    if args.undo:
        runs = [RunView(store, find_removed(store, text), lost_after_s=lost_after_s) for text in args.RUN]
        runs += select(store, args.where, removed=True, lost_after_s=lost_after_s) if args.where else []
    else:
        runs = [view(store, text, lost_after_s=lost_after_s) for text in args.RUN]
        for found in runs:
            if found.attrs.get("removed") and not args.now:
                raise VedetteError(f"run {found.id} is removed already; --now removes it for good")
            if not args.force and (alive := running_in(found)):
                raise VedetteError(f"run {alive.id} ({alive.name}) is running: end it first, or give --force")
        if args.where:
            fit = select(store, args.where, lost_after_s=lost_after_s)
            fit += select(store, args.where, removed=True, lost_after_s=lost_after_s) if args.now else []
            left = [found for found in fit if not args.force and running_in(found)]
            runs += [found for found in fit if found not in left]
            if left:
                sys.stderr.write(f"vedette: {_count(left)} left out, as they are running\n")
    unique = list({found.id: found for found in runs}.values())
    goals = []
    weights = Weights(store, HomeAccess.of(args.settings).blobs)
    for found in unique:
        others = below(found)
        goals.append(_Goal(found, others, weights.free([one.id for one in (found, *others)])))
    return goals


def _agreed(args: argparse.Namespace, verb: str, goals: list[_Goal]) -> bool:
    """Ask the user to confirm, if there is a terminal and it matters."""
    if args.yes or (args.undo and not args.where) or (not args.now and len(goals) == 1):
        return True
    if not sys.stdin.isatty():
        if args.now:
            raise VedetteError("--now cannot be undone: without a terminal to ask at, give -y")
        return True
    for goal in goals[:_MOST_NAMED]:
        sys.stderr.write(f"  {_line(goal)}\n")
    if len(goals) > _MOST_NAMED:
        sys.stderr.write(f"  and {len(goals) - _MOST_NAMED} more\n")
    final = "; this cannot be undone" if args.now else ""
    sys.stderr.write(f"{verb} {_count(goals)}, {size(sum(goal.bytes for goal in goals))}{final}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell_hub(args: argparse.Namespace, ids: list[str]) -> None:
    access = HomeAccess.of(args.settings)
    for at in range(0, len(ids), _MOST_AT_ONCE):
        some = ids[at : at + _MOST_AT_ONCE]
        access.ask(wire.Edit(some, state=PURGED) if args.now else wire.Edit(some, {"removed": not args.undo}))


def _print(goals: list[_Goal], verb: str, args: argparse.Namespace) -> None:
    if not goals:
        print("no run matches")
        return
    done = {"bring back": "brought back", "remove": "removed", "remove for good": "removed for good"}[verb]
    for goal in goals:
        print(f"{'would ' + verb if args.dry_run else done} {_line(goal)}")
    if len(goals) > 1:
        print(f"{_count(goals)}, {size(sum(goal.bytes for goal in goals))}")
    if not args.dry_run and args.now:
        print("the hub frees the disk space in the background")
    elif not args.dry_run and not args.undo:
        what = goals[0].run.id if len(goals) == 1 else "RUN..."
        print(f"`vedette rm --undo {what}` brings {'it' if len(goals) == 1 else 'them'} back")


def _line(goal: _Goal) -> str:
    others = f", with {_count(goal.below)} below it" if goal.below else ""
    return f"{goal.run.id}  {clean(goal.run.name, one_line=True)}  ({goal.run.state}, {size(goal.bytes)}{others})"


def _count(runs: Sequence[object]) -> str:
    return f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"


def _as_dict(goal: _Goal, verb: str, *, done: bool) -> dict[str, object]:
    return {
        "id": goal.run.id, "name": goal.run.name, "state": goal.run.state, "bytes": goal.bytes,
        "below": [one.id for one in goal.below], "what": verb, "done": done,
    }  # fmt: skip
