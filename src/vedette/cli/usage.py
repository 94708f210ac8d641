"""draw what the processes of a run used: CPU, memory, reads and writes, threads, GPUs
examples:
  vedette usage brisk-otter-417
  vedette usage brisk-otter-417 calm-heron-52    (several runs, on one axis of time)
  vedette usage brisk-otter-417 --html usage.html
  vedette usage 2pg66 --json | jq '.processes[].peak.memory_bytes'
"""

import argparse
import os
import sys
from typing import Any

from vedette.cli.output import complete_runs, open_home, print_json
from vedette.errors import NotFoundError, VedetteError
from vedette.query import usage
from vedette.query.runs import RunView
from vedette.query.runs import view as find_view
from vedette.store import Reader


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", nargs="+", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--html", metavar="FILE", help="write an HTML page that needs no network instead; - is stdout")
    parser.add_argument("--json", action="store_true", help="as JSON, with every sample")


def run(args: argparse.Namespace) -> int:
    """Draw the usage of runs."""
    store = open_home(args.settings)
    found = (find_view(store, word, lost_after_s=args.settings.lost_after_s) for word in args.RUN)
    views = list({view.id: view for view in found}.values())
    if args.json:
        told = [_as_json(store, view) for view in views]
        print_json(told[0] if len(told) == 1 else told)
        return 0
    uses, hosts, marks = usage.together(store, views)
    if not uses:
        if args.html:
            raise NotFoundError(usage.why_none(store, views[0].id))
        print(usage.why_none(store, views[0].id))
        return 0
    if args.html:
        _write(args.html, views, uses, hosts, marks)
        return 0
    from rich.console import Console

    from vedette.views.usage import draw, prepare, width_for

    console = Console(highlight=False, markup=False, emoji=False)
    draw(prepare(uses, hosts, marks, width_for(console)), console)
    return 0


def _write(
    path: str, views: list[RunView], uses: list[usage.Use], hosts: list[usage.Use], marks: list[tuple[int, str]]
) -> None:
    from vedette.views.usage_page import page

    text = page(views, uses, hosts, marks)
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise VedetteError(f"{path} cannot be written: {error.strerror}") from None
    print(os.path.abspath(path))


def _as_json(store: Reader, view: RunView) -> dict[str, Any]:
    return {
        "run": view.id,
        "processes": [_as_dict(one) for one in view.usage()],
        "hosts": [_as_dict(one) for one in usage.hosts(store, view.id)],
        "marks": [{"t": t, "text": text} for t, text in usage.marks(store, view.id)],
    }


def _as_dict(one: usage.Use) -> dict[str, Any]:
    return {
        "process": one.process,
        "pid": one.pid,
        "parent_pid": one.parent_pid,
        "name": one.name,
        "host": one.host,
        "start_t": one.start_t,
        "end_t": one.end_t,
        "mean": {name: float(value.mean()) for name, (_, value) in one.series.items()},
        "peak": {name: float(value.max()) for name, (_, value) in one.series.items()},
        "series": {name: {"t": t.tolist(), "value": value.tolist()} for name, (t, value) in one.series.items()},
    }
