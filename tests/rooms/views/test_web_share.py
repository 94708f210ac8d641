"""Links read what was shared, and nothing else: every route, stream and blob, inside, outside, and when it is over.

All that lies outside has a word in it that must never be answered. A new route is a row of ASKED, or is refused.
"""

import asyncio
import contextlib
import json
import random
import socket
import time
from collections import Counter
from urllib.parse import quote, urlencode

import pytest

from tests.rooms import web
from tests.rooms.conftest import BORN
from tests.rooms.told_hub import ToldHub
from tests.rooms.views.test_web_api import settled
from tests.rooms.views.test_web_live import Listener
from vedette import manifest
from vedette.manifest import Entry
from vedette.model import Blob, Event, Span
from vedette.store import RelayRow
from vedette.views.web import links, live, narrow, share
from vedette.views.web.guard import Guard
from vedette.views.web.links import Scope
from vedette.views.web.pages import is_page
from vedette.views.web.routes import Route
from vedette.views.web.server import ROUTES, Router, live_with
from vedette.views.web.state import AppState
from vedette.wire import Change

SECRET = "s3cret"
NOWHERE = "outside9"  # a run that does not exist, with a name as near as that of one that does
HOSTS = ("camp", f"{SECRET}-host")

# How each route that is shared is asked: its query, for the runs a and b; SERIES is the body of the one that takes any.
ASKED = {
    "GET /api/about": {},
    "GET /api/runs": {"where": "id ~ {a}", "columns": f"config.lr,metric.{SECRET}_loss"},
    "GET /api/runs/{run}": {},
    "POST /api/series": {},
    "GET /api/runs/{run}/logs": {},
    "GET /api/runs/{run}/density": {"buckets": "3"},
    "GET /api/runs/{run}/usage": {},
    "GET /api/runs/{run}/files": {},
    "GET /api/runs/{run}/code": {},
    "GET /api/compare": {"runs": "{a},{b}"},
    "GET /api/explain": {"a": "{a}", "b": "{b}"},
    "GET /api/blobs/{digest}": {},
    "GET /api/openapi.json": {},
}
SERIES = [
    {"run": span, "name": name}
    for span in ("{a}", "{a}/1/o", "host-{host}-b")
    for name in ("loss", f"{SECRET}_loss", "cpu_percent")
]
STREAM = "GET /api/live"
# Of these an answer to a question about another run is not refused: it is what is left of it.
SELECTING = {"GET /api/about", "GET /api/runs", "POST /api/series", "GET /api/openapi.json"}


def _fill(make, home, run, *, secret):
    """Make a run with a bit of everything; return its blobs."""
    word, host, state = (SECRET, HOSTS[1], "running") if secret else ("plain", HOSTS[0], "done")
    said = dict.fromkeys(("cause", "experiment", "notes", "description", "cwd", "git.commit", "env.A"), word)
    said |= {"project": f"{word}-project", "argv": ["python", word], f"config.{word}": word, f"tag.{word}": True}
    make.run(run, f"{word}-{run}", state, heard_t=1 << 62, **said, **{"config.lr": 0.1})
    make.points(run, "loss", [1.0, 2.0])
    make.points(run, f"{word}_loss", [3.0])
    source, diff = f"print({word!r}, {run!r})\n".encode(), f"+{word} {run}\n".encode()
    blobs = [web.put_blob(home, source)]
    listed = manifest.write([Entry(f"{word}.py", blobs[0], len(source))])
    files = ((manifest.NAME, listed), (manifest.DIFF, diff), (f"{word}.txt", b"own " + diff))
    for name, data in files:
        blobs.append(web.put_blob(home, data))
        make.facts(run, Blob(run, BORN, name, blobs[-1], len(data), "text/plain"))
    make.facts(
        run, Span(f"{run}/1", BORN, state, kind="try", parent=run, attrs={"n": 1}),
        Span(f"{run}/1/o", BORN, state, kind="process", name=word, parent=f"{run}/1",
             attrs={"pid": 7, "host": host, "argv": [word]}),
        Span(f"{run}/p-1", BORN, state, kind="progress", name=word, parent=run, attrs={"total": 9}),
        Event(run, BORN, "mark", 20, word), Event(run, BORN, "ask", 20, word, {"ask": "q", "process": f"{run}/1/o"}),
    )  # fmt: skip
    make.events(run, f"a {word} line of {run}")
    make.points(f"{run}/1/o", "cpu_percent", [1.0, 2.0])
    return blobs


@pytest.fixture
def home(make, store):
    """Two runs that are shared, one that is not, and their machines; hand out the blobs of each run."""
    access = web.access(store)
    for name in HOSTS:
        make.facts("hosts", Span(f"host-{name}-b", BORN, "running", kind="host", name=name))
        make.points(f"host-{name}-b", "cpu_percent", [5.0, 6.0])
    blobs = {
        run: _fill(make, access.home, run, secret=run == "outside0") for run in ("inside01", "inside02", "outside0")
    }
    access.blobs_of = blobs
    return access


@pytest.fixture
def site(home):
    with web.site(home) as found:
        yield found


SCOPES = {
    "a run": Scope(("inside01",)),
    "a comparison": Scope(("inside01", "inside02")),
    "a filter": Scope(None, "tag.plain"),
    "a project": Scope(None, "", "plain-project"),
}


def _link(scope, seconds=3600):
    return links.sign(web.TOKEN, int(time.time() + seconds), scope)


def _ask(site, route, token, a, b, blob):
    """Ask a route for runs and a blob; return status and body."""
    name, fill = f"{route.method} {route.path}", {"a": a, "b": b, "host": HOSTS[a == "outside0"]}
    query = urlencode({key: text.format(**fill) for key, text in ASKED[name].items()})
    of = [{key: text.format(**fill) for key, text in one.items()} for one in SERIES]
    body = {"of": of, "buckets": 10} if route.method == "POST" else None
    path = route.path.replace("{run}", quote(a, safe="")).replace("{digest}", blob)
    status, _, answer = site.ask(route.method, f"{path}?{query}", body, token=token)
    return status, answer.replace(f"metric.{SECRET}_loss".encode(), b"")  # a column that was asked for


def _leaks(site, home, token, others):
    """Return the routes that tell somebody with this link of what was not shared; `others`: a second run inside."""
    secret = SECRET.encode()
    outside = [digest.encode() for digest in home.blobs_of["outside0"]]
    found = []
    for route in ROUTES:
        name = f"{route.method} {route.path}"
        if name == STREAM or not route.shared:
            continue
        for blob in home.blobs_of["inside01"]:
            status, answer = _ask(site, route, token, "inside01", others, blob)
            if status != 200:
                found.append((name, "inside", status))
            if secret in answer or b"outside0" in answer or any(digest in answer for digest in outside):
                found.append((name, "inside tells of outside"))
            if "{digest}" not in route.path:
                break
        for a, b in (("outside0", "inside01"), ("inside01", "outside0"), ("outside0", "outside0")):
            for blob in home.blobs_of["outside0"]:
                status, answer = _ask(site, route, token, a, b, blob)
                none, nothing = _ask(site, route, token, a.replace("outside0", NOWHERE), b.replace("outside0", NOWHERE),
                                     "0" * 64)  # fmt: skip
                asks_outside = a == "outside0" or "{run}" not in route.path
                wanted = (200,) if name in SELECTING or not asks_outside else (403, 404)
                if status not in wanted:
                    found.append((name, f"outside {a},{b}", status))
                if secret in answer:
                    found.append((name, "outside"))
                if name != "GET /api/about" and (status, answer.replace(b"outside0", NOWHERE.encode())) != (
                    none,
                    nothing,
                ):
                    found.append((name, "tells whether it is there"))
                if "{digest}" not in route.path:
                    break
    return found


@pytest.mark.parametrize("kind", SCOPES)
def test_no_route_and_no_blob_tells_of_what_was_not_shared(kind, home, site):
    """Inside is answered; outside is refused, or left out, as if it did not exist; what is over is refused: 0 leaks."""
    second = "inside01" if kind == "a run" else "inside02"
    assert _leaks(site, home, _link(SCOPES[kind]), second) == []
    over = _link(SCOPES[kind], -1)
    for route in ROUTES:
        path = route.path.replace("{run}", "inside01").replace("{digest}", home.blobs_of["inside01"][0])
        assert site.ask(route.method, path, {} if route.method == "POST" else None, token=over)[0] == 401


def test_the_matrix_finds_routes_that_are_not_narrowed(home, monkeypatch):
    """The matrix is not blind: where links see the whole home, each route that reads it is caught."""
    monkeypatch.setattr(narrow, "runs_of", lambda *_: frozenset(("inside01", "inside02", "outside0")))
    with web.site(home) as site:
        caught = {found[0] for found in _leaks(site, home, _link(SCOPES["a run"]), "inside01")}
    assert caught == set(ASKED) - {"GET /api/openapi.json"}


def test_the_matrix_finds_blobs_and_machines_that_are_not_narrowed(home, monkeypatch):
    """Nor is it blind to a single gap: any blob, any machine, any list that was cached for another link."""
    for target, name, wrong, caught in (
        (narrow._Home, "_names", lambda *_: True, {"GET /api/blobs/{digest}"}),
        (narrow.NarrowReader, "shows", lambda *_: True, {"POST /api/series"}),
        (narrow._Listing, "page", lambda self, *args, **more: self._whole.page(*args, **more), {"GET /api/runs"}),
    ):
        with monkeypatch.context() as patch, web.site(home) as site:
            patch.setattr(target, name, wrong)
            assert _ask(site, ROUTES[1], _link(Scope(("outside0",))), "outside0", "", "")[0] == 200
            assert {found[0] for found in _leaks(site, home, _link(SCOPES["a run"]), "inside01")} >= caught


def _forge(home, make):
    """Have mallory's run name a file of the run outside, and list it as its code; return the digest, and her manifest.

    She has sent the manifest alone.
    """
    secret = home.blobs_of["outside0"][0]
    data = manifest.write([Entry("stolen.py", secret, 9)])
    listing = web.put_blob(home.home, data)
    make.store.note_relay(RelayRow("relay-m", "mallory", "", 1, 1))
    make.store.bind("relay-m", [], ["evil", "evil2"])
    make.store.note_delivered({listing: len(data)}, "relay-m")
    for run, name, digest in (("evil", "mine", secret), ("evil2", manifest.NAME, listing)):
        make.run(run)
        make.facts(run, Blob(run, BORN, name, digest, 9))
    return secret, listing


@pytest.mark.parametrize("run", ["evil", "evil2"])
def test_a_run_shows_only_bytes_that_its_holder_has_sent(home, make, run):
    """Who names another's file in a run of his own, or lists it as its code, does not read it by a link to it."""
    secret, listing = _forge(home, make)
    token = _link(Scope((run,)))

    def read(digest):
        with web.site(home) as site:
            return site.ask("GET", f"/api/blobs/{digest}", token=token)

    assert read(secret)[::2] == read("0" * 64)[::2]
    assert read(listing)[0] == (200 if run == "evil2" else 404)
    make.store.note_delivered({secret: 9}, "relay-m")
    assert read(secret)[0] == 200


def test_the_check_of_forged_files_sees_them(home, make, monkeypatch):
    """Where names alone count, a link to mallory's runs reads the file of the run outside."""
    secret, _ = _forge(home, make)
    monkeypatch.setattr(narrow._Home, "_shows", lambda _self, _digest, holders: bool(holders))
    with web.site(home) as site:
        for run in ("evil", "evil2"):
            assert site.ask("GET", f"/api/blobs/{secret}", token=_link(Scope((run,))))[0] == 200


def test_every_route_says_what_a_link_gets(home, site):
    """A route that does not say how it is shared is refused to all links; each one that does is in the matrix."""
    assert {f"{route.method} {route.path}" for route in ROUTES if route.shared} == {*ASKED, STREAM}
    for route in ROUTES:
        path = route.path.replace("{run}", "inside01")
        if not route.shared:
            body = {} if route.method == "POST" else None
            for scope in SCOPES.values():
                assert site.ask(route.method, path, body, token=_link(scope))[0] == 403
        assert not (route.shared and route.changes)
    assert Route("GET", "/api/new", lambda: None, "A new one").shared == ""


def test_a_new_route_is_refused_to_links(home):
    """A route that nobody thought about is the owner's alone, however it is done."""
    routes = [Route("GET", f"/api/{how}", lambda *_: {"a": SECRET}, "new", how=how) for how in ("reads", "calls")]

    async def serves(*_):
        return {"a": SECRET}

    state = AppState(home, web.KEY)
    router = Router(state, None, (*routes, Route("GET", "/api/serves", serves, "new", how="serves")))
    guarded = Guard(router, web.KEY, (), Counter(), is_page=is_page)

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await live_with(state, asyncio.sleep(0), receive, send)
        else:
            await guarded(scope, receive, send)

    with web.served(app) as port:
        site = web.Site(port)
        for how in ("reads", "calls", "serves"):
            assert site.get(f"/api/{how}") == {"a": SECRET}
            assert site.ask("GET", f"/api/{how}", token=_link(SCOPES["a project"]))[0] == 403


def test_what_is_said_of_the_home(home, site):
    """Who came by a link learns what it shows and until when, and neither counts nor names of anything else."""
    about = site.get("/api/about", token=_link(SCOPES["a run"]))
    [shared] = about["shared"]
    assert (shared["what"], shared["path"]) == ("the run plain-inside01", "/run/inside01")
    assert 0 < shared["end_t"] / 1e3 - time.time() <= 3600
    assert (about["read_only"], about["home"], about["projects"]) == (True, "", ["plain-project"])
    page = site.get("/api/runs", token=_link(SCOPES["a comparison"]))
    assert (page["total"], page["cursor"], sorted(page["ids"])) == (2, "", ["inside01", "inside02"])
    assert {"name": "config.lr", "count": 2} in page["columns"]
    assert site.get("/api/runs")["total"] == 3
    assert site.get("/api/about")["shared"] == []


@pytest.fixture
def told(home, monkeypatch):
    monkeypatch.setattr(live, "_LEAST_S", 0.02)
    with ToldHub(home.home) as hub, web.site(home) as site:
        settled(site)
        yield site, hub


def test_a_filter_is_judged_when_it_is_asked(told, make):
    """Runs that match later are shown, too; those that match no more, or were removed, are not."""
    site, hub = told
    link = _link(Scope(None, "config.lr < 1", "plain-project"))
    ids = lambda: sorted(site.get("/api/runs", token=link)["ids"])  # noqa: E731
    assert ids() == ["inside01", "inside02"]
    make.run("later", "later", project="plain-project", **{"config.lr": 0.5})
    make.facts("inside02", Span("inside02", BORN + 10**12, attrs={"removed": True}))
    hub.tell(Change(spans=["later", "inside02"]))
    deadline = time.monotonic() + 60
    while ids() != ["inside01", "later"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert site.ask("GET", "/api/runs/inside02", token=link)[0] == 404
    assert site.ask("GET", "/api/runs/inside02", token=_link(SCOPES["a comparison"]))[0] == 404
    assert site.ask("GET", "/api/runs/inside02")[0] == 200  # the owner may bring it back


def test_a_filter_of_somebody_with_a_link_is_short(site):
    """Anybody may hold a link: what he asks for is bounded more than what the owner's scripts do."""
    for length, status in ((2000, 200), (2001, 400)):
        path = f"/api/runs?where=name={'a' * (length - 5)}"
        assert site.ask("GET", path)[0] == 200
        assert site.ask("GET", path, token=_link(SCOPES["a run"]))[0] == status


def test_a_stream_tells_of_what_was_shared(told):
    """News of other runs and machines never come, nor how much happens there; a run outside cannot be watched."""
    site, hub = told
    for kind, run in (("a run", ""), ("a run", "inside01"), ("a comparison", ""), ("a filter", ""), ("a project", "")):
        reader = web.Site(site.port, _link(SCOPES[kind]))
        ear = Listener(reader, run)
        assert ear.word()[0] == "hello"
        hub.tell(Change(spans=["outside0", "host-camp-b"], events=["outside0"], points=["outside0", "host-camp-b"]))
        hub.tell(Change(events=["inside01", "outside0/1"]))
        news = ear.until(lambda told: not told["missed"])
        assert (news["runs"], news["spans"], news["events"], news["points"]) == (["inside01"], False, True, [])
        assert b"outside" not in ear.heard
        assert b"id: \n" in ear.heard
        ear.close()
    for run in ("outside0", NOWHERE, "host-camp-b", "inside02"):
        status, _, body = site.ask("GET", f"/api/live?run={run}", token=_link(SCOPES["a run"]))
        assert (status, json.loads(body)) == (404, {"error": "this is not among what was shared, or was removed since"})


def test_the_check_of_streams_finds_one_that_tells_all(told, monkeypatch):
    """The check above is not blind: a stream that is not narrowed tells of other runs."""
    site, hub = told
    monkeypatch.setattr(live, "_within", lambda change, _: change)
    ear = Listener(web.Site(site.port, _link(SCOPES["a run"])))
    assert ear.word()[0] == "hello"
    hub.tell(Change(events=["outside0"]))
    assert ear.until(lambda told: not told["missed"])["runs"] == ["outside0"]
    ear.close()


def test_a_stream_ends_with_its_link(told):
    """When a link expires what was being answered ends at once, and its next request is refused with a sentence."""
    site, _ = told
    token = _link(SCOPES["a run"], 3)
    ear = Listener(web.Site(site.port, token), "inside01")
    assert ear.word()[0] == "hello"
    ear.rest()
    assert time.time() >= int(token.split(".")[1])
    status, _, body = site.ask("GET", "/api/live", token=token)
    assert (status, json.loads(body)["error"]) == (401, "this link has expired: ask for a new one")


def test_a_link_is_made_for_what_a_page_shows(home, site, make):
    """The scope of a link is that of its page, by ids; a page that is none, or shows nothing, makes no link."""
    make.run("named", "a,b % c")
    for path, what, scope in (
        ("/run/plain-inside01/logs?level=warning", "the run plain-inside01", Scope(("inside01",))),
        ("/compare?runs=inside01,plain-inside02&m=loss", "2 runs", Scope(("inside01", "inside02"))),
        ("/compare?runs=a%252Cb%20%2525%20c,inside01", "2 runs", Scope(("named", "inside01"))),
        ("/explain?a=inside01&b=inside02", "2 runs", Scope(("inside01", "inside02"))),
        ("/?project=plain-project", "all runs of the project plain-project",
         Scope(None, "", "plain-project", "Europe/Berlin")),
        ("/?where=tag.plain&columns=x", "all runs that match tag.plain", Scope(None, "tag.plain", "", "Europe/Berlin")),
        ("/", "all runs", Scope(None, "", "", "Europe/Berlin")),
    ):  # fmt: skip
        made = site.post("/api/share", {"path": path, "hours": 1, "zone": "Europe/Berlin"})
        [link] = links.read(made["url"].rpartition("token=")[2], web.TOKEN, time.time())
        assert (made["what"], link.scope) == (what, scope)
        assert made["url"].startswith(f"http://{site.host}{path}{'&' if '?' in path else '?'}token=share.")
        assert share.scope_of(home.reader(), share.path_of(scope), scope.zone) == scope
    for path, status in (
        ("//evil.example", 400), ("/\\evil", 400), ("/api/runs", 400), ("x", 400), ("/nothing", 400), ("/compare", 400),
        ("/compare?runs=", 400), ("/explain", 400), ("/run/nobody", 404), ("/?where=config.lr+%3E", 400),
        ("/?q=plain", 400), ("/?project=plain-project&Where=x", 400),
        ("/run/a/b/c", 400),
    ):  # fmt: skip
        assert site.ask("POST", "/api/share", {"path": path})[0] == status, path
    for length, status in ((2000, 200), (2001, 400), (9000, 400)):
        path = f"/?where=name={'a' * (length - 5)}"
        answer = site.ask("POST", "/api/share", {"path": path})
        assert (answer[0], b"a link takes 2000" in answer[2]) == (status, status == 400)
    for hours in (0, -1, 1e9):
        assert site.ask("POST", "/api/share", {"hours": hours})[0] == 400


def test_a_comparison_of_fifty_runs_fits_into_a_link(site, make):
    """Fifty runs with ids as they are made fit into a link and a cookie; far too many are refused with a sentence."""
    runs = [make.run(f"a1b2{number:010d}") for number in range(50)]
    assert len(site.post("/api/share", {"path": f"/compare?runs={','.join(runs)}"})["url"]) < 4000
    chance = random.Random(1)
    long = [make.run("".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=120))) for _ in range(60)]
    status, _, body = site.ask("POST", "/api/share", {"path": f"/compare?runs={','.join(long)}"})
    assert (status, "share fewer runs" in json.loads(body)["error"]) == (400, True)


def test_two_links_show_what_both_show(home, site):
    """A browser that opens a second link keeps the first; each ends by itself, and the newest are kept if many."""

    def cookie_of(token, jar=""):
        headers = {"Cookie": jar} if jar else {}
        status, answer, _ = site.ask("GET", f"/?token={token}", token="", headers=headers)
        assert status == 303
        return answer["set-cookie"].partition(";")[0]

    def ids(jar):
        return sorted(site.get("/api/runs", token="", headers={"Cookie": jar})["ids"])

    first, second, over = _link(SCOPES["a run"]), _link(Scope(("inside02",))), _link(SCOPES["a project"], -1)
    jar = cookie_of(second, cookie_of(first))
    assert ids(jar) == ["inside01", "inside02"]
    assert len(site.get("/api/about", token="", headers={"Cookie": jar})["shared"]) == 2
    assert ids(f"{jar}~{over}") == ["inside01", "inside02"]
    for number in range(60):
        jar = cookie_of(_link(Scope((f"{number}" * 10,))), jar)
    assert len(jar) < 4000
    assert ids(cookie_of(second, jar)) == ["inside02"]


def test_a_link_cannot_be_made_up_widened_or_made_longer():
    """What was signed is what it shows and when it ends: anything else, or another key, is no link."""
    now = time.time()
    good = links.sign("key", int(now) + 60, SCOPES["a run"])
    assert links.read(good, "key", now)[0].scope == SCOPES["a run"]
    mark, end, packed, signed = good.split(".")
    _, _, wider, _ = links.sign("other", int(end), Scope(None)).split(".")
    for bad in (
        f"{mark}.{int(end) + 1}.{packed}.{signed}", f"{mark}.{end}.{wider}.{signed}", f"{mark}.{end}.{packed}.",
        links.sign("other", int(end), Scope(None)), links.sign("key", int(now) - 1, Scope(None)),
        f"{mark}.{end}.{signed}", f"{mark}.{end}..{signed}", f"{mark}..{packed}.{signed}",
        f"{mark}.{'9' * 400}.{packed}.{signed}",
        good[:-1], good + "=", good.upper(), "share", "share.", "...", "", "\ud800", "~", "~~~",
    ):  # fmt: skip
        assert links.read(bad, "key", now) == ()
    assert links.read(links.sign("", int(end), Scope(None)), "", now) == ()  # a home without a token has no links
    assert len(links.read(f"{good}~x~{good}", "key", now)) == 2


def test_a_long_text_costs_a_stranger_no_signatures():
    """Only what can be a cookie of ours is looked into: each part costs a signature, and strangers send many."""
    good = links.sign("key", int(time.time()) + 60, SCOPES["a run"])
    for crowd in ("~".join([good, *"x" * 40]), good + "~" * 60_000, f"{good}~{'x' * 5000}"):
        assert links.read(crowd, "key", time.time()) == ()
        assert links.why_not(crowd, ["key"]) == ""
    many = links.read("~".join([good, *"x" * 19]), "key", time.time())
    assert [link.token for link in many] == [good]
    held = [links.sign("key", int(time.time()) + 60 + n, Scope(("r",))) for n in range(30)]
    joined = links.joined(link for text in held for link in links.read(text, "key", time.time()))
    assert joined.split("~") == held[-20:]


def test_an_answer_that_is_underway_ends_with_its_link(home, site, monkeypatch):
    """A long file that is being sent when its link expires is not sent to its end."""
    digest = web.put_blob(home.home, bytes(64 << 20))
    monkeypatch.setattr(narrow._Home, "_names", lambda *_: True)
    token = _link(SCOPES["a run"], 3)
    with contextlib.closing(socket.create_connection(("127.0.0.1", site.port), timeout=60)) as peer:
        peer.sendall(
            f"GET /api/blobs/{digest} HTTP/1.1\r\nHost: {site.host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        assert b" 200 " in peer.recv(1000)
        while time.time() < int(token.split(".")[1]) + 0.2:
            time.sleep(0.05)
        count = 0
        while block := peer.recv(1 << 20):
            count += len(block)
    assert count < 64 << 20
