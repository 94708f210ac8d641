"""explain how a run differs from another: the most likely causes first, then every difference
examples:
  vedette diff brisk-otter-417 calm-fox-12
  vedette diff 2pg66 2pg71 --all
  vedette diff 2pg66 2pg71 --json | jq '.causes[0].text'

The first run is A, the second is B.
"""

import argparse
import sys
from collections.abc import Sequence

from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json, table
from vedette.labels import label
from vedette.query.diff import Pair, shown
from vedette.query.explain import Explanation, explain
from vedette.query.knobs import LITTLE
from vedette.query.outcome import MetricPair, UsePair
from vedette.query.runs import RunView, view
from vedette.views.text import clean, duration, number, size

_MOST_CAUSES, _MOST_METRICS, _MOST_DIFF = 10, 20, 40
_SIDES = ("A", "B")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    for name, help_ in (("A", "a run: an id, the beginning of one, or a name"), ("B", "the run to compare it with")):
        parser.add_argument(name, help=help_).completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--all", action="store_true", help="also what is equal, all causes, and whole diffs of files")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Explain two runs."""
    store = open_home(args.settings)
    lost_after_s = args.settings.lost_after_s
    found = explain(
        view(store, args.A, lost_after_s=lost_after_s),
        view(store, args.B, lost_after_s=lost_after_s),
        HomeAccess.of(args.settings).read_blob,
    )
    if args.json:
        print_json(found.as_dict())
        return 0
    for side, one in (("A", found.a), ("B", found.b)):
        print(f"{side:<3}{_head(one)}")
    _print_causes(found, everything=args.all)
    _print_sections(found, everything=args.all)
    _print_outcome(found, everything=args.all)
    return 0


def _head(one: RunView) -> str:
    end = f"{one.state}: {one.cause}" if one.cause else one.state
    return clean(f"{one.name} ({one.id})  {end}, {duration(one.duration_s)}", one_line=True)


def _print_causes(found: Explanation, *, everything: bool) -> None:
    likely = [one for one in found.causes if one.weight >= LITTLE]
    shown_ones = found.causes if everything else likely[:_MOST_CAUSES]
    if not found.causes:
        print("\nnothing that was recorded differs")
        return
    print("\nmost likely causes" if likely else "\nnothing that is likely to matter differs")
    width = _width()
    for one in shown_ones:
        lines = _wrap(clean(one.text, one_line=True), max(20, width - 21))
        dim = one.weight < LITTLE
        print(
            _styled(f"  {one.weight:4.2f}  {one.kind:<11} {lines[0]}", "2" if dim else "1" if one is likely[0] else "")
        )
        for line in lines[1:]:
            print(_styled(" " * 20 + line, "2" if dim else ""))
    left = len(found.causes) - len(shown_ones)
    if left:
        print(_styled(f"  and {left} that {'is' if left == 1 else 'are'} less likely: --all", "2"))


def _print_sections(found: Explanation, *, everything: bool) -> None:
    sections = found.sections
    for title, pairs in (
        ("config", sections.config),
        ("data", sections.data),
        ("packages", sections.packages),
        ("hardware", sections.hardware),
        ("git", sections.git),
        ("environment", sections.environment),
    ):
        _print_pairs(title, pairs, everything=everything)
    command = sections.command
    if command.differs and command.a and command.b:
        print("\ncommand")
        for side, words in (("A", command.a), ("B", command.b)):
            first, *rest = _wrap(clean(" ".join(words), one_line=True), max(20, _width() - 6))
            print(f"  {side:<3}{first}", *(" " * 5 + line for line in rest), sep="\n")
    if sections.code:
        print("\ncode")
        for change in sections.code:
            note = "" if change.sort == "code" else f" ({change.sort})"
            print(
                _styled(
                    f"  {change.change} {clean(change.path, one_line=True)}{note}", "" if change.sort == "code" else "2"
                )
            )
            if change.sort == "code" or everything:
                _print_diff(change.diff, everything=everything)
    for sentence in sections.unread:
        print(f"\n{sentence}")


def _print_pairs(title: str, pairs: Sequence[Pair], *, everything: bool) -> None:
    rows = [one for one in pairs if one.differs or everything]
    if not rows:
        return
    equal = sum(not one.differs for one in pairs)
    print(f"\n{title}" + (f" ({equal} more are equal)" if equal and not everything else ""))
    table(
        ["KEY", *_SIDES],
        [[one.key, "-" if one.only == "b" else shown(one.a), "-" if one.only == "a" else shown(one.b)] for one in rows],
        shrink=["KEY", *_SIDES],
        dim={index for index, one in enumerate(rows) if not one.differs},
    )


def _print_diff(text: str, *, everything: bool) -> None:
    lines = clean(text).split("\n")[2:] if text else []
    room = max(20, _width() - 5)
    for line in lines if everything else lines[:_MOST_DIFF]:
        cut = line if len(line) <= room else line[: room - 1] + "…"
        print("    " + _styled(cut, {"+": "32", "-": "31", "@": "36"}.get(line[:1], "")))
    if len(lines) > _MOST_DIFF and not everything:
        print(_styled(f"    … {len(lines) - _MOST_DIFF} more lines: --all", "2"))


def _print_outcome(found: Explanation, *, everything: bool) -> None:
    outcome = found.outcome
    metrics = outcome.metrics if everything else outcome.metrics[:_MOST_METRICS]
    if metrics:
        print("\nwhat came out: last and best values")
        headers = ["METRIC", "DIFFERS FROM", *_SIDES, "BEST A", "BEST B"]
        table(
            headers,
            [[_name(one), _from(one), *(number(value) for value in (one.a_last, one.b_last, one.a_best, one.b_best))]
             for one in metrics],
            right=headers[2:],
            shrink=["METRIC"],
            drop=["BEST A", "BEST B"],
            dim={index for index, one in enumerate(metrics) if one.first_step is None and not one.ends_first},
        )  # fmt: skip
        left = len(outcome.metrics) - len(metrics)
        if left:
            print(_styled(f"  and {left} more: --all", "2"))
    for side, names in (("A", outcome.only_a), ("B", outcome.only_b)):
        if names:
            more = "" if len(names) <= 10 or everything else f" and {len(names) - 10} more"
            listed = ", ".join(names if everything else names[:10])
            print(clean(f"  only in {side}: {listed}{more}", one_line=True))
    speed = outcome.speed
    rows = [["steps per second", number(speed.a), number(speed.b)]] if speed.a or speed.b else []
    rows.append(["took", duration(found.a.duration_s), duration(found.b.duration_s)])
    for use in outcome.usage:
        rows += _use_rows(use)
    print("\nspeed and use")
    table(["WHAT", *_SIDES], rows, right=_SIDES)


def _use_rows(use: UsePair) -> list[list[str]]:
    def formatted(value: float | None) -> str:
        return "" if value is None else size(value) if "bytes" in use.name else f"{value:.0f}"

    return [
        [f"{use.name}, mean", formatted(use.a_mean), formatted(use.b_mean)],
        [f"{use.name}, most", formatted(use.a_max), formatted(use.b_max)],
    ]


def _name(one: MetricPair) -> str:
    return label(one.name, one.tags)


def _from(one: MetricPair) -> str:
    if one.first_step is not None:
        return f"step {one.first_step}"
    if one.ends_first:
        return f"{one.ends_first.upper()} ends at step {one.a_steps if one.ends_first == 'a' else one.b_steps}"
    return "never" if one.common else "no step in common"


def _width() -> int:
    if not sys.stdout.isatty():
        return 10_000
    from rich.console import Console

    return Console().width


def _wrap(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _styled(text: str, code: str) -> str:
    """Colour a line on a terminal; in a pipe it stays as it is."""
    return f"\x1b[{code}m{text}\x1b[0m" if code and sys.stdout.isatty() else text
