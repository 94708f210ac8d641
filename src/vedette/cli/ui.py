"""show all runs in the browser: charts, usage, logs, comparison; only you can open it
examples:
  vedette ui
  vedette ui brisk-otter-417
  vedette ui --no-browser --port 8000      (on a server; then: ssh -L 8000:127.0.0.1:8000 SERVER)
  vedette ui --read-only --project cifar

It prints an address with a token, which the browser keeps as a cookie. From another machine, use an ssh tunnel. To
listen on a network, give --tls, and with --name the names that others use for this machine. `vedette token --new`
replaces the token: pages that are open end, and the new address is printed here.
"""

import argparse
import contextlib
import json
import os
import re
import sys
import threading
from collections import Counter
from urllib.parse import quote

from vedette.access import page_address
from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, count, open_home
from vedette.errors import NotFoundError, VedetteError
from vedette.home import Home

_PORT = 7878


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    run_option = parser.add_argument("RUN", nargs="?", default="", help="the run to open, by id or name")
    run_option.completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--port", type=count, default=None, help=f"the port to listen on (default {_PORT}; 0: any)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--read-only", action="store_true", help="nothing can be changed from the page")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOSTNAME",
        help="another name that browsers may use for this machine",
    )
    parser.add_argument("--tls", action="store_true", help="use TLS, with the certificate of this home")
    parser.add_argument(
        "--frame",
        default="",
        metavar="ORIGIN",
        help="a site that may show the page in a frame: that of your notebooks, such as http://localhost:8888",
    )
    parser.add_argument("--project", default="", help="the project to show first")
    parser.add_argument("--json", action="store_true", help="print the address as JSON")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from vedette import certificate, guard, host_port
    from vedette.views.web.handover import Handover
    from vedette.views.web.key import Key
    from vedette.views.web.serve import check_bind, open_port, serve
    from vedette.views.web.server import build

    home = Home.of(args.settings)
    if args.port is not None and args.port >= 1 << 16:
        raise VedetteError("--port takes a number from 0 to 65535")
    path = _path(args)
    _check_project(args)
    home.prepare()
    key = Key.of(home)
    wide = not guard.is_loopback(args.host)
    check_bind(args.host, token=key.now, tls=args.tls)
    pem = ""
    own_names = host_port.own_names() if wide else []
    if args.tls:
        _, fingerprint = certificate.serving(home)
        pem = certificate.path_of(home)
        sys.stderr.write(f"vedette: the certificate is self-signed; its SHA-256 is {fingerprint}\n")
    gate = open_port(args.host, _PORT if args.port is None else args.port)
    port = gate.getsockname()[1]
    shown = (next(iter([*args.name, *own_names])) if wide else args.host) or "127.0.0.1"
    frame, frame_host = _frame(args.frame)
    if not wide and frame_host in ("localhost", "127.0.0.1"):
        shown = frame_host  # browsers send the page's cookie into a frame only where both have the same host
    base = f"{'https' if args.tls else 'http'}://{host_port.join(shown, port)}"
    query = f"?project={quote(args.project, safe='')}" if args.project and path == "/" else ""
    handover = Handover(home, key, f"{base}{path}{query}", sys.stderr.write)

    def tell() -> None:
        url = f"{base}{path}?token={key.now}{query.replace('?', '&', 1)}"
        print(json.dumps({"url": url, "port": port, "pid": os.getpid()}) if args.json else url, flush=True)

    def renewed() -> None:
        sys.stderr.write("vedette: the token was replaced: pages that are open end. The page is at\n")
        tell()

    def ready() -> None:
        with contextlib.suppress(OSError):  # it is only for links in notebooks
            page_address.tell_page(home, page_address.PageAddress(base, base if frame else ""))
        tell()
        if not args.no_browser and _has_screen():
            threading.Thread(target=handover.open, daemon=True).start()

    refused: Counter[str] = Counter()
    app = build(
        HomeAccess.of(args.settings), key, names=args.name, own_names=own_names, read_only=args.read_only,
        project=args.project, frame=frame, refused=refused, renewed=renewed,
    )  # fmt: skip
    try:
        serve(app, gate, pem, ready)
    finally:
        handover.close()
    if refused:
        parts = ", ".join(f"{count} by {kind}" for kind, count in refused.most_common())
        sys.stderr.write(f"vedette: the page was not shown to everybody who asked; requests were refused: {parts}\n")
    return 0


def _frame(origin: str) -> tuple[str, str]:
    """Return the origin of a site and its host; raise VedetteError for anything else than an origin."""
    found = re.fullmatch(r"(https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?)/?", origin)
    if origin and found is None:
        raise VedetteError(f"--frame {origin!r} is not the origin of a site: give it as http://localhost:8888")
    return (found[1], found[2]) if found else ("", "")


def _path(args: argparse.Namespace) -> str:
    if not args.RUN:
        return "/"
    from vedette.query.finding import find

    return f"/run/{quote(find(open_home(args.settings, glance=True), args.RUN).id, safe='')}"


def _check_project(args: argparse.Namespace) -> None:
    """Raise NotFoundError when there are runs, and none has the project that is asked for."""
    if not args.project or not os.path.exists(Home.of(args.settings).store):
        return
    known = open_home(args.settings, glance=True).projects()
    if known and args.project not in known:
        import difflib

        near = difflib.get_close_matches(args.project, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:10])}"
        raise NotFoundError(f"no run has the project {args.project!r}; {hint}")


def _has_screen() -> bool:
    """Tell whether there is a graphical screen; a text browser would take over this terminal."""
    return sys.stdout.isatty() and bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    )
