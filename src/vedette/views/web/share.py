"""Links that can read for a limited time. A link has its end time, signed with the owner's token."""

import hashlib
import hmac
import time

from msgspec import Struct

from vedette.asgi import Refusal
from vedette.views.web.routes import Request
from vedette.views.web.state import AppState

_PREFIX = "share"
_MOST_HOURS = 24.0 * 366


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """For how long a link is valid, and which page it shows."""

    hours: float = 24.0 * 7
    path: str = "/"


class Shared(Struct, frozen=True):
    """A link that can only read, and when it expires."""

    url: str
    end_t: float


def sign(token: str, end_s: int) -> str:
    """Return a token that can read until `end_s`."""
    signed = hmac.new(token.encode(), f"{_PREFIX}.{end_s}".encode(), hashlib.sha256).hexdigest()
    return f"{_PREFIX}.{end_s}.{signed}"


def is_good(shared: str, token: str, now_s: float) -> bool:
    """Tell whether `shared` is a token from `sign` that has not expired."""
    prefix, _, rest = shared.partition(".")
    end, _, _ = rest.partition(".")
    if prefix != _PREFIX or not end.isascii() or not end.isdigit() or len(end) > 12:
        return False
    return hmac.compare_digest(shared.encode("utf-8", "replace"), sign(token, int(end)).encode()) and now_s < int(end)


def share(state: AppState, request: Request) -> Shared:
    """Make a link."""
    wanted: Share = request.body
    if not 0 < wanted.hours <= _MOST_HOURS:
        raise Refusal(400, f"hours is {wanted.hours:g}: it takes a number above 0, up to {_MOST_HOURS:g}")
    if not wanted.path.startswith("/") or wanted.path.startswith(("//", "/api", "/\\")) or len(wanted.path) > 8000:
        raise Refusal(400, "path must be that of a page, such as /run/ID")
    end_s = int(time.time() + wanted.hours * 3600)
    page, _, _ = wanted.path.partition("#")
    joint = "&" if "?" in page else "?"
    return Shared(f"{request.base}{page}{joint}token={sign(state.token, end_s)}", end_s * 1e3)
