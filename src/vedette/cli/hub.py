"""be the hub of a home, in the foreground; one starts by itself when it is needed
examples:
  vedette hub
  vedette hub --stop
"""

import argparse
import os
import signal
import time

from vedette.errors import HubError
from vedette.home import Home


def add(parser: argparse.ArgumentParser) -> None:
    """Say what it takes."""
    parser.add_argument("--stop", action="store_true", help="end the hub that runs; nothing is lost by it")
    parser.add_argument("--quiet", action="store_true", help="say nothing unless something is wrong")


def run(args: argparse.Namespace) -> int:
    """Be the hub, or end it."""
    home = Home.of(args.settings)
    if args.stop:
        return _stop(home, quiet=args.quiet)
    from vedette.hub.service import run as serve

    try:
        return serve(home, args.settings, quiet=args.quiet)
    except OSError as error:
        raise HubError(f"no hub can run in {home.root}: {error}") from None


def _stop(home: Home, *, quiet: bool) -> int:
    pid = home.hub_pid()
    if not pid:
        if not quiet:
            print("no hub is running")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while home.hub_pid() is not None:
        if time.monotonic() > deadline:
            raise HubError(f"hub {pid} does not end; `kill -9 {pid}` loses nothing")
        time.sleep(0.02)
    if not quiet:
        print(f"hub {pid} ended")
    return 0
