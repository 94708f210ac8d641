"""The owner's token: it is replaced while the page is served, and handed to his browser without a word to others."""

import contextlib
import html
import json
import os
import re
import time
import urllib.request
import webbrowser
from urllib.parse import unquote, urlsplit

import pytest

from tests.rooms import web
from tests.rooms.users import AS_ROOT, as_nobody
from tests.rooms.views.test_web_live import Listener
from vedette import tokens
from vedette.views.web import guard, handover, key, links
from vedette.views.web.handover import Handover
from vedette.views.web.key import Key
from vedette.views.web.server import build


@pytest.fixture
def access(make, store, monkeypatch):
    make.run("r1", "first")
    monkeypatch.setattr(guard, "_LOOK_S", 0.1)
    return web.access(store)


@contextlib.contextmanager
def served(access, **kwargs):
    """Serve a home by its own token."""
    held = Key.of(access.home)
    with web.served(build(access, held, **kwargs)) as port:
        yield web.Site(port, held.now), held


def test_a_token_that_is_replaced(access):
    """From then on the old token and what was signed with it open nothing, and say why; the new one opens all."""
    told = []
    with served(access, renewed=lambda: told.append(1)) as (site, held):
        old = site.token
        link = links.sign(old, int(time.time()) + 3600, links.Scope(("r1",)))
        ears = [Listener(site), Listener(site, "r1"), Listener(web.Site(site.port, link), "r1")]
        assert [ear.word()[0] for ear in ears] == ["hello"] * 3
        tokens.renew(access.home)
        for token, why, what in (
            (old, "this page's token was replaced", "open it again with `vedette ui`"),
            (link, "this link was withdrawn", "ask for a new one"),
        ):
            status, _, body = site.ask("GET", "/api/about", token=token)
            assert status == 401
            assert f"{why}: {what}" in json.loads(body)["error"]
            shown = html.unescape(re.sub("</?code>", "", site.ask("GET", f"/?token={token}", token="")[2].decode()))
            for part in (why, what.replace("`", "")):
                assert f">{part.capitalize()}" in shown
        assert site.ask("GET", "/api/about", token=held.now)[0] == 200
        assert held.now != old
        late = Listener(web.Site(site.port, held.now))
        for ear in ears:  # the streams end within seconds
            ear.rest()
        assert told == [1]
        assert late.word()[0] == "hello"
        os.unlink(tokens.page_path(access.home))  # as good as replaced
        assert site.ask("GET", "/api/about", token=site.token)[0] == 401
        late.rest()
        assert site.ask("GET", "/api/about", token=tokens.page_token(access.home))[0] == 200


def test_the_check_of_that_finds_a_server_that_does_not_look(access):
    """Control: a server that reads its token once goes on with the old one."""
    fixed = tokens.page_token(access.home)
    with web.served(build(access, Key(lambda: fixed))) as port:
        tokens.renew(access.home)
        assert web.Site(port, fixed).get("/api/about")["version"]


@AS_ROOT
def test_the_owners_token_is_his_alone(access):
    """A browser sends the cookie to all ports of a host: another user who has one of them can do nothing with it."""
    with served(access, names=["vedette.lab"], own_names=["vm.lab"]) as (site, held):
        link = links.sign(site.token, int(time.time()) + 3600, links.Scope(("r1",)))
        code = held.code()

        def ask():
            name, cookie = {"Host": "vedette.lab"}, {"Cookie": f"vedette_{site.port}={site.token}"}
            edit = site.ask("POST", "/api/edit", {"runs": ["r1"], "attrs": {"star": True}}, token="", headers=cookie)
            return json.dumps(
                [
                    json.loads(site.ask("GET", "/api/runs")[2])["error"],
                    edit[0],
                    site.ask("GET", "/api/runs", token="", headers=cookie)[0],
                    site.ask("GET", f"/?token={site.token}", token="")[0],
                    site.ask("GET", f"/?token={code}", token="")[0],
                    site.ask("GET", "/api/about", token=link)[0],
                    site.ask("GET", "/api/about", headers={"Host": "vm.lab"})[0],
                    site.ask("GET", "/api/about", headers=name)[0],
                ]
            )

        why, *statuses = json.loads(as_nobody(ask))
        assert why == guard._OF_STRANGER
        assert statuses == [401, 401, 401, 401, 200, 401, 200]
        assert held.knows(code)
        assert site.ask("GET", "/api/runs", token="", headers={"Cookie": f"vedette_{site.port}={site.token}"})[0] == 200


def test_a_token_that_cannot_be_read_is_nobodys(access, monkeypatch):
    """While the file cannot be read, nobody is the owner, with an empty token neither, and no link holds."""
    with served(access) as (site, _):
        os.unlink(tokens.page_path(access.home))
        monkeypatch.setattr(tokens, "page_token", lambda _: (_ for _ in ()).throw(PermissionError()))
        for token in (site.token, "", " ", links.sign("", int(time.time()) + 60, links.Scope(None))):
            assert site.ask("GET", "/api/about", token=token)[0] == 401


class Browser:
    """Opens a file as a browser would, and follows where it leads."""

    def __init__(self, *, comes=True):
        self.argv, self.mode, self.comes, self.cookie, self.statuses = "", 0, comes, "", []

    def __call__(self, url):
        self.argv = url
        path = unquote(urlsplit(url).path)
        self.mode = os.stat(path).st_mode & 0o777
        with open(path) as file:
            self.target = re.search(r'content="0;url=([^"]*)"', file.read())[1].replace("&amp;", "&")
        if self.comes:
            for _ in range(2):
                self.statuses.append(self.follow())
        return True

    def follow(self):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        with (
            contextlib.suppress(urllib.error.HTTPError) as _,
            urllib.request.urlopen(urllib.request.Request(self.target, headers=headers)) as answer,
        ):
            self.cookie = answer.headers["Set-Cookie"]
            return answer.status
        return 401


@pytest.fixture
def open_page(access, monkeypatch):
    """Serve a home, and open it in a browser; hand out what was said."""

    def open_it(browser, path="/run/r1?a=1"):
        said = []
        monkeypatch.setattr(webbrowser, "open", browser)
        with served(access) as (site, held):
            hand = Handover(access.home, held, f"http://{site.host}{path}", said.append)
            hand.open()
            assert site.token not in browser.argv + browser.target
            if browser.cookie:
                jar = {"Cookie": browser.cookie.partition(";")[0]}
                assert site.get("/api/about", token="", headers=jar)["read_only"] is False
            left = [name for name in os.listdir(access.home.root) if name.endswith(".html")]
            return "".join(said), left, web.Site(site.port, browser.target.rpartition("token=")[2])

    return open_it


def test_the_browser_gets_no_token(open_page, access):
    """It is given a file of the owner's alone, with a code that opens the page once; then the file is gone."""
    browser, killed = Browser(), os.path.join(access.home.root, "vedette-ui-1.html")
    with open(killed, "w") as file:
        os.utime(file.fileno(), (1, 1))
    said, left, _ = open_page(browser)
    assert browser.argv.startswith(f"file://{access.home.root}/")
    assert browser.mode == 0o600
    assert browser.target.split("token=")[0].endswith("/run/r1?a=1&")
    assert browser.statuses == [200, 401]
    assert (said, left) == ("", [])


def test_a_browser_that_does_not_come(open_page, monkeypatch):
    """If the code is not used, a hint says what to do; it grows too old, and the file goes."""
    monkeypatch.setattr(handover, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(key, "CODE_S", 3.0)  # well beyond it, however slow the machine is
    browser = Browser(comes=False)
    said, left, _ = open_page(browser)
    assert "Open the address above by hand" in said
    assert left == []


def test_a_code_opens_a_page_and_nothing_else(access):
    """A code is no token: not for the API, not in a cookie, not by HEAD, not after a minute or a new token."""
    with served(access) as (site, held):
        code = held.code()
        assert site.ask("GET", "/api/about", token=code)[0] == 401
        assert site.ask("GET", f"/api/about?token={code}", token="")[0] == 401
        assert site.ask("GET", "/", token="", headers={"Cookie": f"vedette_{site.port}={code}"})[0] == 401
        assert site.ask("HEAD", f"/?token={code}", token="")[0] == 401
        assert site.ask("GET", f"/?token={code}", token="", headers={"Host": "evil.example"})[0] == 421
        assert held.knows(code)  # none of these has used it up
        assert site.ask("GET", f"/?token={code}", token="")[0] == 303
        assert site.ask("GET", f"/?token={code}", token="")[0] == 401
        code = held.code()
        tokens.renew(access.home)
        assert site.ask("GET", f"/?token={code}", token="")[0] == 401


def test_a_browser_that_is_a_snap(access, monkeypatch, tmp_path):
    """A snap may not look into hidden directories: if it is the browser of the desktop, the file lies in its own."""
    (tmp_path / "snap/firefox/common").mkdir(parents=True)
    (tmp_path / "applications").mkdir()
    (tmp_path / "applications/firefox_firefox.desktop").touch()
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/xdg-settings"
    tool.write_text('#!/bin/sh\necho "$DESKTOP"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    monkeypatch.setattr(handover, "_SNAPS", str(tmp_path / "applications"))
    for desktop, place in (
        ("firefox_firefox.desktop", str(tmp_path / "snap/firefox/common")), ("firefox.desktop", access.home.root),
        ("../x_y", access.home.root), ("", access.home.root),
    ):  # fmt: skip
        monkeypatch.setenv("DESKTOP", desktop)
        assert handover._place(access.home) == place
    tool.unlink()
    assert handover._place(access.home) == access.home.root
