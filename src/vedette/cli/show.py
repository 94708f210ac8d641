"""show one run: what it is, how it ended, its config, series, bars and processes
examples:
  vedette show brisk-otter-417
  vedette show 2pg66 --json
  vedette show 2pg66 --lines 200
"""

import argparse
import shlex
import shutil
import sys
import time
from typing import Any

from msgspec.structs import asdict

from vedette import manifest
from vedette.cli.ls import as_dict, silence
from vedette.cli.output import complete_runs, count, open_home, print_json, table
from vedette.fold import flatten
from vedette.model import UNSEEN
from vedette.query.cells import Cells
from vedette.query.given import ARG, ASKED, apart
from vedette.query.logs import ends, tail
from vedette.query.progress import Bar
from vedette.query.recipe import words_of
from vedette.query.runs import SKEWED_S, RunView
from vedette.query.runs import view as find_view
from vedette.query.signs import last_signs
from vedette.query.silence import Seen
from vedette.query.statistics import with_extremes
from vedette.store import Reader, SeriesRow
from vedette.views.text import clean, counted, duration, moment, number, percent

_MOST_BARS = 20
_LINES = 50
_STACK = 40  # lines of a traceback


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument(
        "--lines", type=count, metavar="N", help="print its last N lines (default: 50 if it failed, else none)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Show a run."""
    store = open_home(args.settings)
    view = find_view(store, args.RUN, lost_after_s=args.settings.lost_after_s)
    series = view.series()
    tries = {row.id: number for number, row in enumerate(view.tries(), 1)}
    if len(tries) > 1:
        series = with_extremes(store, series)
    failed = view.state in ("failed", UNSEEN)
    wanted = args.lines if args.lines is not None else _LINES if failed else 0
    last = tail(store, view.id, wanted) if wanted else []
    died = ends(store, view.id) if failed else []
    if args.json:
        shown = as_dict(view, {row.label: row.last for row in series})
        shown["series"] = [_series_dict(row) for row in series]
        shown["tries"] = [{"try": tries[row.id], **_life(row)} for row in view.tries()]
        shown["progress"] = [_bar_dict(bar) for bar in view.progress()]
        shown["processes"] = [{"try": tries.get(row.parent), **_life(row), **row.attrs} for row in view.processes()]
        shown["cells"] = [{"n": event.attrs.get("n"), "text": event.text} for event in view.logs(kind=manifest.CELL)]
        shown["last"] = asdict(last_signs(store, view))
        shown["skews"] = view.skews()
        shown["refused"] = view.refused()
        shown["died"] = [{"kind": event.kind, "t": event.t, "text": event.text} for event in died]
        shown["lines"] = [{"t": event.t, "text": event.text, **event.attrs} for event in last]
        print_json(shown)
        return 0
    _print_head(store, view)
    _print_values("config", flatten(view.config))
    _print_values("asked for by `vedette run --config`, not in its config", apart(view.attrs, ASKED))
    _print_values("options of its command line", apart(view.attrs, ARG))
    _print_values("summary", {k.removeprefix("summary."): v for k, v in view.attrs.items() if k.startswith("summary.")})
    if series:
        print("\nseries")
        _series_table(series)
    _print_bars(view.progress())
    if len(tries) > 1:
        _print_lives("tries", "TRY", [(str(tries[row.id]), row) for row in view.tries()])
    prefixes = {name: f"try {number}: " for name, number in tries.items()} if len(tries) > 1 else {}
    _print_lives("processes", "PROCESS", [(prefixes.get(row.parent, "") + row.name, row) for row in view.processes()])
    shown_below = "\n".join(event.text for event in last)
    died = [event for event in died if event.text.strip() not in shown_below]
    _print_trouble(view, {event.text for event in died} | {shown_below})
    for event in died:
        print("\n" + ("the exception that ended it" if event.kind == "exception" else "where it was when it died"))
        print("\n".join("  " + line for line in clean(event.text).rstrip().splitlines()[-_STACK:]))
    if last:
        print(f"\nits last {'line' if len(last) == 1 else f'{len(last)} lines'}")
        print("\n".join("  " + line for event in last for line in clean(event.text).rstrip("\n").split("\n")))
    return 0


def _print_head(store: Reader, view: RunView) -> None:
    star = "* " if view.attrs.get("star") else ""
    print(f"{star}{clean(view.name, one_line=True)}  ({view.id})")
    facts = {
        "description": str(view.attrs.get("description") or ""),
        "project": view.project,
        "experiment": str(view.attrs.get("experiment") or ""),
        "state": view.state + (f": {view.cause}" if view.cause else f", {silence(view)}" if silence(view) else ""),
        "started": moment(view.start_t),
        "took": duration(view.duration_s),
        "last": _last_signs(store, view) if view.end_t is None else "",
        "tags": ", ".join(view.tags),
        "notes": str(view.attrs.get("notes") or ""),
        "notebook": str(view.attrs.get("notebook") or ""),
        "command": _fitted(shlex.join(words_of(view.attrs, "argv"))),
        "code": _code(view),
        "refused": ", ".join(f"{count} points over {limit}" for limit, count in view.refused().items()),
        "clocks": ", ".join(
            f"{host} is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}; its times are as it reported them"
            for host, skew in sorted(view.skews().items())
            if abs(skew) >= SKEWED_S
        ),
        "removed": f"`vedette rm --undo {view.id}` brings it back" if view.attrs.get("removed") else "",
    }
    for label, text in facts.items():
        if text:
            print(f"  {label:<12}{clean(text, one_line=True)}")


def _last_signs(store: Reader, view: RunView) -> str:
    """Return how long ago a run last said something, logged a point, and used CPU: what tells whether it is stuck."""
    signs, now_t = last_signs(store, view), time.time_ns()
    named = (("line", signs.line_t), ("point", signs.point_t), ("CPU use", signs.cpu_t))
    return ", ".join(
        f"{name} {duration(max(0, now_t - t) / 1e9)} ago" if t is not None else f"no {name} yet" for name, t in named
    )


def _fitted(text: str) -> str:
    """Cut a text to what one line of a terminal shows; a pipe gets all of it."""
    text = clean(text, one_line=True)
    room = shutil.get_terminal_size().columns - 14
    return text if len(text) <= room or not sys.stdout.isatty() else text[: max(0, room - 3)] + "..."


def _code(view: RunView) -> str:
    """Return which code it ran, and whether all of it was captured."""
    attrs = view.attrs
    commit = f"{str(attrs.get('git.commit', ''))[:12]}{' and changes' if attrs.get('git.dirty') else ''}"
    named = f"{commit} on {attrs['git.branch']}" if commit and attrs.get("git.branch") else commit
    files = counted(attrs["code.files"], "file") if attrs.get("code.digest") else ""
    cells = counted(Cells(view).count, "cell") if attrs.get("notebook") else ""
    left = f"{attrs['code.left_out']} left out" if attrs.get("code.left_out") else ""
    capture = str(attrs.get("capture", "done"))
    unsure = "" if capture == "done" else f"capture: {capture}"
    return ", ".join(filter(None, (named, cells, files, left, unsure)))


def _print_values(title: str, values: dict[str, Any]) -> None:
    if values:
        print(f"\n{title}")
        width = min(40, max(len(key) for key in values))
        for key, value in values.items():
            print(f"  {clean(key, one_line=True):<{width}}  {clean(str(value), one_line=True)}")


def _life(row: Seen) -> dict[str, object]:
    return {
        "id": row.id, "name": row.name, "state": row.state, "cause": row.cause, "start_t": row.start_t,
        "end_t": row.end_t, "heard_t": row.heard_t,
    }  # fmt: skip


def _print_lives(title: str, kind: str, lives: list[tuple[str, Seen]]) -> None:
    rows = [
        [
            name,
            row.state,
            str(row.attrs.get("host", "")),
            moment(row.start_t),
            duration(((row.end_t or time.time_ns()) - row.start_t) / 1e9 if row.start_t else None),
            row.cause or silence(row),
        ]
        for name, row in lives
    ]
    if rows:
        print(f"\n{title}")
        headers = [kind, "STATE", "HOST", "STARTED", "TOOK", "CAUSE"]
        if not any(row[2] for row in rows):
            headers, rows = [*headers[:2], *headers[3:]], [[*row[:2], *row[3:]] for row in rows]
        table(headers, rows, right=["TOOK"], shrink=["CAUSE"], drop=["STARTED", "HOST"])


def _print_bars(bars: list[Bar]) -> None:
    if not bars:
        return
    print("\nprogress")
    if len(bars) > _MOST_BARS:
        print(f"(the newest {_MOST_BARS} of {len(bars)}; --json has them all)")
    now_t = time.time_ns()
    rows = []
    for bar in bars[-_MOST_BARS:]:
        took_s = ((bar.end_t or now_t) - bar.start_t) / 1e9 if bar.start_t else None
        left_s = bar.eta_s(now_t)
        rows.append(
            [bar.name or "(no name)", bar.state, _count(bar.done), _count(bar.total), percent(bar.fraction),
             f"{number(bar.rate)}/s" if bar.rate is not None else "", duration(took_s),
             f"in {duration(left_s)}" if left_s is not None else "", bar.cause]
        )  # fmt: skip
    headers = ["BAR", "STATE", "DONE", "OF", "PART", "RATE", "TOOK", "ENDS", "CAUSE"]
    right = ["DONE", "OF", "PART", "RATE", "TOOK"]
    table(headers, rows, right=right, shrink=["CAUSE", "BAR"], drop=["TOOK", "RATE", "OF"])


def _count(value: float | None) -> str:
    return str(int(value)) if value is not None and value.is_integer() else number(value)


def _bar_dict(bar: Bar) -> dict[str, object]:
    return asdict(bar) | {"fraction": bar.fraction, "rate": bar.rate, "eta_s": bar.eta_s(time.time_ns())}


def _print_trouble(view: RunView, elsewhere: set[str]) -> None:
    """Print the number of warnings and errors, and the last of the worst unless it is printed elsewhere."""
    wrong = view.logs(level=30)
    if not wrong:
        return
    print(f"\n{len(wrong)} {'warning or error' if len(wrong) == 1 else 'warnings and errors'}", end="")
    worst = max(wrong, key=lambda event: (event.level, event.id))
    if any(worst.text.strip() in text for text in elsewhere):
        print(f": vedette logs {view.id} --level warning")
        return
    print("; the worst:")
    print("\n".join("  " + line for line in clean(worst.text).rstrip().splitlines()[-12:]))
    print(f"see them all: vedette logs {view.id} --level warning")


def _series_table(series: list[SeriesRow]) -> None:
    rows = [
        [row.label, str(row.count), number(row.last), number(row.min), number(row.max), str(row.last_step)]
        for row in series
    ]
    headers = ["NAME", "POINTS", "LAST", "MIN", "MAX", "LAST STEP"]
    table(headers, rows, right=headers[1:], shrink=["NAME"], drop=["LAST STEP", "MIN", "MAX"])


def _series_dict(row: SeriesRow) -> dict[str, object]:
    return {
        "name": row.name, "tags": row.tags, "points": row.count, "last": row.last, "min": row.min, "max": row.max,
        "last_step": row.last_step, "last_t": row.last_t,
    }  # fmt: skip
