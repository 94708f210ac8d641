"""show all runs in the browser: charts, usage, logs, comparison; open to nobody but you
examples:
  vedette ui
  vedette ui brisk-otter-417
  vedette ui --no-browser --port 8000      (on a server; then: ssh -L 8000:127.0.0.1:8000 SERVER)
  vedette ui --read-only --project cifar

It prints an address with a token, which the browser keeps as a cookie. On another machine's screen come through an
ssh tunnel; to listen on a network takes --tls, and the names by which others know this machine (--name).
"""

import argparse
import json
import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from urllib.parse import quote

from vedette import wire
from vedette.cli.output import complete_runs, count
from vedette.errors import HubError, VedetteError
from vedette.home import Home
from vedette.settings import Settings
from vedette.store import Reader
from vedette.store.sqlite import open_reader

_PORT = 7878
_GRACE_S = 10.0


def add(parser: argparse.ArgumentParser) -> None:
    """Say what it takes."""
    run_option = parser.add_argument("RUN", nargs="?", default="", help="the run to open, by id or name")
    run_option.completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--port", type=count, default=None, help=f"where to listen (default {_PORT}; 0: any)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.add_argument("--read-only", action="store_true", help="nothing can be changed from the page")
    parser.add_argument(
        "--name", action="append", default=[], metavar="HOSTNAME", help="another name by which browsers come here"
    )
    parser.add_argument("--tls", action="store_true", help="speak TLS, with the certificate of this home")
    parser.add_argument("--project", default="", help="the project to show at first")
    parser.add_argument("--json", action="store_true", help="say the address as JSON")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from vedette import guard
    from vedette.hub.peers import address
    from vedette.views.web.serve import check_bind, listen, serve
    from vedette.views.web.server import build

    home = Home.of(args.settings)
    if args.port is not None and args.port >= 1 << 16:
        raise VedetteError("--port takes a number from 0 to 65535")
    path = _path(args, home)
    home.prepare()
    token = address.ui_token_of(home)
    wide = not guard.is_loopback(args.host)
    check_bind(args.host, token=token, tls=args.tls)
    certificate = ""
    names = list(args.name)
    if args.tls:
        _, fingerprint = address.serving(home)
        certificate = address.certificate_of(home)
        sys.stderr.write(f"vedette: the certificate is our own; its SHA-256 is {fingerprint}\n")
    if wide:
        names += address.own_names()
    listener = listen(args.host, _PORT if args.port is None else args.port)
    port = listener.getsockname()[1]
    shown = (names[0] if wide and names else args.host) or "127.0.0.1"
    url = f"{'https' if args.tls else 'http'}://{f'[{shown}]' if ':' in shown else shown}:{port}{path}?token={token}"
    if args.project and path == "/":
        url += f"&project={quote(args.project, safe='')}"
    back = Shown(args.settings, home)
    app = build(back, token, names=names, read_only=args.read_only, project=args.project)

    def ready() -> None:
        print(json.dumps({"url": url, "port": port, "pid": os.getpid()}) if args.json else url, flush=True)
        if not args.no_browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    serve(app, listener, certificate, ready)
    return 0


def _path(args: argparse.Namespace, home: Home) -> str:
    if not args.RUN:
        return "/"
    from vedette.app import open_store
    from vedette.query.runs import find

    store, warning = open_store(home)
    if warning:
        sys.stderr.write(f"vedette: {warning}\n")
    return f"/run/{quote(find(store, args.RUN).id, safe='')}"


def _has_screen() -> bool:
    """Tell whether a browser could show itself to somebody: one in a terminal would take it over."""
    return sys.stdout.isatty() and bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    )


class Shown:
    """A home, as the web server asks for it."""

    def __init__(self, settings: Settings, home: Home) -> None:
        self.home = home.root
        self.lost_after_s = settings.lost_after_s
        self._home = home

    def reader(self) -> Reader:
        """Open the store for one thread."""
        return open_reader(self._home.store)

    def has_hub(self) -> bool:
        """Tell whether a hub lives."""
        return self._home.hub_pid() is not None

    def seal(self, run: str) -> None:
        """Have all that a run has logged until now be in the store."""
        from vedette.app import ask

        ask(self._home, wire.Seal(run))

    def newest(self, prefix: str) -> list[wire.Newest]:
        """Return the points that wait in the hub."""
        from vedette.app import newest

        return newest(self._home, prefix)

    def follow(self) -> Iterator[wire.Change]:
        """Yield what changes until the hub goes away."""
        from vedette.app import follow

        return follow(self._home, "")

    def edit(self, spans: list[str], attrs: dict[str, object]) -> None:
        """Keep a user's word on runs."""
        from vedette.app import ask

        answer = ask(self._home, wire.Edit(spans, attrs))
        if not isinstance(answer, wire.Done):
            raise HubError("the hub has not said that it is done")

    def stop(self, run: str) -> None:
        """Have a run stopped."""
        from vedette.cli.stop import tell

        tell(self._home, run, _GRACE_S)

    def blob(self, digest: str) -> str | None:
        """Return where the bytes of a digest lie."""
        from vedette.blobs import Blobs

        blobs = Blobs(self._home)
        return blobs.path(digest) if blobs.size(digest) is not None else None
