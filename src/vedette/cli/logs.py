"""print what happened in a run: log records, printed lines, marks, warnings, exceptions
examples:
  vedette logs brisk-otter-417
  vedette logs brisk-otter-417 -f
  vedette logs 2pg66 --level warning --grep "loss|nan"
  vedette logs brisk-otter-417 --kind log,warning
  vedette logs --search "out of memory"
"""

import argparse
import math
import os
import sys

from vedette.access.follower import LEFT
from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, count, json_line, open_home
from vedette.query.finding import find
from vedette.query.logs import LEVELS, Wanted
from vedette.query.new_lines import SETTLE_S, NewLines
from vedette.store import EventRow, Reader, SpanQuery
from vedette.views.text import clean, moment

_LEAST_S = 0.05  # between two looks at the store
_COLOURS = {50: "bold red", 40: "red", 30: "yellow", 20: "", 10: "dim"}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "RUN", nargs="?", default="", help="an id, the beginning of one, or a name (default: all runs)"
    ).completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until the run ends")
    parser.add_argument("--grep", default="", help="only lines that match this regular expression")
    parser.add_argument("--search", default="", help="only lines with all these words, by the full-text index")
    parser.add_argument("--level", default="0", help="only this level and above: debug, info, warning, error, critical")
    parser.add_argument(
        "--kind", default="", help="only of this kind, or of several, as in log,output: also warning, exception, mark"
    )
    parser.add_argument("-n", "--last", type=count, help="only the last N", metavar="N")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """Print events."""
    store = open_home(args.settings)
    of = find(store, args.RUN) if args.RUN else None
    span = of.id if of is not None else ""
    wanted = Wanted(grep=args.grep, search=args.search, level=args.level, kind=args.kind)
    if args.follow:
        _follow(args, store, NewLines(store, span, wanted, args.last, settle_s=SETTLE_S))
        return 0
    found = wanted.read(store, span, last=args.last)
    _print(found, as_json=args.json, with_run=not span)
    if not found and not args.json:
        asked = any((args.grep, args.search, args.kind, args.level != "0"))
        none = "nothing yet" if of is None or of.end_t is None else "it has ended, and has no lines"
        sys.stderr.write("no line matches\n" if asked else f"{none}\n")
    return 0


def _follow(args: argparse.Namespace, store: Reader, lines: NewLines) -> None:
    """Print lines as they come; if the hub ends, look for another as long as the run lives."""
    follower, trouble = HomeAccess.of(args.settings).follower(lines.run, least_s=_LEAST_S), ""
    while True:
        change = follower.wait(_LEAST_S if lines.holds else math.inf)
        if follower.trouble not in (trouble, LEFT):
            trouble = follower.trouble
            sys.stderr.write(f"vedette: {trouble or 'the hub answers again'}\n")
        if change is not None or lines.holds:
            ended, found = lines.look(lambda: _ended(store, lines.run), bool)
            _print(found.shown, as_json=args.json, with_run=not lines.run)
            sys.stdout.flush()
            if ended:
                return


def _ended(store: Reader, span: str) -> bool:
    rows = store.spans(SpanQuery(kind="run", prefix=span)) if span else []
    return any(row.id == span and row.end_t is not None for row in rows)


def _print(events: list[EventRow], *, as_json: bool, with_run: bool) -> None:
    if as_json:
        for event in events:
            shown = {name: getattr(event, name) for name in event.__struct_fields__}
            print(json_line(shown))
        return
    names = {number: name.upper() for name, number in LEVELS.items()}
    console = None
    if sys.stdout.isatty():
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
    for event in events:
        level, kind = names.get(event.level, str(event.level)), clean(event.kind, one_line=True)
        head = f"{moment(event.t, exact=True)}  {level:<8}  {kind:<9}"
        run = f"  {clean(event.span, one_line=True)}" if with_run else ""
        text, where = _text(event), _where(event)
        if console is None:
            print(f"{head}{run}  {where}{text}")
        else:
            from rich.text import Text

            console.print(Text.assemble((head + run + "  " + where, "dim"), (text, _COLOURS.get(event.level, ""))))


def _text(event: EventRow) -> str:
    """Return the text of an event, with a log record's traceback below it."""
    text = clean(event.text).rstrip("\n")
    if isinstance(trace := event.attrs.get("exception"), str):
        text += "\n" + clean(trace).rstrip("\n")
    return text.replace("\n", "\n    ")


def _where(event: EventRow) -> str:
    """Return the line of code that logged it, as in `train.py:12`."""
    file, line = event.attrs.get("file"), event.attrs.get("line")
    if event.kind not in ("log", "warning") or not isinstance(file, str) or not file:
        return ""
    return f"{clean(os.path.basename(file), one_line=True)}:{line if isinstance(line, int) else 0}  "
