"""The outermost layer of the web server: it checks every request, and turns a token in a URL into a cookie.

Only pages accept a token in a URL. The answer redirects to the same page without it, so that it is not in the
browser's history.
"""

import html
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import structs
from starlette.responses import HTMLResponse, RedirectResponse, Response

from vedette import asgi, guard
from vedette.asgi import App, Refusal, Scope
from vedette.views.web import share
from vedette.views.web.replies import refuse

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
    """Lets in requests with the token, and adds security headers to every answer."""

    def __init__(
        self, app: App, token: str, names: Iterable[str], refused: Counter[str], *,
        is_page: Callable[[str], bool], frame: str = "",
    ) -> None:  # fmt: skip
        """`names`: other host names of this machine; `is_page`: tells whether a path belongs to the page.

        `refused` counts the requests that are not let in, by kind. `frame`: the origin of a site that may show the
        page in a frame; empty: none may.
        """
        self._refused = refused
        self._app = app
        self._token = token
        self._is_page = is_page
        self._headers = HEADERS if not frame else _headers_for(frame)
        self._rules = guard.Rules(
            guard.lower(names),
            self._who,
            name_hint="use localhost, or start `vedette ui --name HOSTNAME`",
            way_in="open the address that `vedette ui` prints, or send `Authorization: Bearer TOKEN`",
        )

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            return
        answer = self._check(scope)
        await (answer or self._app)(scope, receive, _add_headers(send, self._headers))

    def _check(self, scope: Scope) -> Response | None:
        """Return a refusal, or the redirect for a token in the URL; None: let the request in."""
        page = scope["method"] in ("GET", "HEAD") and self._is_page(scope["path"])
        request = guard.in_scope(scope)
        cookie = f"vedette_{guard.port(request)}"
        request = structs.replace(request, cookie=cookie, page=page)
        url_token = _token_in(scope["query_string"]) if page else None
        if url_token is not None:
            decision = guard.judge(structs.replace(request, url_token=url_token), self._rules)
            if decision.status != 200:
                return self._refuse(scope, decision)
            if guard.judge(request, self._rules).who == "owner":
                url_token = self._token  # an owner who opens a link that he shares stays the owner
            return _set_cookie(scope, cookie, url_token, crossing=request.is_crossing)
        decision = guard.judge(request, self._rules)
        if decision.status != 200:
            return self._refuse(scope, decision)
        asgi.admit(scope, decision.who)
        scope["vedette.shared"] = decision.who == "share"
        scope["vedette.base"] = request.base
        return None

    def _who(self, token: str) -> str:
        """Return whose token this is: "owner", "share", or "" if it is not valid."""
        if guard.same_token(token, self._token):
            return "owner"
        return "share" if share.is_good(token, self._token, time.time()) else ""

    def _refuse(self, scope: Scope, decision: guard.Decision) -> Response:
        self._refused[guard.REFUSALS[decision.status]] += 1
        if decision.status in (401, 403) and self._is_page(scope["path"]):
            reason = html.escape(decision.sentence)
            text = f"<!doctype html><title>vedette</title><p>{reason}</p><p><a href=''>try again</a></p>"
            return HTMLResponse(text, decision.status, {**decision.headers, "Cache-Control": "no-store"})
        return refuse(Refusal(decision.status, decision.sentence, dict(decision.headers)))


def _headers_for(frame: str) -> dict[str, str]:
    """Return the headers that let one other site show the page in a frame."""
    headers = {name: text for name, text in HEADERS.items() if name != "x-frame-options"}  # it cannot name a site
    policy = _POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {frame}")
    return headers | {"content-security-policy": policy}


def _add_headers(send: Any, headers: Mapping[str, str]) -> Any:
    async def add(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), text.encode()) for name, text in headers.items() if name.encode() not in present]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return add


def _token_in(query: bytes) -> str | None:
    if b"token=" not in query:
        return None
    try:
        fields = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=100))
    except (UnicodeDecodeError, ValueError):
        return None
    return fields.get("token")


def _set_cookie(scope: Scope, cookie: str, token: str, *, crossing: bool) -> Response:
    """Put the token into a cookie, and redirect to the same page without it."""
    rest = [pair for pair in parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True) if
            pair[0] != "token"]  # fmt: skip
    raw = scope.get("raw_path") or quote(scope["path"]).encode()  # undecoded, so that %2F stays %2F
    target = quote(raw, safe="/%~:@!$&'()*+,;=") + (f"?{urlencode(rest)}" if rest else "")
    answer: Response
    if crossing:
        # After a link on another site, browsers do not send a strict cookie along a redirect; from our page they do.
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
