"""`vedette ui` over a real home: a run that lives is seen, drawn as it goes on, edited and stopped."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.journeys.conftest import eventually
from tests.rooms.conftest import QUICK, call
from tests.rooms.views.test_web_live import Listener
from tests.rooms.web import Site

_JOB = """
import time, vedette
run = vedette.init(project="web", name="living", config={"lr": 0.5})
bar = vedette.track(range(100000), "epoch")
for step in bar:
    run.log({"loss": 1 / (step + 1)}, step=step)
    if step % 20 == 0:
        print("step", step, flush=True)
    time.sleep(0.01)
"""


@contextmanager
def ui(home, *options, before=()):
    """Run the command as a user does; hand out where it answers. `before`: words before the command."""
    served = subprocess.Popen(
        [*before, sys.executable, "-m", "vedette", "ui", "--no-browser", "--port", "0", "--json", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **QUICK, "VEDETTE_HOME": home.root},
    )  # fmt: skip
    try:
        said = served.stdout.readline()
        assert said, served.stderr.read()
        url = urlsplit(json.loads(said)["url"])
        site = Site(url.port, parse_qs(url.query)["token"][0])
        site.process = served
        site.path = url.path
        yield site
    finally:
        if served.poll() is None:
            served.send_signal(signal.SIGINT)
        assert served.wait(60) == 0
        assert "Traceback" not in served.stderr.read()


def test_a_living_run_in_the_browser(home, start, measured):
    """A living run is listed; its points come as they are logged, only the new ones; edits and a stop arrive."""
    job = start(_JOB)
    with ui(home) as site:
        row = eventually(lambda: next(iter(_rows(site)), None), 60)
        assert (row["name"], row["project"], row["state"], row["alive"]) == ("living", "web", "running", True)
        run = row["id"]
        ear = Listener(site, run)
        ear.until(lambda told: told["points"])
        wish = {"of": [{"run": run, "name": "loss"}], "x": "step", "width": 4000}
        head, [(x, _)] = site.draw(**wish)
        seen = len(x)
        assert x.tolist() == list(range(seen))

        def more():
            head, cut = site.draw(**wish, since=more.cursor)
            more.cursor = head["cursor"]
            assert head["series"][0]["since"] is True
            return cut[0][0].tolist()

        more.cursor = head["cursor"]
        new = eventually(more, 60)
        assert new == list(range(seen, seen + len(new)))
        lines = site.get(f"/api/runs/{run}/logs?grep=step")
        assert lines["rows"][0]["text"].startswith("step")
        assert lines["rows"][0]["pid"] == job.pid
        assert site.get(f"/api/runs/{run}")["bars"][0]["msg"] == "epoch"
        site.post(f"/api/runs/{run}/edit", {"star": True, "tags": {"good": True}, "description": "<b>mine</b>"})
        row = eventually(lambda: next((row for row in _rows(site) if row["star"]), None), 60)
        assert (row["tags"], row["description"]) == (["good"], "<b>mine</b>")
        eventually(lambda: site.get(f"/api/runs/{run}/usage")["processes"], 60)
        site.post(f"/api/runs/{run}/stop")
        job.wait(60)
        eventually(lambda: not _rows(site)[0]["alive"], 60)
        site.post(f"/api/runs/{run}/remove")
        eventually(lambda: not _rows(site), 60)
        site.post(f"/api/runs/{run}/remove", {"undo": True})
        eventually(lambda: _rows(site), 60)
        ear.close()


def _rows(site):
    status, _, body = site.ask("GET", "/api/runs")
    return json.loads(body)["rows"] if status == 200 else []


def test_a_home_in_which_nothing_was_logged(home):
    """The page opens over an empty home; its token is for the owner alone, and stays the same."""
    with ui(home) as site:
        assert site.get("/api/about")["projects"] == []
        assert site.ask("GET", "/")[0] == 200
        token = os.path.join(home.root, "ui.token")
        assert os.stat(token).st_mode & 0o777 == 0o600
    with ui(home) as again:
        assert again.token == site.token  # a bookmark, and the cookie, stay good


def test_no_token_stands_on_a_command_line(home, tmp_path):
    """The browser is given a file of the owner's alone, with a code that opens the page once, and is no token."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {seen}.html\ncat /proc/$$/cmdline > {seen}\n')
    browser.chmod(0o755)
    ours, its = pty.openpty()  # it opens a browser only for somebody who sits before it
    environ = {**os.environ, **QUICK, "VEDETTE_HOME": home.root, "DISPLAY": ":9", "BROWSER": str(browser)}
    served = subprocess.Popen([sys.executable, "-m", "vedette", "ui", "--port", "0"], stdout=its, env=environ)
    os.close(its)
    try:
        with open(ours) as screen:
            url = urlsplit(screen.readline().strip())
            token = parse_qs(url.query)["token"][0]
            eventually(lambda: seen.exists() and seen.read_bytes())
            page = (tmp_path / "seen.html").read_text()
            assert token not in seen.read_text() + page
            target = urlsplit(re.search('url=([^"]*)', page)[1])
            site = Site(target.port, token)
            statuses = [site.ask("GET", f"/?{target.query}", token="")[0] for _ in range(2)]
            assert statuses == [303, 401]
            for _ in range(2):  # what is printed may be pasted into any number of browsers
                assert site.ask("GET", f"/?{url.query}", token="")[0] == 303
            eventually(lambda: not [name for name in os.listdir(home.root) if name.endswith(".html")])
    finally:
        served.terminate()
        served.wait(60)


def test_a_run_is_opened_by_name(home, finish):
    """`vedette ui RUN` leads to the page of that run; one that is not there is said in a sentence."""
    assert finish("import vedette; vedette.init(name='mine').log({'loss': 1.0})")[0] == 0
    with ui(home, "mine") as site:
        assert site.path.startswith("/run/")
        assert site.get("/api/runs/" + site.path.rpartition("/")[2])["name"] == "mine"
    done = call("ui", "--no-browser", "--port", "0", "nobody", home=home.root)
    assert done.returncode == 2
    assert "there is no run 'nobody'" in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_wide_bind_is_refused(home, host):
    """Listening beyond this machine without TLS is refused, with a sentence that says what to do."""
    done = call("ui", "--no-browser", "--host", host, home=home.root)
    assert done.returncode == 2
    assert "--tls" in done.stderr
    assert "ssh -L" in done.stderr


def test_a_port_that_is_taken_is_said(home):
    """A port on which somebody listens already is said in a sentence."""
    with ui(home) as site:
        done = call("ui", "--no-browser", "--port", str(site.port), home=home.root)
        assert done.returncode == 2
        assert "another program listens there already" in done.stderr


def test_a_crowd_takes_no_descriptor_that_others_need(home):
    """With few descriptors it answers while more connections than that hang on the line with half a request each."""
    few = ("sh", "-c", 'ulimit -n 128; exec "$0" "$@"')
    with ui(home, before=few) as site, contextlib.ExitStack() as stack:
        for _ in range(150):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", site.port)))
            with contextlib.suppress(OSError):  # it had to go already
                idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(3):
            assert site.get("/api/about")["version"]
