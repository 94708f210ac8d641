"""What the API answers, over a store with made-up runs."""

import contextlib
import gzip
import hashlib
import json
import math
import re
import socket
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.rooms import web
from tests.rooms.conftest import BORN, SECOND
from tests.rooms.described import problems
from tests.rooms.told_hub import ToldHub
from vedette import wire
from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.model import Blob, Event, Span
from vedette.views.web import openapi, series
from vedette.views.web.pages import PAGES
from vedette.views.web.server import ROUTES
from vedette.wire import Change

XSS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</title><svg/onload=alert(1)>",
]


@pytest.fixture
def access(make, store):
    for number in range(30):
        make.run(
            f"run{number:02d}", f"name-{number}", "failed" if number % 3 == 0 else "done",
            start_t=BORN + number * SECOND, project="a" if number < 20 else "b",
            **{"config.lr": number / 10, "config.opt.name": "sgd", "tag.best": True},
        )  # fmt: skip
        make.points(f"run{number:02d}", "loss", [1.0, float(number)])
    return web.access(store)


@pytest.fixture
def hub(access):
    with ToldHub(access.home) as found:
        yield found


@pytest.fixture
def blobs(access):
    files = (b"\x89PNG\r\n\x1a\n" + b"0" * 20, b"<html><script>alert(1)</script>", b"\x00\x01\x02bin", b"<svg/>")
    return [web.put_blob(access.home, data) for data in files]


@pytest.fixture
def site(access):
    with web.site(access) as found:
        yield found


def test_about(site):
    """What is served is said: version, projects, whether a hub lives, and whether anything may be changed."""
    about = site.get("/api/about")
    assert (about["hub"], about["read_only"], about["projects"]) == (False, False, ["a", "b"])


def test_a_home_without_a_store(tmp_path):
    """Where nothing was ever logged the server says so, and what it serves at all."""
    with web.site(HomeAccess(Home(str(tmp_path)))) as site:
        assert site.get("/api/about")["projects"] == []
        status, _, body = site.ask("GET", "/api/runs")
        assert status == 404
        assert b"nothing has been logged" in body
        assert str(tmp_path).encode() not in body  # who has a link to share need not know where the home is


def test_runs_are_filtered_sorted_and_cut(site):
    """The list takes the same `where` as the command line, any column to sort by, and a page of it."""
    page = site.get("/api/runs?limit=5&columns=config.lr,metric.loss")
    assert page["total"] == 30
    assert page["ids"] == [f"run{n:02d}" for n in (29, 28, 27, 26, 25)]
    assert page["rows"][0]["values"] == {"config.lr": 2.9, "metric.loss": 29.0}
    assert {"name": "config.lr", "count": 30} in page["columns"]
    assert {"name": "metric.loss", "count": 30} in page["columns"]
    found = site.get("/api/runs?where=config.lr+%3E+2+and+state+%3D+failed&sort=config.lr")
    assert found["ids"] == ["run21", "run24", "run27"]
    assert site.get("/api/runs?sort=-metric.loss&limit=2&offset=1")["ids"] == ["run28", "run27"]
    assert site.get("/api/runs?project=b&sort=name&limit=2")["ids"] == ["run20", "run21"]
    assert site.get("/api/runs?where=name-7")["ids"] == ["run07"]
    assert site.get("/api/runs?group=-project&sort=start_t&limit=2")["ids"] == ["run20", "run21"]
    assert site.get("/api/runs?group=project&limit=2")["ids"] == ["run19", "run18"]
    assert site.get("/api/runs?sort=config.nothing&limit=1")["total"] == 30


def test_a_list_is_asked_for_within_bounds(site):
    """Who asks for more columns than a list has, or by a filter without end, is refused in a sentence."""
    names = [f"config.k{n}" for n in range(200)]
    asked = ",".join([*names, *names])  # a name counts once
    assert site.get(f"/api/runs?limit=1&columns={asked}")["rows"][0]["values"].keys() == {*names}
    for query, why in (
        (f"columns={asked},config.x", "columns names 201 columns: it takes 200 at most"),
        (
            "where=" + "+or+".join(["id=a"] * 1001),
            "the filter has more than 1000 conditions: write FIELD in (VALUE, VALUE), or ask in several parts",
        ),
    ):
        status, _, body = site.ask("GET", f"/api/runs?{query}")
        assert (status, json.loads(body)["error"]) == (400, why)


def test_one_run(site, make):
    """A run is told whole: config nested as it was given, series, tries, processes, marks."""
    make.facts(
        "run01", Span("run01/1", BORN + SECOND, "done", kind="try", parent="run01", attrs={"n": 1}),
        Span("run01/1/o", BORN, "done", kind="process", name="train", parent="run01/1",
             attrs={"pid": 7, "ppid": 1, "host": "camp", "argv": ["python", "train.py"]}),
        Event("run01", BORN + 5 * SECOND, "mark", 20, "half time"),
    )  # fmt: skip
    run = site.get("/api/runs/run01")
    assert run["config"] == {"lr": 0.1, "opt": {"name": "sgd"}}
    assert run["start_t"] == (BORN + SECOND) / 1e6
    assert [(one["name"], one["count"], one["last"]) for one in run["series"]] == [("loss", 2, 1.0)]
    assert [one["argv"] for one in run["processes"]] == [["python", "train.py"]]
    assert run["marks"] == [{"t": (BORN + 5 * SECOND) / 1e6, "text": "half time"}]
    assert run["tags"] == ["best"]
    assert run["tries"][0]["n"] == 1


def test_only_what_changed_since_a_cursor(hub, site, make):
    """With the cursor of an earlier answer, the list tells only rows that may have changed, and the order of all."""
    cursor = settled(site)
    assert site.get(f"/api/runs?since={cursor}")["rows"] == []
    make.facts("run05", Span("run05", BORN + 10**12, attrs={"description": "new"}))
    hub.tell(Change(spans=["run05"]))
    found = _until(lambda: site.get(f"/api/runs?since={cursor}"), lambda page: page["rows"])
    assert [(row["id"], row["description"]) for row in found["rows"]] == [("run05", "new")]
    assert found["whole"] is False
    assert len(found["ids"]) == 30
    hub.tell(Change(missed=True))
    _until(lambda: site.get(f"/api/runs?since={cursor}"), lambda page: page["whole"])
    assert site.get("/api/runs?since=nonsense-9")["whole"] is True


def settled(site):
    """Return a cursor of when the server listens to the hub: its first word is that something was missed."""
    return _until(lambda: site.get("/api/runs")["cursor"], lambda now: int(now.partition("-")[2]) >= 1)


def _until(ask, holds):
    deadline = time.monotonic() + 60
    while not holds(found := ask()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("seq", ["\u00b2", "\u0663", "9" * 5000, "-1", ""])
def test_a_cursor_that_is_none_gets_all_runs(site, seq):
    """A cursor that was never handed out is none: all rows come."""
    epoch = site.get("/api/runs")["cursor"].partition("-")[0]
    assert site.get(f"/api/runs?since={quote(f'{epoch}-{seq}')}")["whole"] is True


def test_lines_are_paged_searched_and_tailed(site, make):
    """Lines come in pages: the newest, those before and after an id, by text, level and time."""
    make.events("run00", *(f"line {n}" for n in range(25)))
    make.events("run00", "an Error", level=40)
    newest = site.get("/api/runs/run00/logs?limit=10")
    assert [row["text"] for row in newest["rows"]][-2:] == ["line 24", "an Error"]
    assert (newest["first"], newest["last"]) == (False, True)
    before = site.get(f"/api/runs/run00/logs?limit=100&before={newest['rows'][0]['id']}")
    assert [row["text"] for row in before["rows"]] == [f"line {n}" for n in range(16 + 1)][:17][: len(before["rows"])]
    assert len(before["rows"]) == 16
    assert (before["first"], before["last"]) == (True, False)
    start = site.get("/api/runs/run00/logs?limit=3&after=0")
    assert [row["text"] for row in start["rows"]] == ["line 0", "line 1", "line 2"]
    tail = site.get(f"/api/runs/run00/logs?after={newest['rows'][-1]['id']}")
    assert tail["rows"] == []
    assert tail["last"] is True
    assert [row["text"] for row in site.get("/api/runs/run00/logs?grep=ERROR")["rows"]] == ["an Error"]
    assert len(site.get("/api/runs/run00/logs?level=error")["rows"]) == 1
    assert site.get("/api/runs/run00/logs?grep=.*")["rows"] == []  # text, no pattern: nobody can ask for a slow one
    density = site.get("/api/runs/run00/density?buckets=4")
    assert sum(density["counts"]["info"]) == 25
    assert sum(density["counts"]["error"]) == 1


def test_bytes_are_shown_only_where_they_do_nothing(site, blobs):
    """Images and text are shown in a sandbox, as what their bytes are; all else is to be kept, whatever its name."""
    png, page, other, _svg = blobs
    for digest, name, kind, shown in (
        (png, "x.html", "image/png", "inline"),
        (page, "x.html", "text/plain; charset=utf-8", "inline"),
        (page, "x.png", "text/plain; charset=utf-8", "inline"),
        (other, "x.png", "application/octet-stream", "attachment"),
        (_svg, "x.svg", "text/plain; charset=utf-8", "inline"),
    ):
        status, headers, body = site.ask("GET", f"/api/blobs/{digest}?name={name}")
        assert status == 200
        assert hashlib.sha256(body).hexdigest() == digest
        assert headers["content-type"] == kind
        assert headers["content-disposition"].startswith(shown)
        assert headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert headers["x-content-type-options"] == "nosniff"
    for name in ("..%2F..%2Fa.txt", "a%0d%0aSet-Cookie:x", "..%5c..%5ca", "%22;x=", "%00", "\u202e"):
        status, headers, _ = site.ask("GET", f"/api/blobs/{png}?name={name.encode().decode('latin-1')}")
        assert status in (200, 400)
        if status == 200:
            assert re.fullmatch(r"inline; filename\*=UTF-8''[\w.%~-]+", headers["content-disposition"])
            assert "set-cookie" not in headers


def test_an_answer_with_points_is_bounded(site, monkeypatch):
    """Who asks for more points than fit into an answer is told to ask for less."""
    wish = {"of": [{"run": f"run{number:02d}", "name": "loss"} for number in range(30)]}
    assert site.draw(**wish)[0]["series"]
    monkeypatch.setattr(series, "_MOST_BYTES", 500)
    status, _, body = site.ask("POST", "/api/series", {**wish, "width": 700})
    assert (status, "ask for less" in json.loads(body)["error"]) == (400, True)


def test_files_of_a_run(site, make, blobs):
    """The files of a run are told by name, digest, size and media."""
    digest = blobs[0]
    make.facts("run03", Blob("run03", BORN, "plot.png", digest, 28, "image/png"))
    assert [(one["name"], one["digest"]) for one in site.get("/api/runs/run03/files")["files"]] == [
        ("plot.png", digest)
    ]
    assert site.get("/api/runs/run03")["files"][0]["size"] == 28


def test_the_code_of_a_run(make, store):
    """The manifest and the diff of a run's code are read from its blobs, the cells of a notebook from its events."""
    told = {
        "code.manifest": json.dumps([{"path": "train.py", "digest": "ab" * 32, "size": 3, "mode": 420}]).encode(),
        "git.diff": b"--- a\n+++ b\n",
    }
    access = web.access(store)
    make.run("r", "r", **{"git.commit": "abc", "git.dirty": True})
    for name, data in told.items():
        make.facts("r", Blob("r", BORN, name, web.put_blob(access.home, data), len(data), ""))
    make.run("n", "n", notebook="/w/x.ipynb")
    make.facts("n", Event("n", BORN, "cell", 10, "x = 1", {"n": 4}))
    with web.site(access) as site:
        code, cells = site.get("/api/runs/r/code"), site.get("/api/runs/n/code")
    assert (code["notebook"], code["cells"]) == ("", "")
    assert (cells["notebook"], cells["cells"]) == ("notebook.py", "# %% [4]\nx = 1\n")
    assert [(one["path"], one["size"]) for one in cells["manifest"]] == [("notebook.py", 15)]
    assert code["manifest"][0]["path"] == "train.py"
    assert code["git"] == {"commit": "abc", "dirty": True}
    assert code["diff"] == "--- a\n+++ b\n"


def test_edits(hub, site, make):
    """Star, tags, description, notes and name are changed by POST; stopping and removing too, where they make sense."""
    wish = {"star": True, "tags": {"good": True, "bad": False}, "description": "d", "notes": "n", "name": "new"}
    assert site.post("/api/runs/run04/edit", wish) == {"id": "run04"}
    attrs = {"description": "d", "notes": "n", "name": "new", "star": True, "tag.good": True, "tag.bad": False}
    assert hub.asked.pop() == wire.Edit(["run04"], attrs)
    for bad in ({}, {"name": " "}, {"stars": True}, {"name": "x" * 300}, {"tags": {"": True}}, {"star": "yes"}):
        assert site.ask("POST", "/api/runs/run04/edit", bad)[0] == 400
    assert site.ask("POST", "/api/runs/run04/stop", {})[0] == 409
    make.run("alive", "alive", "running", heard_t=1 << 62)
    assert site.ask("POST", "/api/runs/alive/remove", {})[0] == 409
    site.post("/api/runs/alive/stop")
    told = hub.asked.pop().command
    assert (told.to, told.verb) == ("alive", "stop")
    site.post("/api/runs/run04/remove")
    assert hub.asked.pop() == wire.Edit(["run04"], {"removed": True})
    make.run("gone", "gone", removed=True)
    site.post("/api/runs/gone/remove", {"undo": True})
    assert hub.asked.pop() == wire.Edit(["gone"], {"removed": False})


def test_what_users_wrote_is_never_markup(make, store):
    """Texts that would be markup come back as JSON, with its type, from every route that tells them."""
    for number, text in enumerate(XSS):
        run = f"x{number}"
        make.run(run, text, "failed", project=text, cause=text, notes=text, description=text, **{"config.a": text})
        make.events(run, text)
        make.points(run, text, [1.0])
    with web.site(web.access(store)) as site:
        for path in (
            "/api/runs",
            "/api/about",
            *(f"/api/runs/x{n}{more}" for n in range(len(XSS)) for more in ("", "/logs")),
        ):
            status, headers, body = site.ask("GET", path)
            assert status == 200
            assert headers["content-type"] == "application/json"
            assert headers["x-content-type-options"] == "nosniff"
            json.loads(body)
        status, headers, body = site.ask("GET", "/api/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3Ezzz")
        assert status == 404
        assert headers["content-type"] == "application/json"


def test_runs_are_compared_and_explained(site):
    """Runs come beside each other, with what differs; two of them with the likeliest causes first."""
    found = site.get("/api/compare?runs=run01,run02,run01")
    assert [row["id"] for row in found["runs"]] == ["run01", "run02"]
    assert {"key": "config.lr", "values": [0.1, 0.2]} in [
        {"key": one["key"], "values": one["values"]} for one in found["keys"] if one["differs"]
    ]
    why = site.get("/api/explain?a=run01&b=run02")
    assert (why["a"]["id"], why["b"]["id"]) == ("run01", "run02")
    assert (why["causes"][0]["kind"], why["causes"][0]["key"]) == ("config", "config.lr")
    for path in ("/api/compare", "/api/explain?a=run01", "/api/compare?runs=" + ",".join(["run01"] * 501)):
        assert site.ask("GET", path)[0] == 400
    assert site.ask("GET", "/api/explain?a=run01&b=nobody")[0] == 404


def test_the_description_is_that_of_the_routes(site):
    """The OpenAPI document has each route of the table, and no other; every reference in it leads somewhere."""
    told = site.get("/api/openapi.json")
    assert {(method.upper(), path) for path, found in told["paths"].items() for method in found} == {
        (route.method, route.path) for route in ROUTES
    }
    assert told["openapi"].startswith("3.1")
    for found in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(told)):
        assert found in told["components"]["schemas"]
    for route in ROUTES:
        named = {one["name"] for one in told["paths"][route.path][route.method.lower()]["parameters"]}
        assert named == {*route.takes, *re.findall(r"{(\w+)}", route.path)}
    assert openapi.describe(ROUTES) == told or json.loads(json.dumps(openapi.describe(ROUTES))) == told


@pytest.fixture
def odd(hub, site, blobs, make):
    """Two runs that have a bit of everything, numbers among it that JSON cannot say."""
    digest = blobs[0]
    for number, run in enumerate(("train-1", "train-2")):
        make.run(run, run, "running" if number else "failed", start_t=BORN, heard_t=1 << 62, cause="why", **{
            "config.lr": math.nan if number else 0.1, "config.list": [1, None, math.inf], "git.commit": f"c{number}",
            "argv": ["train.py", str(number)], "host": "camp", "cpu.count": number, "capture": "done", "env.A": number,
        })  # fmt: skip
        make.points(run, "loss", [1.0, math.inf, math.nan] if number else [1.0, 2.0, 3.0])
        make.points(run, "count", [1, 2, 3])
        make.facts(
            run, Span(f"{run}/1", BORN, "running", kind="try", parent=run, attrs={"n": 1}),
            Span(f"{run}/1/o", BORN, "running", kind="process", name="main", parent=f"{run}/1", attrs={"pid": 7}),
            Span(f"{run}/bar", BORN, "running", kind="progress", name="bar", parent=run, attrs={"total": 9}),
            Event(run, BORN, "mark", 20, "half time"), Blob(run, BORN, "plot.png", digest, 28, "image/png"),
        )  # fmt: skip
        make.points(f"{run}/1/o", "cpu_percent", [1.0, math.nan])
        make.events(run, "said")
    return site


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if isinstance(route.gives, type)], ids=lambda one: one.path
)
def test_answers_are_what_the_description_says(odd, route):
    """The JSON answer to the example of every route has just the fields of the OpenAPI document, of the same types."""
    path = route.path.replace("{run}", "train-2")
    query = urlencode({name: one.example for name, one in route.takes.items() if one.example})
    answer = odd.get(f"{path}?{query}") if route.method == "GET" else odd.post(path, route.example)
    assert _wrong(odd, route, answer) == []
    # The check catches an answer with a field too many, and one with a field too few.
    assert _wrong(odd, route, answer | {"more": 1}) == ["$: more is not described"]
    assert _wrong(odd, route, {}) != []


def _wrong(site, route, answer):
    told = site.get("/api/openapi.json")
    content = told["paths"][route.path][route.method.lower()]["responses"]["200"]["content"]
    (found,) = content.values()
    schema = found["schema"].get("contentSchema", found["schema"])
    return problems(answer, schema, told["components"]["schemas"])


def test_what_answers_carry_is_what_the_description_says(odd):
    """The head of an answer with points, and the data of an event, are described as well."""
    routes = {route.path: route for route in ROUTES if route.carries is not None}
    head, _ = odd.draw(of=[{"run": "train-2", "name": "loss"}])
    assert _wrong(odd, routes.pop("/api/series"), head) == []
    with contextlib.closing(socket.create_connection(("127.0.0.1", odd.port), timeout=60)) as peer:
        words = f"GET /api/live HTTP/1.1\r\nHost: {odd.host}\r\nAuthorization: Bearer {odd.token}\r\n\r\n"
        peer.sendall(words.encode())
        data = next(line for line in peer.makefile() if line.startswith("data: "))
    assert _wrong(odd, routes.pop("/api/live"), json.loads(data[6:])) == []
    assert routes == {}


def test_the_types_of_the_page_are_current(monkeypatch):
    """web/src/lib/api.gen.ts is made from the description as it is now; `npm run types` in web/ makes it anew."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "web"))
    import api_types

    assert api_types.PLACE.read_text() == api_types.text(openapi.describe(ROUTES)), "run `npm run types` in web/"
    with pytest.raises(ValueError, match="does not know"):
        api_types.text({"components": {"schemas": {"A": {"description": "", "required": [], "properties": {
            "a": {"type": "string", "pattern": "x"}}}}}, "paths": {}})  # fmt: skip


def test_every_route_is_in_the_documents():
    """The page on the API names each route of the table, and no other; what can be asked for is named beside it."""
    text = (Path(__file__).parents[3] / "docs" / "ui.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+ /api/[^`]*)` \| (.*) \|$", text, re.MULTILINE))
    assert set(rows) == {f"{route.method} {route.path}" for route in ROUTES}


def test_the_page_is_served_by_name(access, tmp_path):
    """Pages get index.html, hashed assets are kept for long, links out of the directory are not followed."""
    (tmp_path / "page" / "assets").mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("<!doctype html>page")
    (tmp_path / "page" / "assets" / "main-AbCd1234.js").write_text("js")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "page" / "assets" / "out.txt").symlink_to(tmp_path / "secret")
    with web.site(access, page=str(tmp_path / "page")) as site:
        for path in (*(one.format(run="run01", tab="logs") for one in PAGES), "/compare?runs=a,b"):
            status, headers, body = site.ask("GET", path)
            assert (status, body) == (200, b"<!doctype html>page")
            assert headers["cache-control"] == "no-cache"
        assert site.ask("GET", "/", headers={"If-None-Match": headers["etag"]})[0] == 304
        status, headers, body = site.ask("GET", "/assets/main-AbCd1234.js")
        assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        assert "immutable" in headers["cache-control"]
        assert "content-encoding" not in headers
        _, headers, small = site.ask("GET", "/assets/main-AbCd1234.js", headers={"Accept-Encoding": "br, gzip"})
        assert (headers["content-encoding"], gzip.decompress(small)) == ("gzip", body)
        for path in ("/assets/out.txt", "/assets/../../secret", "/assets/%2e%2e/%2e%2e/secret", "/secret", "/assets"):
            assert site.ask("GET", path)[0] == 404
        assert site.ask("POST", "/", {})[0] == 405
    with web.site(access, page=str(tmp_path / "none")) as site:
        assert b"scripts/install" in site.ask("GET", "/")[2]
