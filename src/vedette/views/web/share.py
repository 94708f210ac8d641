"""Links that may read, for a time: what is signed is when they end, by the token that only its owner has."""

import hashlib
import hmac
import time

from msgspec import Struct

from vedette.views.web.replies import Refusal
from vedette.views.web.routes import Asked
from vedette.views.web.state import AppState

_PREFIX = "share"
_MOST_HOURS = 24.0 * 366


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """For how long a link is good, and which page it shows."""

    hours: float = 24.0 * 7
    path: str = "/"


class Shared(Struct, frozen=True):
    """A link that may only read, and when it ends."""

    url: str
    end_t: float


def sign(token: str, end_s: int) -> str:
    """Return a token that may read until then."""
    signed = hmac.new(token.encode(), f"{_PREFIX}.{end_s}".encode(), hashlib.sha256).hexdigest()
    return f"{_PREFIX}.{end_s}.{signed}"


def is_good(said: str, token: str, now_s: float) -> bool:
    """Tell whether this is a token of `sign` that has not ended."""
    prefix, _, rest = said.partition(".")
    end, _, _ = rest.partition(".")
    if prefix != _PREFIX or not end.isascii() or not end.isdigit() or len(end) > 12:
        return False
    return hmac.compare_digest(said.encode("utf-8", "replace"), sign(token, int(end)).encode()) and now_s < int(end)


def share(state: AppState, asked: Asked) -> Shared:
    """Make a link."""
    wish: Share = asked.body
    if not 0 < wish.hours <= _MOST_HOURS:
        raise Refusal(400, f"hours is {wish.hours:g}: it takes a number above 0, up to {_MOST_HOURS:g}")
    if not wish.path.startswith("/") or wish.path.startswith(("//", "/api", "/\\")) or len(wish.path) > 8000:
        raise Refusal(400, "path is that of a page, such as /run/ID")
    end_s = int(time.time() + wish.hours * 3600)
    page, _, _ = wish.path.partition("#")
    joint = "&" if "?" in page else "?"
    return Shared(f"{asked.base}{page}{joint}token={sign(state.token, end_s)}", end_s * 1e3)
