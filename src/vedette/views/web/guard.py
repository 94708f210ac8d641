"""The outermost layer of the web server: it checks every request, and turns a token in a URL into a cookie.

Only pages accept a token in a URL. The answer redirects to the same page without it, so that it is not in the
browser's history.
"""

import asyncio
import html
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import structs
from starlette.responses import HTMLResponse, RedirectResponse, Response

from vedette import asgi, guard, socket_owner
from vedette.asgi import App, Refusal, Scope
from vedette.views.web import links
from vedette.views.web.key import CODE, Key
from vedette.views.web.refusal import refusal_page
from vedette.views.web.replies import refuse

BASE = "vedette.base"  # where a scope has the beginning of the page's addresses
LINKS = "vedette.links"  # and the links that the reader came by; None for the owner, who needs none
_OWNER, _READER = "owner", "reader"
_LOOK_S = 1.0  # how often we look whether the token was replaced
_OVER = "this is over: the link has expired, or the token was replaced"
_REPLACED = "this page's token was replaced: open it again with `vedette ui`, which prints the new address"
_OF_STRANGER = (
    "this token belongs to another user of this machine: ask its owner for a link to share; if it is yours (sudo, a"
    " container, a proxy), start `vedette ui --name NAME` with the host of this address, such as localhost"
)
_USED = "this way in was used already, or is too old: open the address that `vedette ui` prints"
_COOKIE_S = 365 * 86400
_KNOWN_S = 30 * 86400  # for so long a browser can be told that its link has expired
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
    """Lets in requests with a token, ends those whose token is over, and adds security headers to every answer."""

    def __init__(
        self, app: App, key: Key, names: Iterable[str], refused: Counter[str], *,
        is_page: Callable[[str], bool], frame: str = "", own_names: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """`names`: by which the owner lets programs ask that pass on requests; `own_names`: of this machine besides.

        `is_page`: tells whether a path belongs to the page.

        `refused` counts the requests that are not let in, by kind. `frame`: the origin of a site that may show the
        page in a frame; empty: none may.
        """
        self._refused = refused
        self._app = app
        self._key = key
        self._is_page = is_page
        self._headers = HEADERS if not frame else _headers_for(frame)
        self._answering: dict[asyncio.Timeout, str] = {}  # of requests, and the owner's token when they came
        self._passed_on = guard.lower(names)
        self._rules = guard.Rules(
            self._passed_on | guard.lower(own_names),
            self._who,
            self._why_not,
            name_hint="use localhost, or start `vedette ui --name HOSTNAME`",
            way_in="open the address that `vedette ui` prints, or the link that you were given; programs send"
            " `Authorization: Bearer TOKEN`",
        )
        self._rules_of_strangers = structs.replace(
            self._rules, who=self._who_of_strangers, why_not=self._why_not_for_strangers
        )

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Check, then pass on, for as long as the token is good."""
        if scope["type"] != "http":
            return
        send, token = _add_headers(send, self._headers), self._key.now
        if (answer := self._check(scope)) is not None:
            await answer(scope, receive, send)
            return
        ends_s = min((link.end_s for link in scope[LINKS] or ()), default=math.inf)
        begun = _Begun(send)
        try:
            async with asyncio.timeout(ends_s - time.time() if ends_s < math.inf else None) as limit:
                self._answering[limit] = token
                await self._app(scope, receive, begun)
        except TimeoutError:
            if not limit.expired():
                raise
            if not begun.begun:
                await (self._check(scope) or refuse(Refusal(401, _OVER)))(scope, receive, send)
            elif begun.streams:  # else the connection is closed, as the answer is shorter than it said
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._answering.pop(limit, None)

    async def watch_key(self, renewed: Callable[[], None]) -> None:
        """End what is being answered whenever the owner's token was replaced; `renewed` is called then."""
        token = self._key.now
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._key.now != token:
                token = self._key.now
                for limit, then in self._answering.items():
                    if then != token:
                        limit.reschedule(asyncio.get_running_loop().time())
                renewed()

    def _check(self, scope: Scope) -> Response | None:
        """Return a refusal, or the redirect for a token in the URL; None: let the request in."""
        page = scope["method"] in ("GET", "HEAD") and self._is_page(scope["path"])
        request = guard.in_scope(scope)
        cookie = f"vedette_{guard.port(request)}"
        request = structs.replace(request, cookie=cookie, page=page)
        rules = self._rules_of_strangers if self._is_strangers(scope, request) else self._rules
        decision = guard.judge(request, rules)
        url_token = _token_in(scope["query_string"]) if page else None
        if url_token is not None:
            return self._take(scope, request, url_token, decision, rules)
        if decision.status != 200:
            # After a link on another site, browsers do not send a strict cookie; from our page they do.
            kept_back = request.is_crossing and not any(f"{cookie}=" in text for text in request.all("cookie"))
            return self._refuse(scope, decision, again=kept_back and decision.status == 401)
        asgi.admit(scope, decision.who)
        scope[LINKS] = None if decision.who == _OWNER else self._links(decision.token)
        scope[BASE] = request.base
        return None

    def _is_strangers(self, scope: Scope, request: guard.Asked) -> bool:
        """Tell whether another user of this machine asks: browsers send him the cookie, if he has another port of it.

        A program that passes on requests may be another user's; it asks by a name that the owner has given.
        """
        ours, theirs = scope.get("server"), scope.get("client")
        if not ours or not theirs or guard.host_name(request.host) in self._passed_on:
            return False
        return socket_owner.is_strangers(theirs, ours)

    def _take(
        self, scope: Scope, request: guard.Asked, url_token: str, before: guard.Decision, rules: guard.Rules
    ) -> Response:
        """Turn a token in the URL into a cookie; `before`: what the request would be without it."""
        owner = self._key.now
        code = url_token if scope["method"] == "GET" and self._key.knows(url_token) else ""
        asked = structs.replace(request, url_token=owner if code else url_token)
        decision = guard.judge(asked, rules)
        if decision.status == 401 and before.who == _OWNER:
            decision = before  # one who holds a better token already, and follows an old link
        if decision.status != 200:
            return self._refuse(scope, decision)
        if code:
            self._key.use(code)
        if _OWNER in (decision.who, before.who):  # an owner who opens a link that he shares stays the owner
            return _set_cookie(scope, request.cookie, owner, _COOKIE_S, crossing=request.is_crossing)
        held = (*self._links(before.token), *self._links(url_token))
        left_s = max((link.end_s for link in held), default=0) - time.time()
        age_s = int(left_s) + _KNOWN_S
        return _set_cookie(scope, request.cookie, links.joined(held), age_s, crossing=request.is_crossing)

    def _links(self, token: str) -> tuple[links.Link, ...]:
        return links.read(token, self._key.now, time.time())

    def _who(self, token: str) -> str:
        """Return whose token this is: the owner's, that of a link, or "" if it is not valid."""
        if guard.same_token(token, self._key.now):
            return _OWNER
        return _READER if self._links(token) else ""

    def _why_not(self, token: str) -> str:
        if any(guard.same_token(token, old) for old in self._key.old):
            return _REPLACED
        if token.startswith(CODE):
            return _USED
        return links.why_not(token, (self._key.now, *self._key.old))

    def _who_of_strangers(self, token: str) -> str:
        return _READER if self._links(token) else ""

    def _why_not_for_strangers(self, token: str) -> str:
        return _OF_STRANGER if guard.same_token(token, self._key.now) else self._why_not(token)

    def _refuse(self, scope: Scope, decision: guard.Decision, *, again: bool = False) -> Response:
        self._refused[guard.REFUSALS[decision.status]] += 1
        if decision.status in (401, 403) and self._is_page(scope["path"]):
            policy = self._headers["content-security-policy"]
            return refusal_page(decision.status, decision.sentence, decision.headers, policy, again=again)
        return refuse(Refusal(decision.status, decision.sentence, dict(decision.headers)))


class _Begun:
    """Sends an answer, and knows whether it has begun, and whether it is a stream, which may end at any time."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.begun = self.streams = False

    async def __call__(self, message: Any) -> None:
        if not self.begun:
            self.begun = True
            self.streams = all(name.lower() != b"content-length" for name, _ in message["headers"])
        await self._send(message)


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


def _set_cookie(scope: Scope, cookie: str, token: str, age_s: int, *, crossing: bool) -> Response:
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
        cookie, token, max_age=age_s, path="/", httponly=True, samesite="strict", secure=scope["scheme"] == "https"
    )
    return answer
