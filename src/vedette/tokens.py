"""The secrets and the id of a home: each is made once, and lies in a file of the home that only its owner can read."""

import os
import secrets
from collections.abc import Callable

from vedette.fileio import write_private
from vedette.home import Home
from vedette.ids import new_id


def hub_token(home: Home) -> str:
    """Return the token of the home's hub, which other hubs send."""
    return _made_once(os.path.join(home.root, "hub.token"), lambda: secrets.token_urlsafe(24))


def page_token(home: Home) -> str:
    """Return the token of the home's page in the browser. It is not the hub's: that one may write."""
    return _made_once(os.path.join(home.root, "ui.token"), lambda: secrets.token_urlsafe(24))


def home_id(home: Home) -> str:
    """Return the lasting id of a home, by which other hubs know it."""
    return _made_once(os.path.join(home.root, "hub.id"), lambda: new_id(16))


def _made_once(path: str, make: Callable[[], str]) -> str:
    """Return the content of a file; if it does not exist, make it, readable by its owner only."""
    try:
        with open(path) as file:
            if text := file.read().strip():
                return text
    except FileNotFoundError:
        pass
    made = make()
    write_private(path, made.encode() + b"\n")
    return made
