"""One corpus of requests that no HTTP listener may answer, and how to send them: what a hostile page or stranger tries.

Each attack changes one thing of a request that is answered otherwise. `{host}` is where the listener is, `{port}` its
port. A listener without tokens is not asked for one: attacks of the kind `token` do not concern it.
"""

import http.client
import socket
from collections.abc import Iterable
from typing import NamedTuple


class Good(NamedTuple):
    """A request that is answered by a status below 400."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    token: str = ""  # sent as a bearer


class Attack(NamedTuple):
    """What is changed of a good request, and the answers that are right then."""

    name: str
    kind: str  # host, origin, site, token, method
    statuses: tuple[int, ...]
    host: str | None = "{host}"  # None: there is no Host
    more: tuple[tuple[str, str], ...] = ()
    method: str = ""
    token: str | None = None  # another value of Authorization; '': none
    query: str = ""


def _hosts(*hosts: str) -> list[Attack]:
    return [Attack(f"host {host!r}", "host", (400, 421), host) for host in hosts]


def _origins(*origins: str) -> list[Attack]:
    return [Attack(f"origin {origin!r}", "origin", (403,), more=(("Origin", origin),)) for origin in origins]


def _sites(*pairs: tuple[str, str]) -> list[Attack]:
    return [
        Attack(f"site {site} {mode}", "site", (403,), more=(("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)))
        for site, mode in pairs
    ]


ATTACKS: tuple[Attack, ...] = (
    # A name of the attacker's that leads to this machine (DNS rebinding), and spellings that only look like ours.
    *_hosts(
        "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1.evil.example:{port}",
        "localhost.evil.example:{port}", "evil-localhost", "notlocalhost:{port}", "192.0.2.7:{port}", "0.0.0.0:{port}",
        "2130706433:{port}", "0x7f.1:{port}", "127.1:{port}", "[::]:{port}", "[::1", "::1]:{port}", "", ":{port}",
        "localhost@evil.example", "evil.example#localhost", "evil.example/localhost", "localhost:{port}:{port}",
        "localhost:x", "localhost evil.example", "localhost,evil.example", "localhost:{port}.evil.example",
        "evil.example?.localhost", "evil.example#.localhost:{port}", "evil.example\\.localhost", "..localhost",
    ),
    Attack("no host", "host", (400, 421), None),
    Attack("two hosts, ours first", "host", (400, 421), more=(("Host", "evil.example"),)),
    Attack("two hosts, ours last", "host", (400, 421), "evil.example", (("Host", "{host}"),)),
    Attack("a proxy's word for it", "host", (421,), "evil.example", (("X-Forwarded-Host", "{host}"),)),
    Attack("a forwarded one", "host", (421,), "evil.example", (("Forwarded", "host={host}"),)),
    Attack("rebinding with its own origin", "host", (421,), "evil.example", (("Origin", "http://evil.example"),)),
    # A page of another site, or of another program on this machine.
    *_origins(
        "null", "", "http://evil.example", "https://{host}", "http://{host}.evil.example", "http://127.0.0.1:1",
        "http://localhost:1", "http://{host}/", "//{host}", "file://", "http://evil.example, http://{host}",
        "chrome-extension://abc",
    ),
    Attack("two origins", "origin", (403,), more=(("Origin", "http://{host}"), ("Origin", "http://evil.example"))),
    Attack("a form of another site", "origin", (403,),
           more=(("Origin", "http://evil.example"), ("Referer", "http://{host}/"))),
    Attack("a preflight", "origin", (403,), method="OPTIONS",
           more=(("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST"))),
    *_sites(
        ("cross-site", "cors"), ("cross-site", "no-cors"), ("same-site", "cors"), ("same-site", "no-cors"),
        ("elsewhere", "cors"), ("cross-site", "websocket"),
    ),
    # Somebody who guesses.
    Attack("no token", "token", (401,), token=""),
    Attack("an empty token", "token", (401,), token="Bearer "),
    Attack("another token", "token", (401,), token="Bearer 0123456789abcdef"),
    Attack("half a token", "token", (401,), token="Bearer {half}"),
    Attack("a token and more", "token", (401,), token="Bearer {token}x"),
    Attack("a token twice", "token", (401,), token="Bearer {token} {token}"),
    Attack("no ASCII", "token", (401,), token="Bearer \xe9\xff"),
    Attack("a password", "token", (401,), token="Basic {token}"),
    Attack("no scheme", "token", (401,), token="{token}"),
    Attack("a token in the URL", "token", (401,), token="", query="?token={token}"),
    Attack("a cookie of another name", "token", (401,), token="", more=(("Cookie", "token={token}"),)),
    # What would be answered with more than was meant.
    *(Attack(method, "method", (400, 404, 405, 501), method=method)
      for method in ("TRACE", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "get")),
)  # fmt: skip


def send(port: int, good: Good, attack: Attack | None = None) -> tuple[int, dict[str, str]]:
    """Send a good request, or what an attack makes of it; return status and headers."""
    fill = {"host": f"127.0.0.1:{port}", "port": str(port), "token": good.token}
    fill["half"] = good.token[: len(good.token) // 2]
    attack = attack or Attack("", "", ())
    headers = [] if attack.host is None else [("Host", attack.host)]
    said = f"Bearer {good.token}" if good.token else ""
    said = said if attack.token is None else attack.token
    headers += [*good.headers, *attack.more, *([("Authorization", said)] if said else [])]
    headers += [("Content-Length", str(len(good.body)))] if good.body else []
    lines = "".join(f"{name}: {value.format(**fill)}\r\n" for name, value in headers)
    line = f"{attack.method or good.method} {good.path}{attack.query.format(**fill)} HTTP/1.1\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(f"{line}{lines}Connection: close\r\n\r\n".encode("latin-1") + good.body)
        answer = http.client.HTTPResponse(peer)
        answer.begin()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}


def answered(port: int, good: Iterable[Good]) -> list[tuple[str, str, int]]:
    """Return the attacks that were not refused as they should be: kind, name and status."""
    found = []
    for request in good:
        for attack in ATTACKS:
            if attack.kind == "token" and not request.token:
                continue
            status, headers = send(port, request, attack)
            if status not in attack.statuses or "access-control-allow-origin" in headers:
                found.append((attack.kind, attack.name, status))
    return found
