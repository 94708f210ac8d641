"""stop a run on any machine: SIGTERM, then SIGKILL after a grace period
examples:
  vedette stop brisk-otter-417
  vedette stop 2pg66 --grace 60
"""

import argparse
import contextlib

from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json
from vedette.deaths.tree import GRACE_S
from vedette.errors import HubError, VedetteError
from vedette.model import KINDS
from vedette.query.finding import find
from vedette.query.runs import RunView, view
from vedette.store import Reader

_MARGIN_S = 15.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument(
        "--grace", type=float, default=GRACE_S, help="seconds between SIGTERM and SIGKILL (default %(default)g)"
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait for its end")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Stop a run; raise HubError when it has not ended in time."""
    if not 0 <= args.grace <= 86400:
        raise VedetteError("--grace takes seconds, from 0 to 86400")
    access = HomeAccess.of(args.settings)
    store = open_home(args.settings, glance=True)
    found = find(store, args.RUN)
    if found.state not in KINDS["run"].climbing:
        left = ""
        with contextlib.suppress(HubError):  # nothing is left
            access.stop(found.id, args.grace)
            left = "; what it has left behind was told to stop"
        return _report(
            args, found.id, found.state, found.cause, f"run {found.id} has ended already: {found.state}{left}"
        )
    access.stop(found.id, args.grace)
    if args.no_wait:
        return _report(args, found.id, found.state, "", f"run {found.id} was told to stop")
    now = access.wait_for(lambda: _ended(store, found.id), args.grace + _MARGIN_S, found.id)
    if now is not None:
        why = f": {now.cause}" if now.cause else ""
        return _report(args, found.id, now.state, now.cause, f"run {found.id} ended: {now.state}{why}")
    raise HubError(
        f"run {found.id} has not ended: its machine may be out of reach; `vedette show {found.id}` tells more"
    )


def _ended(store: Reader, run: str) -> RunView | None:
    now = view(store, run)
    return now if now.end_t is not None else None


def _report(args: argparse.Namespace, run_id: str, state: str, cause: str, text: str) -> int:
    if args.json:
        print_json({"id": run_id, "state": state, "cause": cause})
    else:
        print(text)
    return 0
