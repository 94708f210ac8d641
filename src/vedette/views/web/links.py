"""Links that read what was shared, and nothing else, for a limited time: what one says, and how it is signed. No I/O.

A link is a token that says itself what it shows and until when, signed with the owner's token: these runs, or the runs
that match a filter when they are asked for. A browser may hold several, in one cookie; it then sees what all of them
show.
"""

import base64
import hashlib
import hmac
import zlib
from collections.abc import Iterable

import msgspec
from msgspec import Struct

MOST_CHARS = 3000  # of a link; browsers keep cookies of 4,096
_PREFIX = "share"
_JOINT = "~"  # between the links of a cookie
_MOST_IN_COOKIE = 3800
_MOST_JOINED = 20  # links of a cookie


class Scope(Struct, frozen=True, array_like=True):
    """What a link shows: these runs, or, if that is None, all runs that match a filter, also later ones."""

    runs: tuple[str, ...] | None
    where: str = ""
    project: str = ""
    zone: str = ""  # of dates in `where` that name none


class Link(Struct, frozen=True):
    """A link that was checked, and has not expired."""

    token: str
    scope: Scope
    end_s: int


def sign(token: str, end_s: int, scope: Scope) -> str:
    """Return a link that reads `scope` until `end_s`."""
    packed = _text(zlib.compress(msgspec.json.encode(scope), 9))
    said = f"{_PREFIX}.{end_s}.{packed}"
    return f"{said}.{_signature(token, said)}"


def read(text: str, token: str, now_s: float) -> tuple[Link, ...]:
    """Return the links of a cookie, or one, that were signed with this token and have not expired, the oldest first."""
    found = (_read(one, token) for one in _parts(text))
    return tuple(link for link in found if link is not None and now_s < link.end_s)


def joined(held: Iterable[Link]) -> str:
    """Return the text of a cookie with these links, the newest last; the oldest are left out when it is too long."""
    tokens = list(dict.fromkeys(link.token for link in held))
    while len(tokens) > _MOST_JOINED or len(_JOINT.join(tokens)) > _MOST_IN_COOKIE:
        del tokens[0]
    return _JOINT.join(tokens)


def why_not(text: str, tokens: Iterable[str]) -> str:
    """Return why links are refused, if they were good once; `tokens`: the owner's, and those that it has replaced."""
    if not text.startswith(f"{_PREFIX}."):
        return ""
    for number, token in enumerate(tokens):
        if any(_read(one, token) is not None for one in _parts(text)):
            return (
                "this link was withdrawn: ask for a new one" if number else "this link has expired: ask for a new one"
            )
    return ""


def _parts(text: str) -> list[str]:
    """Return the links in a text; none if it is not one of ours: to check signatures costs time, and strangers ask."""
    parts = text.split(_JOINT, _MOST_JOINED)
    return parts if len(text) <= _MOST_IN_COOKIE and len(parts) <= _MOST_JOINED else []


def _read(text: str, token: str) -> Link | None:
    """Return what a link says; None if it was not signed with this token. What is not signed is not looked into."""
    said, _, signed = text.rpartition(".")
    if not token or not hmac.compare_digest(signed.encode("utf-8", "replace"), _signature(token, said).encode()):
        return None
    _, end, packed = said.split(".")
    scope = msgspec.json.decode(zlib.decompress(base64.urlsafe_b64decode(packed + "==")), type=Scope)
    return Link(text, scope, int(end))


def _signature(token: str, said: str) -> str:
    return _text(hmac.new(token.encode(), said.encode("utf-8", "replace"), hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
