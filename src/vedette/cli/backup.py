"""copy a home into one file while jobs log to it, or make a home of such a file again
examples:
  vedette backup /mnt/backup/vedette.tar
  vedette backup /mnt/backup/vedette.tar --force          over the last one, as soon as the new one is checked
  vedette backup --restore /mnt/backup/vedette.tar --home ~/.vedette

A backup has everything: runs, points, lines, files, what waits to be read or sent, and the tokens and keys of the home.
So it is as secret as the home itself. docs/backup.md tells how to move a home to another disk or machine.
"""

import argparse
import os
import sys
import time

from vedette.access.home_access import HomeAccess, nothing_yet
from vedette.cli.output import print_json
from vedette.errors import HubError, NotFoundError, VedetteError
from vedette.home import Home
from vedette.store.backup_file import About
from vedette.views.text import clean, counted, moment, size


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("FILE", help="the file to write, or to restore from")
    parser.add_argument("--restore", action="store_true", help="make a home of FILE, where there is none yet")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--json", action="store_true", help="print as JSON what was written or restored")


def run(args: argparse.Namespace) -> int:
    """Back up or restore."""
    if args.restore:
        if args.force:
            raise VedetteError("--restore never overwrites a home: give one that does not exist as --home")
        return _restore(args)
    if args.FILE == "-":
        raise VedetteError("a backup is read back and checked, so it needs a file: give its name instead of -")
    access = HomeAccess.of(args.settings)
    if not os.path.exists(access.home.spool) and not os.path.exists(access.home.store):
        raise NotFoundError(access.home.misplaced() or nothing_yet(access.root))
    from vedette.store.backup import back_up

    shown = _Shown()
    try:
        about, left_out = back_up(
            access.home, args.FILE, force=args.force, settle=lambda: _settle(access), shown=shown.show
        )
    finally:
        shown.close()
    if left_out:
        sys.stderr.write(f"vedette: {counted(len(left_out), 'file')} of runs are damaged in this home, and left out\n")
    _print(args, {"path": args.FILE, "bytes": os.stat(args.FILE).st_size}, about, args.FILE)
    return 0


def _settle(access: HomeAccess) -> None:
    """Have the hub store all that was logged; if it cannot, that waits in the spools, which are part of a backup."""
    if not access.needs_hub():
        return
    try:
        access.seal()
    except HubError as error:
        sys.stderr.write(f"vedette: {clean(str(error), one_line=True)}; the backup has what waits in the spools\n")


def _restore(args: argparse.Namespace) -> int:
    from vedette.store.restore import restore

    home = Home.of(args.settings)
    shown = _Shown()
    try:
        about = restore(args.FILE, home, shown=shown.show)
    finally:
        shown.close()
    _print(args, {"home": home.asked}, about, f"{home.asked} is as it was on {moment(about.made_t)}")
    return 0


def _print(args: argparse.Namespace, what: dict[str, object], about: About, begin: str) -> None:
    counts = {"runs": about.runs, "files": about.files, "spools": about.spools}
    if args.json:
        print_json({**what, **counts, "made_t": about.made_t})
        return
    words = [counted(about.runs, "run"), counted(about.files, "file"), counted(about.spools, "spool")]
    weight = size(os.stat(args.FILE).st_size)
    print(clean(f"{begin}: {', '.join([*words[: 3 if about.spools else 2], weight])}", one_line=True))


class _Shown:
    """Shows on stderr what is being copied, on a terminal and once it takes a while."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 1
        self._shown = False

    def show(self, what: str) -> None:
        if sys.stderr.isatty() and time.monotonic() > self._next:
            self._next = time.monotonic() + 0.2
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{what}")
            sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
