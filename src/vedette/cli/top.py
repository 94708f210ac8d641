"""watch all runs and hosts on one screen: state, progress, trend, CPU, memory, GPU, last line
examples:
  vedette top
  vedette top --where "project = cifar and metric.loss < 0.5" --metric accuracy
  vedette top --all
  vedette top --once
  vedette top --json | jq '.runs[] | select(.alive) | .name'

keys: up down j k choose, enter opens a run, l its lines, / filters, s sorts, a shows what ended long ago,
m chooses the metric, x stops a run (it asks first), t light or dark, ? help, esc back, q quits
"""

import argparse
import contextlib
import sys
import time

from vedette.access.home_access import GLANCE_S, HomeAccess, nothing_yet
from vedette.cli.output import print_json, table
from vedette.errors import HubError, NotFoundError, VedetteError
from vedette.query.overview import MOST_ENDED, RECENT_S, Overview, condition, overview


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--where", default="", help="only runs that match this filter, or whose name has these words")
    parser.add_argument("-a", "--all", action="store_true", help="also the newest of the runs that ended long ago")
    parser.add_argument("--metric", default="", help="the series to draw, if a run has it (default: a loss)")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two looks (default 1)")
    parser.add_argument("--once", action="store_true", help="print it once, as text, and exit")
    parser.add_argument("--json", action="store_true", help="print it once, as JSON, and exit")


def run(args: argparse.Namespace) -> int:
    """Show what runs; without a terminal, once."""
    if not 0.2 <= args.interval <= 3600:
        raise VedetteError("--interval takes seconds, from 0.2 to 3600")
    condition(args.where)
    access = HomeAccess.of(args.settings)
    if args.once or args.json or not _has_terminal():
        return _once(args, access)
    from vedette.views.top.app import Top
    from vedette.views.top.feed import Options

    options = Options(where=args.where, ended=MOST_ENDED if args.all else 0, metric=args.metric)
    shown = Top(access, options=options, interval_s=args.interval)
    shown.run()
    return shown.return_code or 0


def _has_terminal() -> bool:
    """Tell whether a screen can be shown; textual draws on stderr."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _once(args: argparse.Namespace, access: HomeAccess) -> int:
    from vedette.views.top.columns import cells, ordered  # without a screen, no textual

    try:
        store, warning = access.open(GLANCE_S)
    except NotFoundError:
        if args.json:
            print_json({"runs": [], "hosts": [], "alive": 0, "ended": 0})
        else:
            print(nothing_yet(access.root))
        return 0
    if warning:
        sys.stderr.write(f"vedette: {warning}\n")
    health, fresh = None, []
    if access.needs_hub():
        with contextlib.suppress(HubError):
            fresh = access.newest()
            health = access.health()
    seen = overview(
        store,
        args.where,
        ended=MOST_ENDED if args.all else 0,
        metric=args.metric,
        fresh=fresh,
        health=health,
        here=access.host,
        lost_after_s=args.settings.lost_after_s,
    )
    if args.json:
        print_json(_plain(seen))
        return 0
    _print_hosts(seen)
    if not seen.runs:
        matching = "that matches " if args.where else ""
        print(f"no run {matching}is alive or ended in the last {RECENT_S / 60:.0f} minutes; --all shows more")
        return 0
    now = time.time_ns()
    rows = [cells(line, now) for line in ordered(seen.runs, "newest")]
    keys = ["state", "name", "project", "host", "took", "bar", "left", "metric", "last", "cpu", "memory", "gpu", "line"]
    shown = [key for key in keys if key in ("state", "name", "took") or any(row[key].text for row in rows)]
    titles = {"bar": "PROGRESS", "last": "VALUE", "line": "LAST LINE"}
    headers = [titles.get(key, key.upper()) for key in shown]
    table(
        headers,
        [[row[key].text for key in shown] for row in rows],
        right=["TOOK", "PROGRESS", "LEFT", "VALUE", "CPU", "MEMORY", "GPU"],
        shrink=["LAST LINE", "NAME", "PROJECT", "HOST"],
        drop=["PROJECT", "METRIC", "HOST", "GPU", "LEFT", "VALUE", "MEMORY", "CPU", "LAST LINE"],
    )
    return 0


def _print_hosts(seen: Overview) -> None:
    from vedette.views.top.columns import short_size

    rows = []
    for host in seen.hosts:
        gpus = ", ".join(f"{gpu}: {values.get('gpu_percent', 0):.0f}%" for gpu, values in host.gpus.items())
        cpu = "" if host.cpu_percent is None else f"{host.cpu_percent:.0f}%"
        memory = "" if host.memory_bytes is None else short_size(host.memory_bytes)
        skew = "" if host.skew_s is None else f"{host.skew_s:+.1f}s"
        rows.append([host.name, str(host.runs), str(host.processes), cpu, memory, gpus, host.link, skew])
    if rows:
        headers = ["HOST", "RUNS", "PROCESSES", "CPU", "MEMORY", "GPU", "LINK", "CLOCK"]
        table(headers, rows, right=headers[1:5], drop=["CLOCK", "GPU", "LINK"])
        print()


def _plain(seen: Overview) -> object:
    import msgspec

    shown = msgspec.to_builtins(seen)
    for line, row in zip(seen.runs, shown["runs"], strict=True):
        if line.bar is not None:
            row["bar"] |= {"fraction": line.bar.fraction, "eta_s": line.bar.eta_s(time.time_ns())}
    return shown
