"""Opens the page in the owner's browser, without a word on a command line that another user could use.

Everybody on a machine can read everybody's command lines. So the browser is given the name of a file that only its
owner can read, and that leads it to the page with a code: good once, and for a minute.
"""

import contextlib
import html
import os
import subprocess
import threading
import time
import webbrowser
from collections.abc import Callable
from urllib.parse import quote

from vedette.fileio import write_private
from vedette.home import Home
from vedette.views.web.key import CODE_S, Key

_PATIENCE_S = 15.0  # for a browser to begin and come here
_NAME = "vedette-ui-"
_SNAPS = "/var/lib/snapd/desktop/applications"
_HINT = (
    "vedette: has your browser not opened the page? Open the address above by hand. Some browsers may not read a file"
    " in a hidden directory, or run on another machine.\n"
)


class Handover:
    """Hands the page to a browser; `open` waits for it, so call it in a thread."""

    def __init__(self, home: Home, key: Key, address: str, say: Callable[[str], object]) -> None:
        """`address`: that of the page, without a token; `say` gets a hint if the browser does not come."""
        self._home = home
        self._key = key
        self._address = address
        self._say = say
        self._file = ""
        self._over = threading.Event()

    def open(self) -> None:
        """Open the browser; remove the file when its code is used, or too old."""
        code = self._key.code()
        joint = "&" if "?" in self._address else "?"
        target = html.escape(f"{self._address}{joint}token={code}", quote=True)
        text = f'<!doctype html><title>vedette</title><meta http-equiv="refresh" content="0;url={target}">\n'
        place = _place(self._home)
        self._file = os.path.join(place, f"{_NAME}{os.getpid()}.html")
        try:
            _remove_old(place)
            write_private(self._file, text.encode(), flush=False)
            opened = webbrowser.open(f"file://{quote(self._file)}")
        except (OSError, webbrowser.Error):
            opened = False
        if not opened or not self._wait_for(code, _PATIENCE_S):
            self._say(_HINT)
            self._wait_for(code, CODE_S)
        self.close()

    def close(self) -> None:
        """Remove the file."""
        self._over.set()
        with contextlib.suppress(OSError):
            os.unlink(self._file)

    def _wait_for(self, code: str, seconds: float) -> bool:
        """Wait until a code is used; tell whether it was, or there is nothing to wait for any more."""
        return any(self._over.wait(0.1) or not self._key.knows(code) for _ in range(int(seconds * 10)))


def _place(home: Home) -> str:
    """Return a directory that the browser can read: a snap may not look into hidden ones, but has one of its own."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = ["xdg-settings", "get", "default-web-browser"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True)
        name, _, _ = (desktop := done.stdout.strip()).partition("_")
        own = os.path.expanduser(f"~/snap/{name}/common")
        if "/" not in desktop and os.path.exists(os.path.join(_SNAPS, desktop)) and os.path.isdir(own):
            return own
    return home.root


def _remove_old(place: str) -> None:
    """Remove the files of programs that were killed before they could; their codes are worth nothing any more."""
    for entry in os.scandir(place):
        if entry.name.startswith(_NAME) and time.time() - entry.stat().st_mtime > 2 * CODE_S:
            os.unlink(entry.path)
