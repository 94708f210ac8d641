"""The outermost layer: whoever is not let in here reaches nothing. Deny by default (law 5).

Host is a loopback or configured name, on any port, since people use ssh tunnels; Origin, when sent, is ours; then the
token, by cookie or as a bearer. A token in a URL is taken at pages alone, put into a cookie, and gone from the URL.
"""

import hmac
import html
import ipaddress
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from vedette.views.web import share
from vedette.views.web.replies import Refusal, refuse

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

_METHODS = ("GET", "HEAD", "POST")
_COOKIE_S = 365 * 86400
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self';"
    " object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Lets in who has the token, and adds to every answer what browsers are to know."""

    def __init__(self, app: App, token: str, names: Iterable[str] = (), *, is_page: Callable[[str], bool]) -> None:
        """`names`: hosts that we are also known by; `is_page`: whether a path is one of the page's own."""
        self._app = app
        self._token = token
        self._names = {name.lower() for name in names}
        self._is_page = is_page

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            return
        send = _adding(send)
        try:
            answer = self._check(scope)
        except Refusal as refusal:
            answer = self._refuse(scope, refusal)
        await (answer or self._app)(scope, receive, send)

    def _check(self, scope: Scope) -> Response | None:
        """Raise a Refusal; or return the answer to somebody who comes with a token in the URL; or None: let in."""
        method, path = scope["method"], scope["path"]
        host = self._host(scope)
        base = f"{scope['scheme']}://{host}"
        origins = _headers(scope, b"origin")
        if origins and origins != [base]:
            raise Refusal(403, "pages of others are not answered here")
        if method not in _METHODS:
            raise Refusal(405, f"there are {', '.join(_METHODS)}", {"Allow": ", ".join(_METHODS)})
        page = method in ("GET", "HEAD") and self._is_page(path)
        site = _headers(scope, b"sec-fetch-site")
        navigates = _headers(scope, b"sec-fetch-mode") == [b"navigate".decode()]
        if site and site[0] not in ("same-origin", "none") and not (page and navigates):
            raise Refusal(403, "pages of others are not answered here")
        cookie = f"vedette_{_port(host, scope['scheme'])}"
        if page and (said := _token_in(scope["query_string"])) is not None:
            if not self._voice(said):
                raise Refusal(401, "the token is wrong, or its time is over: `vedette ui` prints the right address")
            if self._voice(held := self._said(scope, cookie)) == "owner":
                said = held  # an owner who tries the link that he shares stays one
            return _welcome(scope, cookie, said, crossing=bool(site) and site[0] not in ("same-origin", "none"))
        voice = self._voice(self._said(scope, cookie))
        if not voice:
            raise Refusal(
                401, "the token is missing or wrong: open the address that `vedette ui` prints, or send"
                " `Authorization: Bearer TOKEN`", {"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        scope["vedette.shared"] = voice == "share"
        scope["vedette.base"] = base
        return None

    def _host(self, scope: Scope) -> str:
        hosts = _headers(scope, b"host")
        name = _name(hosts[0]) if len(hosts) == 1 else ""
        if not name or not (_is_loopback(name) or name in self._names):
            raise Refusal(421, "this host name is not known here: use localhost, or start `vedette ui --name HOSTNAME`")
        return hosts[0]

    def _said(self, scope: Scope, cookie: str) -> str:
        bearers = [text[7:] for text in _headers(scope, b"authorization") if text[:7].lower() == "bearer "]
        if bearers:
            return bearers[0].strip()
        # By hand: cookies know no ports, and the standard library's reader stops at an odd one of another program's.
        pairs = (pair.partition("=") for text in _headers(scope, b"cookie") for pair in text.split(";"))
        found = [value.strip().strip('"') for name, _, value in pairs if name.strip() == cookie]
        return found[-1] if found else ""

    def _voice(self, said: str) -> str:
        """Return who has this token: owner, share, or nobody."""
        if hmac.compare_digest(said.encode("utf-8", "replace"), self._token.encode()):
            return "owner"
        return "share" if share.is_good(said, self._token, time.time()) else ""

    def _refuse(self, scope: Scope, refusal: Refusal) -> Response:
        if refusal.status in (401, 403) and self._is_page(scope["path"]):
            said = html.escape(str(refusal))
            text = f"<!doctype html><title>vedette</title><p>{said}</p><p><a href=''>try again</a></p>"
            return HTMLResponse(text, refusal.status, {**refusal.headers, "Cache-Control": "no-store"})
        return refuse(refusal)


def _adding(send: Any) -> Any:
    async def add(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            said = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), text.encode()) for name, text in HEADERS.items() if name.encode() not in said]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return add


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if colon and port.isascii() and port.isdigit() and not (":" in name and not name.startswith("[")):
        host = name
    return host.removeprefix("[").removesuffix("]").lower()


def _port(host: str, scheme: str) -> str:
    port = host.rpartition(":")[2]
    return port if port.isascii() and port.isdigit() and "]" not in port else "443" if scheme == "https" else "80"


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _token_in(query: bytes) -> str | None:
    if b"token=" not in query:
        return None
    try:
        said = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=100))
    except (UnicodeDecodeError, ValueError):
        return None
    return said.get("token")


def _welcome(scope: Scope, cookie: str, token: str, *, crossing: bool) -> Response:
    """Put the token into a cookie, and lead to the same page without it."""
    rest = [pair for pair in parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True) if
            pair[0] != "token"]  # fmt: skip
    raw = scope.get("raw_path") or quote(scope["path"]).encode()  # as it came: what is written %2F stays so
    target = quote(raw, safe="/%~:@!$&'()*+,;=") + (f"?{urlencode(rest)}" if rest else "")
    answer: Response
    if crossing:
        # Who comes from another site is not sent a strict cookie along a redirect; from a page of ours he is.
        address = html.escape(target, quote=True)
        text = f'<!doctype html><title>vedette</title><meta http-equiv="refresh" content="0;url={address}">'
        answer = HTMLResponse(text)
    else:
        answer = RedirectResponse(target, 303)
    answer.headers["Cache-Control"] = "no-store"
    answer.set_cookie(
        cookie, token, max_age=_COOKIE_S, path="/", httponly=True, samesite="strict", secure=scope["scheme"] == "https"
    )
    return answer
