"""Who is let in: every route is behind one check, and that check looks at Host, Origin, method and token."""

import asyncio
import base64
import hashlib
import json
import re
import time
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.rooms import web
from tests.rooms.told_hub import ToldHub
from vedette.errors import SettingError
from vedette.views.web import links, server
from vedette.views.web.guard import HEADERS, LINKS
from vedette.views.web.pages import PAGES, Pages
from vedette.views.web.serve import check_bind
from vedette.views.web.server import ROUTES, Router
from vedette.views.web.state import AppState


@pytest.fixture
def access(make, store):
    make.run("r1", "first", project="p")
    make.points("r1", "loss", [1.0, 2.0])
    return web.access(store)


@pytest.fixture
def hub(access):
    with ToldHub(access.home) as found:
        yield found


@pytest.fixture
def site(access):
    with web.site(access, names=["box.example"]) as found:
        yield found


def _paths():
    for route in ROUTES:
        yield route.method, route.path.replace("{run}", "r1").replace("{digest}", "ab" * 32)


def _open_ones(site):
    """Return the routes that answer somebody without a token."""
    named = (page.format(run="r1", tab="logs") for page in PAGES)
    pages = [("GET", path) for path in (*named, "/assets/x.js", "/favicon.ico")]
    found = []
    for method, path in (*_paths(), *pages):
        for token in ("", "wrong", "share.99999999999." + "0" * 64):
            status, _, body = site.ask(method, path, {} if method == "POST" else None, token=token)
            if status != 401 or b"first" in body:
                found.append((method, path, status))
    return found


def test_who_is_refused_is_counted(access):
    """Each request that is not let in is counted by what was wrong with it; one that is let in is not."""
    refused = Counter()
    with web.site(access, refused=refused) as site:
        assert site.ask("GET", "/api/about")[0] == 200
        assert site.ask("GET", "/api/about", token="wrong")[0] == 401
        assert site.ask("GET", "/api/about", headers={"Host": "evil.example"})[0] == 421
        assert site.ask("GET", "/api/about", headers={"Origin": "http://evil.example"})[0] == 403
    assert refused == {"guard: token": 1, "guard: host name": 1, "guard: another site": 1}


def test_every_route_without_a_token_is_refused(site):
    """Whatever is asked for without the right token is refused, by all routes and all pages."""
    assert _open_ones(site) == []


def test_the_walk_finds_an_app_without_a_guard(access, hub):
    """The walk above is not blind: routes that are served without the guard are caught, each of them."""
    room = AppState(access, web.KEY)
    room.described = {}
    inside = Router(room, Pages())

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await server.live_with(room, asyncio.sleep(0), receive, send)
        elif scope["path"] == "/api/live":  # it never ends
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await inside({**scope, LINKS: None}, receive, send)  # as the guard says of the owner

    with web.served(app) as port:
        caught = {(method, path) for method, path, _ in _open_ones(web.Site(port))}
    assert set(_paths()) <= caught


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("{host}", None, 200),
        ("localhost:{port}", None, 200),
        ("localhost:9999", None, 200),  # an ssh tunnel
        ("[::1]:{port}", None, 200),
        ("box.example", None, 200),
        ("BOX.example:1", None, 200),
        ("127.0.0.2:{port}", None, 200),
        ("evil.example", None, 421),
        ("evil.example:{port}", None, 421),
        ("127.0.0.1.evil.example", None, 421),
        ("localhost.evil.example:{port}", None, 421),
        ("2130706433:{port}", None, 421),
        ("", None, 421),
        ("{host}", "http://{host}", 200),
        ("localhost:{port}", "http://localhost:{port}", 200),
        ("{host}", "http://localhost:{port}", 403),
        ("{host}", "http://127.0.0.1:9999", 403),  # another program of this machine
        ("{host}", "https://{host}", 403),
        ("{host}", "http://127.0.0.1", 403),
        ("{host}", "http://evil.example", 403),
        ("{host}", "null", 403),
        ("{host}", "", 403),
        ("{host}", "http://{host}.evil.example", 403),
        ("evil.example", "http://evil.example", 421),
    ],
)  # fmt: skip
def test_host_and_origin(site, host, origin, status):
    """Host is a loopback or configured name on any port; Origin, when sent, is exactly scheme://Host."""
    fill = {"host": site.host, "port": site.port}
    headers = {"Host": host.format(**fill)}
    if origin is not None:
        headers["Origin"] = origin.format(**fill)
    for method, path in (("GET", "/api/about"), ("POST", "/api/share")):
        assert site.ask(method, path, {} if method == "POST" else None, headers=headers)[0] == status


@pytest.mark.parametrize(
    ("fetch", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("elsewhere", 403)],
)
def test_what_a_browser_says_of_itself(site, fetch, status):
    """A browser that says it asks for another site's page is refused: another port of localhost is the same site."""
    assert site.ask("GET", "/api/about", headers={"Sec-Fetch-Site": fetch})[0] == status


def test_a_token_in_the_url_becomes_a_cookie(site):
    """A page with the right token sets a strict cookie that scripts cannot read, and leads to itself without it."""
    status, headers, body = site.ask("GET", f"/run/r1/logs?a=1&token={web.TOKEN}&b=%26", token="")
    assert status == 303
    assert headers["location"] == "/run/r1/logs?a=1&b=%26"
    assert web.TOKEN not in body.decode() + headers["location"]
    assert site.ask("GET", f"/run/a%2Fb?token={web.TOKEN}", token="")[1]["location"] == "/run/a%2Fb"
    cookie = headers["set-cookie"]
    assert cookie.startswith(f"vedette_{site.port}={web.TOKEN};")
    for word in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert word in cookie
    jar = {"Cookie": cookie.partition(";")[0]}
    assert site.ask("GET", "/api/about", token="", headers=jar)[0] == 200
    assert site.ask("GET", "/api/about", token="", headers={"Host": "localhost:1", **jar})[0] == 401  # another UI's


@pytest.mark.parametrize("other", ['a={"b": 1}', "a b=c", "bare", "x[0]=1", "path=/", "=", "q=\xe9"])
def test_cookies_of_other_programs_lock_nobody_out(site, other):
    """Cookies know no ports: what other programs on this host have put beside ours does not hide it, however odd."""
    ours = f"vedette_{site.port}={web.TOKEN}"
    for jar in (f"{other}; {ours}", f"{ours}; {other}"):
        assert site.ask("GET", "/api/about", token="", headers={"Cookie": jar})[0] == 200
    assert site.ask("GET", "/api/about", token="", headers={"Cookie": f"{other}; x{ours}"})[0] == 401


def test_who_comes_from_another_site_is_led_by_a_page(site):
    """A strict cookie is not sent along a redirect from another site: such a one is led by a page of ours."""
    came = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    status, headers, body = site.ask("GET", f"/run/r1?token={web.TOKEN}&q=%22%3E%3Cscript%3E", token="", headers=came)
    assert status == 200
    assert "set-cookie" in headers
    assert b'content="0;url=/run/r1?q=%22%3E%3Cscript%3E"' in body
    assert b"<script" not in body


@pytest.mark.parametrize("path", ["/api/about", "/api/runs", "/assets/x.js"])
def test_a_token_in_the_url_of_anything_else_is_none(site, path):
    """Only pages take a token from the URL: it would stand in logs and histories."""
    assert site.ask("GET", f"{path}?token={web.TOKEN}", token="")[0] == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "/%2F/evil.example", "///"])
def test_no_redirect_leads_elsewhere(site, path):
    """A token in a URL never leads to another host."""
    status, headers, _ = site.ask("GET", f"{path}?token={web.TOKEN}", token="")
    assert status in (400, 401, 404)
    assert "location" not in headers


def test_what_browsers_are_told(site):
    """Every answer, also a refusal, forbids scripts from elsewhere, frames, sniffing and referrers."""
    for token, path in ((None, "/api/about"), ("", "/"), (None, "/"), (None, "/nothing"), ("", "/api/runs")):
        _, headers, _ = site.ask("GET", path, token=token)
        policy = headers["content-security-policy"]
        for word in ("default-src 'self'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
            assert word in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_a_refused_page_says_why_in_the_look_of_the_app(site):
    """Its style is in the page, by a hash that only its own policy names; no script, no file, nothing of the home."""
    over = links.sign(web.TOKEN, int(time.time()) - 1, links.Scope(("r1",)))
    for path, why in (("/run/r1", "The token is missing or wrong"), (f"/?token={over}", "This link has expired")):
        status, headers, body = site.ask("GET", path, token="")
        assert status == 401
        style = re.search(b"<style>(.*?)</style>", body, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
        policy = headers["content-security-policy"]
        assert policy == HEADERS["content-security-policy"].replace("style-src 'self'", f"style-src 'sha256-{digest}'")
        assert f"<h1>{why}</h1>".encode() in body
        assert not re.search(rb"<script|src=|url\(|/assets|first|r1", body)
    assert "sha256" not in site.ask("GET", "/")[1]["content-security-policy"]


def test_try_again_is_offered_where_it_can_help(site):
    """After a link on another site the browser has kept back its cookie; what is over stays so."""
    came = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    over = links.sign(web.TOKEN, int(time.time()) - 1, links.Scope(("r1",)))
    held = {"Cookie": f"vedette_{site.port}={over}"}
    for path, headers, offered in (
        ("/", came, True), ("/", {}, False), ("/", {**came, **held}, False), ("/", held, False),
        (f"/?token={over}", came, False), ("/?token=wrong", came, False),
    ):  # fmt: skip
        status, _, body = site.ask("GET", path, token="", headers=headers)
        assert (status, b"Try again</a>" in body) == (401, offered), (path, headers)


def test_one_site_may_show_the_page_in_a_frame(access):
    """With `--frame` that origin, and no other, may show the page in a frame; all else is as before."""
    with web.site(access, frame="http://localhost:8888") as framed, web.site(access) as plain:
        (_, told, _), (_, usual, _) = framed.ask("GET", "/"), plain.ask("GET", "/")
    assert usual["x-frame-options"] == "DENY"
    assert "x-frame-options" not in told
    policy = usual["content-security-policy"].replace("frame-ancestors 'none'", "frame-ancestors http://localhost:8888")
    assert told["content-security-policy"] == policy


def test_nothing_is_changed_by_get(hub, site):
    """What changes something is asked for by POST; other methods are refused, and say which is right."""
    for route in ROUTES:
        path = route.path.replace("{run}", "r1").replace("{digest}", "ab" * 32)
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            if method == route.method or (method == "HEAD" and route.method == "GET"):
                assert not (route.changes and method != "POST")
                continue
            status, headers, _ = site.ask(method, path)
            assert status == 405, (method, path)
            assert headers["allow"]
    assert hub.asked == []


def test_a_shared_link_opens_its_page_and_changes_nothing(hub, site):
    """A link that was shared becomes a cookie as the token does, opens the page, and changes nothing."""
    url = site.post("/api/share", {"hours": 1, "path": "/run/r1?x=1"})["url"]
    parts = urlsplit(url)
    assert parts.netloc == site.host
    assert parts.path == "/run/r1"
    token = parse_qs(parts.query)["token"][0]
    status, headers, _ = site.ask("GET", f"{parts.path}?{parts.query}", token="")
    assert status == 303
    assert headers["location"] == "/run/r1?x=1"
    assert 3500 < int(re.search(r"Max-Age=(\d+);", headers["set-cookie"])[1]) - 30 * 86400 <= 3600
    jar = {"Cookie": headers["set-cookie"].partition(";")[0]}
    assert site.ask("GET", "/run/r1", token="", headers=jar)[0] == 200
    assert site.get("/api/about", token="", headers=jar)["read_only"] is True
    for route in ROUTES:
        if route.method == "POST" and route.path != "/api/series":
            assert site.ask("POST", route.path.replace("{run}", "r1"), {}, token=token)[0] == 403
    assert hub.asked == []


def test_an_owner_who_tries_a_shared_link_stays_one(site):
    """A link that may only read takes nothing away from a browser that has the owner's token; nor does an old one."""
    link = links.sign(web.TOKEN, int(time.time()) + 3600, links.Scope(("r1",)))
    for held, url, kept in (
        (web.TOKEN, link, web.TOKEN), ("wrong", link, link), (link, link, link), (web.TOKEN, "old", web.TOKEN),
    ):  # fmt: skip
        jar = {"Cookie": f"vedette_{site.port}={held}"}
        status, headers, _ = site.ask("GET", f"/?token={url}", token="", headers=jar)
        assert status == 303
        assert headers["set-cookie"].startswith(f"vedette_{site.port}={kept};")
    assert site.ask("GET", "/?token=old", token="", headers={"Cookie": f"vedette_{site.port}={link}"})[0] == 401


def test_a_read_only_server_changes_nothing(access, hub):
    """`--read-only` refuses what changes something even to the owner."""
    with web.site(access, read_only=True) as site:
        for route in ROUTES:
            if route.changes:
                assert site.ask("POST", route.path.replace("{run}", "r1"), {})[0] == 403
    assert hub.asked == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "box.example"])
def test_a_wide_bind_takes_token_and_tls(host):
    """What other machines can reach is refused without a token and TLS, with a sentence that says what to do."""
    for token, tls in (("", False), ("t", False), ("", True)):
        with pytest.raises(SettingError, match=r"--tls, or\s+listen on 127\.0\.0\.1"):
            check_bind(host, token=token, tls=tls)
    check_bind(host, token="t", tls=True)
    check_bind("127.0.0.1", token="t", tls=False)


def test_bodies_are_capped_and_are_json(site):
    """A body that is too long, no JSON, of another type or shape is refused in one sentence."""
    big = b"[" + b"1," * (1 << 20) + b"1]"
    assert site.ask("POST", "/api/series", big)[0] == 413
    assert site.ask("POST", "/api/share", b"x", headers={"Content-Type": "text/plain"})[0] == 415
    for body in (b"{", b"[]", b'{"of": 1}', b'{"of": [], "more": 1}', b"\xff", b"[" * 100_000, b'{"of":[{}]}'):
        status, headers, answer = site.ask("POST", "/api/series", body)
        assert status == 400, body[:20]
        assert headers["content-type"] == "application/json"
        assert set(json.loads(answer)) == {"error"}
        assert b"Traceback" not in answer


def test_mistakes_are_said_in_one_sentence(site):
    """What was asked wrongly is answered by a sentence and a status of its kind."""
    for path, status in (
        ("/api/runs?where=config.lr+%3E", 400), ("/api/runs?limit=x", 400), ("/api/runs?limit=-1", 400),
        ("/api/runs?limit=100000", 400), ("/api/runs/nobody", 404), ("/api/runs/r1/logs?level=loud", 400),
        ("/api/runs/r1/logs?after=1&before=2", 400), ("/api/nothing", 404), ("/api", 404), ("/nothing", 404),
        ("/api/runs?where=" + "x" * 20_000, 414), ("/api/runs/r1/usage?width=0", 400), ("/api/runs?where=%00", 400),
        ("/api/runs?offset=1e400", 400), ("/api/runs/r1/logs?from_t=nan", 400),
        ("/api/runs/r1/logs?from_t=9.3e12", 400), ("/api/runs/r1/density?to_t=9007199254740991", 400),
    ):  # fmt: skip
        found, headers, body = site.ask("GET", path)
        assert found == status, path
        assert headers["content-type"] == "application/json"
        assert len(json.loads(body)["error"]) < 500


@pytest.mark.parametrize(
    "name",
    ["..", "../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%252e%252e%252fetc",
     "..\\..\\etc\\passwd", "..%5c..%5cetc", "%00", "ab%00.png", "%23", ".", "%2e", "//etc/passwd", "/etc/passwd",
     "%ff%fe", "ab" * 32 + "/..", ("ab" * 32).upper(), "ab" * 31, "ab" * 33, "g" * 64, "%c0%ae%c0%ae/etc/passwd",
     "\u0661" * 64],
)  # fmt: skip
def test_no_path_leads_out(site, name):
    """No spelling of a path reads a file: blobs come by digest, pages by the names of what was built."""
    raw = name.encode().decode("latin-1")
    for before in ("/api/blobs/", "/assets/", "/", "/run/r1/", "/api/runs/"):
        status, _, body = site.ask("GET", before + raw)
        assert b"root:" not in body
        assert status in (400, 404) or (status == 200 and before in ("/", "/run/r1/") and b"vedette" in body), raw


def test_a_read_only_server_still_shares(access):
    """A link that may only read changes nothing: on a read-only server its owner makes one, and nobody else does."""
    with web.site(access, read_only=True) as site:
        url = site.post("/api/share", {"hours": 1})["url"]
        token = parse_qs(urlsplit(url).query)["token"][0]
        assert site.get("/api/about", token=token)["read_only"] is True
        assert site.ask("POST", "/api/share", {"hours": 1}, token=token)[0] == 403
