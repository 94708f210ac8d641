"""run the hub of a home in the foreground; one starts by itself when it is needed
examples:
  vedette hub
  vedette hub --address :7070          for jobs on other machines: prints what to put into VEDETTE_HUB there
  vedette hub --address :7070 --advertise login1.example.org
  vedette hub --listen heflwr=:5000    for heflwr's RemoteMonitor on this machine: each identifier becomes a run
  vedette hub --status                 is there one, and who relays to it, since when, how much; also --json
  vedette hub --stop
"""

import argparse

import msgspec

from vedette import detached
from vedette.errors import HubError, SettingError
from vedette.home import Home
from vedette.settings import Settings


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="listen for the hubs of other machines, too; :PORT for all interfaces, a NAME or path for a Unix socket",
    )
    parser.add_argument("--advertise", metavar="HOST[:PORT]", help="the address that others are told to connect to")
    parser.add_argument(
        "--listen", metavar="NAME=ADDRESS", action="append", default=[],
        help="listen for clients of another program, too: heflwr=:5000; can be repeated",
    )  # fmt: skip
    parser.add_argument("--heflwr", metavar="ADDRESS", help="the same as --listen heflwr=ADDRESS")
    parser.add_argument("--no-tls", action="store_true", help="no TLS for other machines: only on a trusted network")
    parser.add_argument("--stop", action="store_true", help="stop the hub that runs; nothing is lost")
    parser.add_argument("--status", action="store_true", help="print who keeps this home, and who relays to it")
    parser.add_argument("--json", action="store_true", help="with --status: as JSON")
    parser.add_argument("--with-pids", action="store_true", help=argparse.SUPPRESS)  # it was handed that socket
    parser.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")


def run(args: argparse.Namespace) -> int:
    """Run the hub, or stop it."""
    home = Home.of(args.settings)
    if args.stop:
        return _stop(home, quiet=args.quiet)
    if args.status or args.json:
        if args.listen or (args.address, args.advertise, args.heflwr) != (None, None, None):
            raise SettingError("--status and --json only tell of a hub: without them, this begins one that listens")
        return _print_status(home, json=args.json)
    pids = _handed(1 if args.with_pids else 0) if args.quiet else None
    from vedette.hub import listeners
    from vedette.hub.program import run as serve
    from vedette.hub.sockets.port import endpoint_of

    listen = [*args.listen, *([f"heflwr={args.heflwr}"] if args.heflwr is not None else [])]
    settings = _with(args.settings, address=args.address, advertise=args.advertise)
    if listen:
        given = _with(settings, listen=listen, heflwr="").hub.listeners()
        both = {**settings.hub.listeners(), **given}
        settings = _with(settings, listen=[f"{name}={address}" for name, address in both.items()], heflwr="")
    wanted = settings.hub.listeners()
    awaited = not args.quiet or args.address is not None or bool(listen)  # a process that starts a hub gives neither
    if not args.quiet and not settings.hub.address and not wanted and home.hub_pid():
        print(f"a hub keeps {home.root} already, pid {home.hub()}")
        return _print_status(home, json=False)
    try:
        if (settings.hub.address or wanted) and awaited and home.hub() is not None:
            home.prepare()
            listeners.check(wanted)
            endpoint_of(home, settings, tls=not args.no_tls)  # it raises before the running hub is stopped
            _stop(home, quiet=args.quiet)
        return serve(
            home, settings, quiet=args.quiet, awaited=awaited, tls=not args.no_tls, pids=pids, reload=args.reload
        )
    except OSError as error:
        raise HubError(f"no hub can run in {home.root}: {error}") from None


def _print_status(home: Home, *, json: bool) -> int:
    from vedette.cli.hub_status import print_status

    print_status(home, json=json)
    return 0


def _with(settings: Settings, **options: str | list[str] | None) -> Settings:
    given = {key: value for key, value in options.items() if value is not None}
    return msgspec.structs.replace(settings, hub=msgspec.structs.replace(settings.hub, **given))


def _handed(count: int) -> int | None:
    """Return the socket for pidfds, if the process that started this hub has made it."""
    try:
        return next(iter(detached.take_handed(count)), None)
    except OSError:
        return None


def _stop(home: Home, *, quiet: bool) -> int:
    from vedette.access.hub_end import end_hub

    ended = end_hub(home)
    if not quiet:
        how = "did not answer, and was killed; nothing is lost" if ended is not None and ended.killed else "ended"
        print("no hub is running" if ended is None else f"hub {ended.hub} {how}")
    return 0
