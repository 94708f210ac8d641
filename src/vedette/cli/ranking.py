"""The options `--sort`, `--reverse`, `--best` and `--columns` of the commands that list runs. Not a command itself."""

import argparse
import sys
from typing import Any

from vedette.access.home_access import HomeAccess
from vedette.errors import VedetteError
from vedette.labels import STATISTICS, statistic
from vedette.query.columns import Column, best_is_low, column, order, usual_metric
from vedette.query.runs import RunView
from vedette.query.where import FIELDS
from vedette.store import Reader
from vedette.views.text import duration, moment, number


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--sort", type=_sorted_by, metavar="NAME",
        help="sort by this, the lowest first: metric.loss, loss.min, config.lr, duration; --sort=-NAME: highest first",
    ).completer = complete_columns  # type: ignore[attr-defined]  # fmt: skip
    parser.add_argument("--reverse", action="store_true", help="the other way round")
    parser.add_argument(
        "--best", type=_at_least_one, metavar="N",
        help="only the N best by --sort: the lowest loss or error, the highest accuracy or score, or as --sort says",
    )  # fmt: skip
    parser.add_argument(
        "--columns", default="", metavar="NAME,...",
        help="show these: keys of the config, metrics (loss, loss.min, .max, .mean, .last) and other fields of --where",
    ).completer = complete_columns  # type: ignore[attr-defined]  # fmt: skip


def _sorted_by(text: str) -> str:
    if not text.removeprefix("-").strip():
        raise argparse.ArgumentTypeError("it takes a name, such as metric.loss, config.lr or duration")
    return text


def _at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not text.strip("0"):
        raise argparse.ArgumentTypeError(f"it takes a number from 1 on, not {text!r}")
    return min(int(text[:20]), 1 << 40)


def is_asked(args: argparse.Namespace) -> bool:
    """Tell whether all runs are wanted, since some of them are chosen by their order."""
    return bool(args.sort or args.best is not None or args.reverse)


def ranked(args: argparse.Namespace, store: Reader, views: list[RunView]) -> list[RunView]:
    """Return runs in the order that the options ask for, and only the best if that is asked."""
    if not views or not is_asked(args):
        return views
    said = args.sort or ""
    name, falling = said.removeprefix("-"), said.startswith("-")
    if args.best is not None and not name:
        name = usual_metric(store, views)
        sys.stderr.write(f"the best by {name}; --sort chooses another\n")
    if not name:
        return views[::-1]
    found = column(store, views, name)
    if args.best is not None and not said.startswith("-"):
        low = best_is_low(statistic(name)[0])
        if low is None:
            raise VedetteError(f"the name {name!r} does not tell what is best: say --sort=-{name} if high is best,"
                               f" or leave out --best and give --sort {name} --limit {args.best}")  # fmt: skip
        falling = not low
    rows = [views[index] for index in order(found, falling=falling != args.reverse)]
    if args.best is None:
        return rows
    known = sum(value is not None and value == value for value in found.values)  # noqa: PLR0124 - NaN is not best
    return rows[: min(args.best, known)]


def columns(args: argparse.Namespace, store: Reader, views: list[RunView]) -> list[Column]:
    """Return the columns that are asked for."""
    names = [name.strip() for name in args.columns.split(",") if name.strip()]
    return [column(store, views, name) for name in dict.fromkeys(names)] if views else []


def cell(found: Column, index: int) -> str:
    """Return a value as text."""
    value: Any = found.values[index]
    if found.field == "duration":
        return duration(value)
    if found.field in ("start", "end"):
        return moment(None if value is None else int(value * 1e9))
    return "" if value is None else number(value)


def complete_columns(prefix: str, parsed_args: Any, **_: Any) -> list[str]:
    """Offer fields, keys of the config and metrics of the newest runs to the shell."""
    try:
        from vedette.settings import load
        from vedette.store import Compare, Not

        store = HomeAccess.of(load({"home": getattr(parsed_args, "home", None)})).reader()
        known = [name for name, _ in store.columns(Not(Compare("removed", "=", True)), 100)]
        before, comma, last = prefix.rpartition(",")
        words = [*FIELDS, *known]
        words += [f"{name}.{what}" for name in known if name.startswith("metric.") for what in STATISTICS]
        words += [word.partition(".")[2] for word in words if word.startswith(("config.", "metric."))]
        return [before + comma + word for word in dict.fromkeys(words) if word.startswith(last)]
    except Exception:
        return []
