"""take in what was logged elsewhere: homes, spools and archives, each as often as you like
examples:
  vedette sync brisk-otter-417.vedette
  vedette sync /mnt/node7/home/.vedette
  vedette sync /scratch/job-*/.vedette/spool
"""

import argparse
import os
import sys

from vedette import wire
from vedette.access.home_access import HomeAccess
from vedette.cli.output import PointCount, print_json
from vedette.errors import NotFoundError
from vedette.views.text import clean


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("PATH", nargs="+", help="a home, a spool, a store.db, or an archive of `vedette export`")
    parser.add_argument("--json", action="store_true", help="as JSON: what was new in each")


def run(args: argparse.Namespace) -> int:
    """Have the hub take in each path."""
    access = HomeAccess.of(args.settings)
    if missing := [path for path in args.PATH if not os.path.exists(path)]:
        raise NotFoundError(f"there is nothing at {missing[0]}")
    all_news = []
    for path in args.PATH:
        counted = PointCount(path)
        for news in access.take_in(path):
            if not news.over:
                counted.show(news.points)
        counts = {"spans": news.spans, "events": news.events, "points": news.points}
        all_news.append({"path": path, **counts, "notes": news.notes})
        counted.close()
        for note in news.notes:
            sys.stderr.write(f"vedette: {clean(note, one_line=True)}\n")
        if not args.json:
            print(f"{clean(path, one_line=True)}: {_words(news)}")
    if args.json:
        print_json(all_news)
    return 0


def _words(news: wire.TakenIn) -> str:
    if not (news.spans or news.events or news.points):
        return "all of it is here already"
    counts = {"point": news.points, "line or event": news.events, "run, process or bar": news.spans}
    points, events, spans = (f"{count} {what if count == 1 else _plural[what]}" for what, count in counts.items())
    return f"taken in what was not here yet: {points}, {events}, {spans}"


_plural = {"point": "points", "line or event": "lines and events", "run, process or bar": "runs, processes and bars"}
