"""Where the page of a home is served, for who wants to show a link to it: a file of the home that `vedette ui` holds.

The file has no token: a link may end up in a notebook that others read. Whoever opens it has the token already, as a
cookie of the browser.
"""

import fcntl
import os
from urllib.parse import quote

import msgspec
from msgspec import Struct

from vedette.fileio import open_private, write_private
from vedette.home import Home


class PageAddress(Struct, frozen=True):
    """The beginning of the page's address, and of the same page where it may be shown in a frame; empty if nowhere."""

    base: str = ""
    framed: str = ""

    def of_run(self, run: str) -> str:
        """Return the address of a run's page."""
        return f"{self.base}/run/{quote(run, safe='')}" if self.base else ""

    def frame_of_run(self, run: str) -> str:
        """Return the address of a run's page inside a frame."""
        return f"{self.framed}/run/{quote(run, safe='')}" if self.framed else ""


def tell_page(home: Home, address: PageAddress) -> int:
    """Write down where the page is; it counts until the returned descriptor is closed, at the latest at our end."""
    path = _path(home)
    write_private(path, msgspec.json.encode(address), flush=False)
    fd = open_private(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def find_page(home: Home) -> PageAddress:
    """Return where the page is; an empty address when nobody serves it."""
    try:
        fd = os.open(_path(home), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return PageAddress()
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it: its server has ended
    except OSError:
        try:
            return msgspec.json.decode(os.read(fd, 10_000), type=PageAddress)
        except (msgspec.MsgspecError, OSError, ValueError):
            return PageAddress()
    finally:
        os.close(fd)
    return PageAddress()


def _path(home: Home) -> str:
    return os.path.join(home.root, "ui.address")
